"""Manifests of the queue as people write them."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from extender.api.definitions import DEFINITIONS

SAMPLES = Path(__file__).parents[3] / "manifests" / "samples"
GROUP = "kueue.x-k8s.io/"
MODELS = {
    (f"{definition.group}/{version.name}", definition.kind): version.model
    for definition in DEFINITIONS
    for version in definition.versions
}
WRITTEN: dict[str, dict[str, Any]] = {
    f"{path.name}: {each['kind']} {each['metadata']['name']}": each
    for path in sorted(SAMPLES.glob("*.yaml"))
    for each in yaml.safe_load_all(path.read_text())
    if each["apiVersion"].startswith(GROUP)
}


def test_there_are_samples_of_the_kinds_that_people_write_in_both_versions() -> None:
    assert {(each["apiVersion"], each["kind"]) for each in WRITTEN.values()} == {
        (f"{GROUP}{version}", kind)
        for version in ("v1beta1", "v1beta2")
        for kind in ("ClusterQueue", "LocalQueue", "ResourceFlavor", "WorkloadPriorityClass")
    }


@pytest.mark.parametrize("each", WRITTEN.values(), ids=WRITTEN)
def test_a_sample_is_read(each: dict[str, Any]) -> None:
    read = MODELS[each["apiVersion"], each["kind"]].model_validate(each)

    said = read.model_dump(by_alias=True, exclude_unset=True)
    assert said.get("spec") == each.get("spec")


WANT_REFUSED: dict[str, tuple[str, dict[str, Any], tuple[str | int, ...]]] = {
    "a misspelt field": ("ClusterQueue", {"cohortNames": "a"}, ("spec", "cohortNames")),
    "the older word": ("ClusterQueue", {"cohort": "a"}, ("spec", "cohort")),
    "a strategy that there is not": (
        "ClusterQueue",
        {"queueingStrategy": "LIFO"},
        ("spec", "queueingStrategy"),
    ),
    "a flavor without quotas": (
        "Cohort",
        {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "a"}]}]},
        ("spec", "resourceGroups", 0, "flavors", 0, "resources"),
    ),
    "a name that is none": ("LocalQueue", {"clusterQueue": "A_B"}, ("spec", "clusterQueue")),
    "a taint without an effect": (
        "ResourceFlavor",
        {"nodeTaints": [{"key": "a"}]},
        ("spec", "nodeTaints", 0, "effect"),
    ),
}


@pytest.mark.parametrize(("kind", "spec", "want"), WANT_REFUSED.values(), ids=WANT_REFUSED)
def test_a_wrong_manifest_is_refused_where_it_is_wrong(
    kind: str, spec: dict[str, Any], want: tuple[str | int, ...]
) -> None:
    version = f"{GROUP}v1beta2"
    each = {"apiVersion": version, "kind": kind, "metadata": {"name": "one"}, "spec": spec}

    with pytest.raises(ValidationError) as refused:
        MODELS[version, kind].model_validate(each)
    assert [error["loc"] for error in refused.value.errors()] == [want]
