"""The reconciler with options of the queue, and with a kind of job that a package adds."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.alone import alone, namespace_of, unswept
from tests.cluster.queues import JOBS, WORKLOADS, Queues
from tests.harness import objects
from tests.harness.client import Api, ApiError
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE
from tests.harness.kinds import crd
from tests.harness.objects import Object
from tests.harness.reconciler import SERVICE_ACCOUNT, Reconciler

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
RENDERS = "example.com/v1/renders"
UNMANAGED = {"example.com/queued": "no"}
RUNS = {"example.com/pool": "batch"}
SECONDS = 120


control_plane, _ = alone(controllers=True, kubelet=True)
"""The reconciler takes every job that it sees."""


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[Api]:
    selector = {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]},
            {"key": "example.com/queued", "operator": "NotIn", "values": ["no"]},
        ]
    }
    settings = {"queue": {"managedJobsNamespaceSelector": selector}}
    with Api(control_plane.admin_kubeconfig) as api:
        api.apply([crd("example.com", "v1", "renders", "Render"), *render_rights()])
        scheduler = control_plane.scheduler()
        reconciler = Reconciler(
            control_plane,
            settings=settings,
            args=(
                "--no-leader-elect",
                "--manage-jobs-without-queue-name",
                *("--integration", "render_farm:Render"),
            ),
            env={"PYTHONPATH": str(EXAMPLES)},
        )
        reconciler.wait_leading()
        api.create(objects.node("batch", 64, "256Gi", labels=RUNS), objects.node("other", 64))
        yield api
        reconciler.stop()
        scheduler.stop()


namespace = unswept


def render_rights() -> list[Object]:
    """Return what the documentation says that the reconciler needs for this kind."""
    text = (EXAMPLES / "render_farm_access.yaml").read_text()
    return list(yaml.safe_load_all(text))


def render(namespace: str, workers: int) -> Object:
    template = objects.pod("unused", "1")
    spec = {"paused": True, "frames": {"workers": workers, "template": {"spec": template["spec"]}}}
    return {
        "apiVersion": "example.com/v1",
        "kind": "Render",
        "metadata": {
            "name": "film",
            "namespace": namespace,
            "labels": {"kueue.x-k8s.io/queue-name": "queue"},
        },
        "spec": spec,
    }


def test_a_kind_that_was_added_is_queued_started_stopped_and_ends(
    api: Api, queues: Queues, namespace: str
) -> None:
    queues.simple(cpu=3, flavor=queues.flavor("batch", nodeLabels=RUNS))
    before = api.create(render(namespace, 3))["spec"]

    def spec() -> Any:
        return api.get(RENDERS, "film", namespace)["spec"]

    def report(**status: Any) -> None:
        api.patch(RENDERS, "film", namespace, body={"status": status}, subresource="status")

    def set_active(*, active: bool) -> None:
        workload = queues.its_workload("film")
        name = workload["metadata"]["name"]
        api.patch(WORKLOADS, name, namespace, body={"spec": {"active": active}})

    queues.await_admitted("film")
    api.wait_for("it is started", lambda: not spec()["paused"], SECONDS)
    assert spec()["frames"]["template"]["spec"]["nodeSelector"] == RUNS
    report(running=3)

    set_active(active=False)
    api.wait_for("it is stopped", lambda: spec()["paused"], SECONDS)
    queues.await_condition("film", "QuotaReserved")
    report(running=0)
    queues.await_condition("film", "QuotaReserved", "False", reason="Deactivated")
    assert spec()["frames"]["template"]["spec"] == before["frames"]["template"]["spec"]

    set_active(active=True)
    api.wait_for("it is started again", lambda: not spec()["paused"], SECONDS)
    report(running=0, rendered=True)
    reported = queues.await_condition("film", "Finished", reason="Succeeded")
    assert reported["message"] == "All frames are rendered"


def test_a_job_without_a_queue_is_held_where_the_selector_says_so(
    api: Api, queues: Queues, namespace: str
) -> None:
    """It is stopped although it never asked, and runs when a queue is named for it."""
    queues.simple(cpu=4)
    free = namespace_of(api, **UNMANAGED)
    for where in (namespace, free, "kube-system"):
        api.create(objects.job("job", 1, namespace=where, run_for="1h"))

    api.wait_for("it is held", lambda: queues.is_suspended("job"), SECONDS)
    queues.await_condition("job", "QuotaReserved", "False", reason="Misconfigured")

    def runs_in(where: str) -> bool:
        return bool(api.get(JOBS, "job", where)["status"].get("ready") == 1)

    for where in (free, "kube-system"):
        api.wait_for(f"it runs in {where}", partial(runs_in, where), SECONDS)
        assert not api.list(WORKLOADS, where)
        api.delete(JOBS, "job", where)

    labels = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "queue"}}}
    api.patch(JOBS, "job", namespace, body=labels)
    queues.await_admitted("job")
    api.wait_for("it is started", lambda: not queues.is_suspended("job"), SECONDS)
    assert len(api.list(WORKLOADS, namespace)) == 1


def test_a_job_that_names_another_job_as_its_owner_has_no_part_in_its_quota(
    api: Api, queues: Queues, namespace: str
) -> None:
    queues.simple(cpu=1)
    parent = queues.job("parent", run_for="1h")
    queues.await_admitted("parent")
    child = objects.job("child", 1, namespace=namespace, run_for="1h")
    child["metadata"]["ownerReferences"] = [objects.owner(parent)]
    api.create(child)

    # A user who may create a Job may write any owner into it, and a Job makes no Jobs.
    api.wait_for("the child is stopped", lambda: queues.is_suspended("child"), SECONDS)
    api.wait_for("it has its own", lambda: len(api.list(WORKLOADS, namespace)) == 2, SECONDS)
    assert not queues.is_suspended("parent")


def test_the_reconciler_may_change_nothing_else_of_a_kind_that_was_added(
    control_plane: ControlPlane, api: Api, namespace: str
) -> None:
    """The documented policy, tried with the account of the reconciler."""
    unqueued = render(namespace, 3)
    unqueued["metadata"] = {"name": "other", "namespace": namespace}
    api.patch("namespaces", namespace, body={"metadata": {"labels": UNMANAGED}})
    api.create(unqueued)
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    image = "/spec/frames/template/spec/containers/0/image"
    with Api(kubeconfig) as account:

        def refused(path: str, value: object) -> str:
            change = [{"op": "add", "path": path, "value": value}]
            try:
                account.patch(RENDERS, "other", namespace, body=change, how="json")
            except ApiError as error:
                return str(error)
            return ""

        api.wait_for("the policy is in force", lambda: refused(image, "evil"), SECONDS)
        assert "denied request: spec: " in refused(image, "evil")
        assert "denied request: spec: " in refused("/spec/frames/workers", 9)
        assert "denied request: spec: " in refused("/spec/other", 9)
        assert "denied request: metadata: " in refused("/metadata/finalizers", ["a.example/b"])
        assert "denied request: metadata.labels, " in refused("/metadata/labels", {"a": "b"})
        assert refused("/spec/paused", False) == ""
        assert refused("/spec/frames/template/spec/nodeSelector", {"a": "b"}) == ""
        assert refused("/spec/frames/template/metadata", {"labels": {"a": "b"}}) == ""
        assert refused("/metadata/labels", {"kueue.x-k8s.io/a": "b"}) == ""
        with pytest.raises(ApiError, match="forbidden"):
            account.delete(RENDERS, "other", namespace)
