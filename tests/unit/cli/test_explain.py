"""`gang-extender explain` before it reaches the API server."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

from extender.config.queue import Queue
from extender.kube.errors import ForbiddenError
from extender.queueing.rules import AdmissionOptions
from gang_tools.cli.explain import lacks_rights
from gang_tools.cli.main import app
from gang_tools.explanations import asks_for_less
from tests.harness.kinds import jobset, trainjob
from tests.queue_makers import Admissions, cluster_queue, condition, local_queue, workload
from tests.snapshots import JOBS, PODS, snapshot_of

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        pytest.param(("job",), 2, "give one name: job NAME, or job/NAME", id="no name"),
        pytest.param(
            ("job/a", "-f", "a"), 2, "a job, or a manifest with -f", id="a name and a file"
        ),
        pytest.param(("cq/a",), 2, "neither workload, podgroup, pod nor the kind", id="a queue"),
        pytest.param(("job", "a", "-o", "xml"), 2, "xml", id="no such form"),
        pytest.param(("workload", "a", "--kind", "Job"), 2, "--kind", id="a kind of workload"),
        pytest.param(("job", "a", "--config", "none.yaml"), 2, "none.yaml", id="no settings"),
        pytest.param(("job", "a", "--kubeconfig", "none"), 1, "kubeconfig none", id="no cluster"),
        pytest.param(("podgroup",), 2, "give one name: podgroup", id="no name of a PodGroup"),
        pytest.param(("pod", "a", "-o", "xml"), 2, "xml", id="no such form of a pod"),
        pytest.param(("podgroup", "a", "--config", "none.yaml"), 2, "none.yaml", id="no file"),
        pytest.param(("pod", "a", "--kubeconfig", "none"), 1, "kubeconfig none", id="no way in"),
        pytest.param(
            ("pg/a", "--context", "none", "--kubeconfig", "here"), 1, "name none", id="a context"
        ),
    ],
)
def test_what_is_wrong_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, argv: tuple[str, ...], code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "here").write_text("kind: Config\n")

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


def queued(kind: str, labels: dict[str, str], **more: Any) -> dict[str, Any]:
    meta = {"name": "train", "namespace": "team", "uid": "u", "labels": labels}
    version = "batch/v1" if kind == "Job" else "v1"
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {**meta, **more.pop("meta", {})},
        **more,
    }


TEMPLATE = {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
QUEUE = {"kueue.x-k8s.io/queue-name": "main"}


@pytest.mark.parametrize(
    ("path", "job", "want"),
    [
        pytest.param(
            JOBS,
            queued("Job", {}, spec=TEMPLATE),
            "Job team/train has no label kueue.x-k8s.io/queue-name, so no queue admits it. If its "
            "pods wait for their gang: kubectl describe pg -n team",
            id="no queue",
        ),
        pytest.param(
            JOBS,
            queued("Job", QUEUE, spec=TEMPLATE),
            "Job team/train has no Workload yet. Look at its Events; if there are none, check that "
            "gang-extender reconcile runs and that batch/job is among queue.integrations",
            id="not looked at",
        ),
        pytest.param(
            JOBS,
            queued("Job", {**QUEUE, "kueue.x-k8s.io/queue-name": "a_b"}, spec=TEMPLATE),
            "Job team/train has no Workload: 'a_b' in label kueue.x-k8s.io/queue-name cannot be "
            "the name of a LocalQueue",
            id="refused",
        ),
        pytest.param(
            PODS,
            queued(
                "Pod",
                {**QUEUE, "kueue.x-k8s.io/pod-group-name": "g"},
                meta={"annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"}},
                spec={
                    "containers": [{"name": "c", "image": "i"}],
                    "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}],
                },
            ),
            "Pod team/train has no Workload: 1 of 3 pods are there",
            id="a group that lacks pods",
        ),
    ],
)
def test_a_job_without_a_workload_is_told_why(
    tmp_path: Path, path: str, job: dict[str, Any], want: str
) -> None:
    file = tmp_path / "snapshot.json"
    file.write_bytes(msgspec.json.encode(snapshot_of({path: [job]})))

    argv = ["explain", "job", "train", "-n", "team", "--kind", job["kind"]]
    result = CliRunner().invoke(app, [*argv, "--from-snapshot", str(file)])

    assert (result.exit_code, result.stdout) == (1, "")
    assert want in result.stderr


@pytest.mark.parametrize(
    ("made", "want"),
    [
        (["train"], "TrainJob team/train has no Workload yet."),
        ([], "TrainJob team/train has no Workload: Trainer has not made its JobSet yet"),
    ],
)
def test_a_trainjob_is_read_with_its_jobset(tmp_path: Path, made: list[str], want: str) -> None:
    job = {**trainjob(), "metadata": queued("TrainJob", QUEUE)["metadata"]}
    jobsets = [{**jobset(), "metadata": {"name": name, "namespace": "team"}} for name in made]
    file = tmp_path / "snapshot.json"
    found = {"/apis/trainer.kubeflow.org/v1alpha1/trainjobs": [job]}
    found["/apis/jobset.x-k8s.io/v1alpha2/jobsets"] = jobsets
    file.write_bytes(msgspec.json.encode(snapshot_of(found)))

    argv = ["explain", "job", "train", "-n", "team", "--from-snapshot", str(file)]
    result = CliRunner().invoke(app, argv)

    assert want in result.stderr


@pytest.mark.parametrize(
    ("reason", "require_room", "want"),
    [
        pytest.param("WaitingForRoom", False, True, id="only the reconciler asks for room"),
        pytest.param("WaitingForRoom", True, False, id="both ask for room"),
        pytest.param("WaitingForQuota", False, False, id="neither asks for room"),
    ],
)
def test_other_settings_than_the_reconcilers_are_noticed(
    *, reason: str, require_room: bool, want: bool
) -> None:
    options = AdmissionOptions(require_room=require_room)
    queues = Admissions(cluster_queue(), local_queue(), options=options)
    written = condition("QuotaReserved", reason, true=False)
    queues.put(waiting := workload("w", conditions=(written,)))
    assert asks_for_less(waiting, queues.view, options) == want
