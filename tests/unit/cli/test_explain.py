"""`gang-extender explain` before it reaches the API server."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli.explain import lacks_rights
from extender.cli.main import app
from extender.config import Queue
from extender.kube.errors import ForbiddenError
from extender.queueing.options import AdmissionOptions

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        pytest.param(("job",), 2, "Missing argument", id="no name"),
        pytest.param(("job", "a", "-o", "xml"), 2, "xml", id="no such form"),
        pytest.param(("workload", "a", "--kind", "Job"), 2, "--kind", id="a kind of workload"),
        pytest.param(("job", "a", "--config", "none.yaml"), 2, "none.yaml", id="no settings"),
        pytest.param(("job", "a", "--kubeconfig", "none"), 1, "kubeconfig none", id="no cluster"),
        pytest.param(("podgroup",), 2, "Missing argument", id="no name of a PodGroup"),
        pytest.param(("pod", "a", "-o", "xml"), 2, "xml", id="no such form of a pod"),
        pytest.param(("podgroup", "a", "--config", "none.yaml"), 2, "none.yaml", id="no file"),
        pytest.param(("pod", "a", "--kubeconfig", "none"), 1, "kubeconfig none", id="no way in"),
    ],
)
def test_what_is_wrong_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, argv: tuple[str, ...], code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    result = CliRunner().invoke(app, ["explain", *argv])

    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr


def test_settings_become_options_of_admission() -> None:
    chosen = Queue(aging_seconds=3, ignore_undeclared_resources=True)

    assert chosen.options() == AdmissionOptions(aging=3, quota_check="IgnoreUndeclared")
    assert Queue().options() == AdmissionOptions()


def test_a_user_without_rights_is_shown_the_ways_to_an_answer() -> None:
    text = lacks_rights(ForbiddenError("GET /api/v1/namespaces: 403"))
    assert "GET /api/v1/namespaces: 403" in text
    assert "ClusterRole gang-explain-reader" in text
    assert "/workloads/NAMESPACE/NAME/explanation" in text
    assert "kubectl describe pg" in text


def test_the_role_that_the_message_names_is_shipped() -> None:
    [role] = [
        each
        for each in yaml.safe_load_all((ROOT / "manifests/rbac/viewer.yaml").read_text())
        if each["metadata"]["name"] == "gang-explain-reader"
    ]
    readable = {
        (group, plural)
        for r in role["rules"]
        for group in r["apiGroups"]
        for plural in r["resources"]
        if {"get", "list"} <= set(r["verbs"])
    }
    assert {("batch", "jobs"), ("scheduling.x-k8s.io", "podgroups")} <= readable
    needed = {("", "namespaces"), ("", "limitranges"), ("", "nodes"), ("", "pods")}
    assert needed | {("node.k8s.io", "runtimeclasses"), ("kueue.x-k8s.io", "workloads")} <= readable
