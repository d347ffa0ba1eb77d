"""The namespace that a command works in where none is given."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gang_tools.cli import context
from gang_tools.cli.context import age, default_namespace, named

TEAM = {
    "current-context": "work",
    "contexts": [
        {"name": "home", "context": {"namespace": "family"}},
        {"name": "work", "context": {"cluster": "c", "namespace": "team"}},
    ],
}
WANT = {
    "the namespace of the current context": (TEAM, "team"),
    "a context without a namespace": (
        {"current-context": "a", "contexts": [{"name": "a", "context": {}}]},
        "default",
    ),
    "a context that is not there": ({**TEAM, "current-context": "gone"}, "default"),
    "no kubeconfig at all": ("just words", "default"),
    "no YAML": ("a: [", "default"),
}


@pytest.mark.parametrize(("content", "want"), WANT.values(), ids=WANT)
def test_a_kubeconfig_names_the_namespace(tmp_path: Path, content: Any, want: str) -> None:
    path = tmp_path / "config"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    assert default_namespace(path) == want


def test_the_environment_names_files_and_the_first_readable_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(TEAM))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{path}")
    assert default_namespace(None) == "team"
    assert default_namespace(tmp_path / "missing") == "default"


def test_a_context_that_is_named_counts(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(TEAM))
    assert default_namespace(path, "home") == "family"
    assert default_namespace(path, "") == "team"


def test_a_context_of_one_file_may_be_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(yaml.safe_dump({"current-context": "home", "contexts": []}))
    second.write_text(yaml.safe_dump(TEAM))
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}")
    assert default_namespace(None) == "family"


@pytest.mark.parametrize(
    ("content", "want"), [("apps\n", "apps"), ("", "default"), (None, "default")]
)
def test_in_a_pod_it_is_the_pods_own_unless_a_kubeconfig_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, want: str
) -> None:
    given, of_pod = tmp_path / "config", tmp_path / "namespace"
    given.write_text(yaml.safe_dump(TEAM))
    if content is not None:
        of_pod.write_text(content)
    monkeypatch.setattr(context, "OF_POD", of_pod)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBECONFIG", str(given))
    assert default_namespace(None) == want
    assert default_namespace(given) == "team"
    assert default_namespace(None, "home") == "family"


def test_a_namespace_file_that_cannot_be_read_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "namespace"
    odd.write_bytes(b"\xff\xfe")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    for each in (odd, tmp_path):  # no UTF-8, and a directory
        monkeypatch.setattr(context, "OF_POD", each)
        assert default_namespace(None) == "default"


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (28_799, "7h59m"),
        (172_799, "47h"),
        (2 * 86_400 + 3_601, "2d1h"),
        (8 * 86_400, "8d"),
        (729 * 86_400, "729d"),
        (3 * 365 * 86_400 + 86_401, "3y1d"),
        (8 * 365 * 86_400, "8y"),
    ],
)
def test_ages_are_those_of_kubectl(seconds: int, want: str) -> None:
    assert age(seconds) == want


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (("job", "a", None), ("job", "a", None)),
        (("jobs.batch/a", "", None), ("job", "a", None)),
        (("JobSet/a", "", None), ("job", "a", "jobset")),
        (("job/a", "", "batch/job"), ("job", "a", "batch/job")),
        (("pg", "a", None), ("podgroup", "a", None)),
        (("podgroups.scheduling.x-k8s.io/a", "", None), ("podgroup", "a", None)),
    ],
)
def test_objects_are_named_as_in_kubectl(
    words: tuple[str, str, str | None], want: tuple[str, str, str | None]
) -> None:
    assert named(*words, kinds=("workload", "podgroup")) == want
