"""Jobs that could not be started as they are: they get no quota, and say what they wait for."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import API, QUEUE, WORKLOADS, Queues, condition
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.kinds import CRDS, fresh, pytorchjob
from tests.harness.process import run_command
from tests.tiers import LONG

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

PYTORCH_JOBS = "kubeflow.org/v1/pytorchjobs"


def pod(api: Api, queues: Queues, name: str, *, total: int) -> None:
    """Create a held pod of the group `g`, of one CPU."""
    api.create(
        objects.pod(
            name,
            "1",
            namespace=queues.namespace,
            group="g",
            label="kueue.x-k8s.io/pod-group-name",
            labels={QUEUE: "queue"},
            annotations={"kueue.x-k8s.io/pod-group-total-count": str(total)},
            gates=["kueue.x-k8s.io/admission"],
            run_for="1h",
        )
    )


def await_event(api: Api, queues: Queues, reason: str, about: str) -> str:
    """Wait for an Event about an object, and return what it says."""

    said = partial(api.notes, queues.namespace, reason, name=about)
    return api.wait_for(f"{reason} of {about}", said)[-1]


def of_group(api: Api, queues: Queues, kind: str) -> Callable[[], Any]:
    """Return a function that returns a condition of the Workload of the group `g`."""
    return lambda: condition(api.get(WORKLOADS, "g", queues.namespace), kind)


def test_a_group_whose_pods_do_not_come_again_gets_no_quota(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(2, "4")
    cluster_queue, _ = queues.simple(cpu=2)
    for name in ("a", "b"):
        pod(api, queues, name, total=2)
    api.wait_for("it has a workload", lambda: api.find(WORKLOADS, "g", queues.namespace))
    queues.await_condition("a", "Admitted")

    def runs() -> bool:
        pods = api.list("pods", queues.namespace)
        return [each["status"].get("phase") for each in pods] == ["Running"] * 2

    api.wait_for("both run", runs)
    body = {"status": {"phase": "Failed"}}
    api.patch("pods", "b", queues.namespace, body=body, subresource="status")
    drain = {"spec": {"stopPolicy": "HoldAndDrain"}}
    api.patch(f"{API}/clusterqueues", cluster_queue, body=drain)
    quota, admitted = of_group(api, queues, "QuotaReserved"), of_group(api, queues, "Admitted")
    api.wait_for("it has no quota", lambda: quota()["status"] == "False")
    queues.job("other", 2, run_for="1h")

    api.patch(f"{API}/clusterqueues", cluster_queue, body={"spec": {"stopPolicy": "None"}})

    queues.await_started("other")
    api.wait_for("it waits for pods", lambda: quota()["reason"] == "WaitingForPods")
    assert quota()["message"] == "0 of 2 pods are there"
    assert admitted()["status"] == "False"

    for name in ("c", "d"):
        pod(api, queues, name, total=2)
    api.wait_for("it waits for quota", lambda: quota()["reason"] == "WaitingForQuota")
    api.delete("batch/v1/jobs", "other", queues.namespace)
    api.wait_for("it is admitted", lambda: admitted()["status"] == "True")


def test_a_group_says_how_many_of_its_pods_are_there(
    api: Api, queues: Queues, control_plane: ControlPlane
) -> None:
    queues.simple()
    pod(api, queues, "a", total=3)

    assert await_event(api, queues, "PodsMissing", "a") == "1 of 3 pods are there"

    where = ["-n", queues.namespace, "--kubeconfig", control_plane.admin_kubeconfig]
    found = run_command("explain", "job", "a", "--kind", "Pod", *where)
    assert "has no Workload: 1 of 3 pods are there" in found.stderr


def test_a_job_says_that_the_workload_it_names_is_missing(api: Api, queues: Queues) -> None:
    queues.simple()
    queues.job("brings", labels={"kueue.x-k8s.io/prebuilt-workload-name": "none"})
    assert "none" in await_event(api, queues, "WorkloadNotFound", "brings")


@LONG
def test_a_status_that_says_for_ever_that_pods_run_keeps_no_quota(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(2, "4")
    api.apply(CRDS)
    queues.simple(cpu=4)
    api.create(fresh(pytorchjob(), namespace=queues.namespace, queue="queue"))
    api.wait_for("it has a workload", lambda: queues.workload("work"))
    queues.await_admitted("work")
    status = {"replicaStatuses": {"Master": {"active": 1}, "Worker": {"active": 3}}}
    api.patch(PYTORCH_JOBS, "work", queues.namespace, body={"status": status}, subresource="status")
    workload = queues.its_workload("work")
    body = {"spec": {"active": False}}
    api.patch(WORKLOADS, workload["metadata"]["name"], queues.namespace, body=body)
    queues.await_condition("work", "Evicted")
    queues.job("next", 4, run_for="1h")

    queues.await_started("next")

    queues.await_condition("work", "QuotaReserved", "False", reason="Deactivated")
    assert await_event(api, queues, "StopUnnoticed", "work")
