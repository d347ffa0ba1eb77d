"""Which resources kube-scheduler does not look for on nodes."""

import pytest

from extender.resources.ignored import IgnoredResources, ResourceNames

NAMES = ResourceNames.parse(["example.com/plan", "licences.example.com/*"])
IGNORED = IgnoredResources(NAMES, {"batch": ResourceNames.parse(["example.com/gpu"])})

WANT = {
    ("example.com/plan", "default-scheduler"): True,
    ("example.com/plan", "batch"): True,
    ("example.com/planner", "default-scheduler"): False,
    ("licences.example.com/solver", "default-scheduler"): True,
    ("example.com/gpu", "batch"): True,
    ("example.com/gpu", "default-scheduler"): False,
    ("deviceclass.resource.kubernetes.io/gpu", "default-scheduler"): True,
    ("cpu", "default-scheduler"): False,
    ("pods", "batch"): False,
}


@pytest.mark.parametrize(("asked", "want"), WANT.items(), ids=map("-".join, WANT))
def test_what_is_ignored(asked: tuple[str, str], want: bool) -> None:
    assert IGNORED.is_ignored(*asked) is want


@pytest.mark.parametrize(
    "pattern",
    ["cpu", "memory", "*", "", "example.com", "example.com/", "/x", "a/b/c", "kubernetes.io/batch"],
)
def test_native_resources_are_always_looked_for(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"is not an extended resource: write example\.com/name"):
        ResourceNames.parse([pattern])
