"""Quota of pods that are done goes to the next, while the rest of their job still runs."""

from typing import Any
from uuid import uuid4

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import API, JOBS, WORKLOADS, Queues
from tests.harness import objects
from tests.harness.client import Api, Object
from tests.harness.kinds import CRDS, fresh, jobset, mpijob

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

HOLD = "test.example/hold"
RELEASE = "scheduling.x-k8s.io/release-quota"
PATIENT = 120


@pytest.fixture(autouse=True)
def _nodes(nodes: NodeFactory) -> None:
    nodes(2, "16")


def running(queues: Queues, job: str) -> list[Object]:
    """Return the pods of a job that run, by index or name."""
    pods = queues.pods(job)
    found = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    return sorted(found, key=lambda pod: pod["metadata"]["name"])


def await_running(queues: Queues, job: str, count: int) -> list[Object]:
    what = f"{count} pods of {job} run"
    queues.api.wait_for(what, lambda: len(running(queues, job)) == count, PATIENT)
    return running(queues, job)


def reclaimed(queues: Queues, job: str, pod_set: str = "main") -> int:
    """Return how many pods of a job's workload are reported as done."""
    workload: Any = queues.its_workload(job)
    reported = workload.get("status", {}).get("reclaimablePods") or []
    return next((each["count"] for each in reported if each["name"] == pod_set), 0)


def succeed(queues: Queues, job: str, *, done: int, left: int) -> None:
    """End one pod; there are `done` then, and `left` run."""
    queues.end(running(queues, job)[0])

    def counted() -> bool:
        status = queues.api.get(JOBS, job, queues.namespace)["status"]
        return bool(status.get("succeeded") == done)

    queues.api.wait_for(f"{done} pods of {job} are counted", counted, PATIENT)
    await_running(queues, job, left)


def await_looked(queues: Queues) -> None:
    """Wait until the reconciler has seen all Jobs as they are, and has tried to admit once more.

    A new Job comes after all that was to be seen before it; it must not have quota either.
    """
    name = f"marker-{uuid4().hex[:6]}"
    queues.job(name)
    queues.await_condition(name, "QuotaReserved", "False", reason="WaitingForQuota")
    queues.api.delete(JOBS, name, queues.namespace)


@pytest.mark.parametrize(
    ("parallelism", "completions", "ends"),
    [(3, 3, [2]), (2, 4, [2, 2, 1]), (5, 3, [2])],
    ids=["as many as at once", "more than at once", "fewer than at once"],
)
def test_quota_of_a_pod_that_is_not_replaced_admits_the_next_job(
    queues: Queues, parallelism: int, completions: int, ends: list[int]
) -> None:
    """`ends` says how many pods run after each end; with the last one there is one fewer."""
    pods = min(parallelism, completions)
    queues.simple(cpu=pods)
    queues.job("first", parallelism, completions=completions, run_for="1h")
    await_running(queues, "first", pods)
    queues.job("next", run_for="1h")
    queues.await_condition("next", "QuotaReserved", "False", reason="WaitingForQuota")

    for done, left in enumerate(ends[:-1], start=1):
        succeed(queues, "first", done=done, left=left)
        await_looked(queues)
        assert reclaimed(queues, "first") == 0
        assert queues.is_suspended("next")
    succeed(queues, "first", done=len(ends), left=ends[-1])

    queues.await_admitted("next")
    assert reclaimed(queues, "first") == 1
    await_running(queues, "next", 1)
    assert len(running(queues, "first")) == pods - 1
    queues.job("third", run_for="1h")
    queues.await_condition("third", "QuotaReserved", "False", reason="WaitingForQuota")
    workload = queues.its_workload("first")
    [given] = workload["status"]["admission"]["podSetAssignments"]
    assert (given["count"], given["resourceUsage"]["cpu"]) == (pods, str(pods))


def set_active(queues: Queues, job: str, *, active: bool) -> None:
    workload: Any = queues.its_workload(job)
    name = workload["metadata"]["name"]
    queues.api.patch(WORKLOADS, name, queues.namespace, body={"spec": {"active": active}})


def is_restored(queues: Queues, job: str) -> bool:
    metadata = queues.api.get(JOBS, job, queues.namespace)["metadata"]
    return "kueue.x-k8s.io/stopping" not in metadata.get("annotations", {})


# -- pods that take their time to end


def let_go(queues: Queues) -> None:
    for pod in queues.api.list("pods", queues.namespace):
        left = [name for name in pod["metadata"].get("finalizers", []) if name != HOLD]
        name, body = pod["metadata"]["name"], {"metadata": {"finalizers": left}}
        if HOLD in pod["metadata"].get("finalizers", []):
            queues.api.patch("pods", name, queues.namespace, body=body)


def stubborn(queues: Queues, **annotations: str) -> None:
    """Have a job stopped whose two pods do not go."""
    job = objects.job(
        "job", 2, namespace=queues.namespace, queue="queue", suspend=True, cpu="1", run_for="1h"
    )
    job["metadata"]["annotations"] = annotations
    job["spec"]["template"]["metadata"]["finalizers"] = [HOLD]
    queues.api.create(job)
    await_running(queues, "job", 2)
    set_active(queues, "job", active=False)

    def ends() -> bool:
        status = queues.api.get(JOBS, "job", queues.namespace)["status"]
        return status.get("terminating") == 2 and not status.get("active")

    queues.api.wait_for("its pods are being deleted", ends, PATIENT)
    queues.api.wait_for("its stop has ended", lambda: is_restored(queues, "job"), PATIENT)


@pytest.mark.parametrize("asked_by", ["the queue", "the job"])
def test_pods_that_end_slowly_keep_their_quota_where_it_is_asked_for(
    queues: Queues, asked_by: str
) -> None:
    cluster_queue, _ = queues.simple(cpu=2)
    asked = {RELEASE: "OnTerminal"}
    if asked_by == "the queue":
        body = {"metadata": {"annotations": asked}}
        queues.api.patch(f"{API}/clusterqueues", cluster_queue, body=body)
    stubborn(queues, **(asked if asked_by == "the job" else {}))
    queues.job("next", 2, run_for="1h")
    queues.await_condition("next", "QuotaReserved", "False", reason="WaitingForPreemptedWorkloads")
    assert queues.condition("job", "QuotaReserved")["status"] == "True"

    let_go(queues)

    queues.await_admitted("next")
    assert queues.condition("job", "QuotaReserved")["status"] == "False"


def test_pods_that_end_slowly_have_no_quota_otherwise(queues: Queues) -> None:
    queues.simple(cpu=2)
    stubborn(queues)
    queues.job("next", 2, run_for="1h")
    queues.await_admitted("next")


# -- kinds of others


@pytest.mark.parametrize(
    ("source", "plural", "status", "pod_set", "done", "cpu"),
    [
        (
            jobset,
            "jobset.x-k8s.io/v1alpha2/jobsets",
            {"replicatedJobsStatus": [
                {"name": "workers", "succeeded": 1, "ready": 1, "failed": 0, "active": 1,
                 "suspended": 0},
            ]},
            "workers",
            2,
            9,
        ),
        (
            mpijob,
            "kubeflow.org/v2beta1/mpijobs",
            {"replicaStatuses": {"Worker": {"active": 2, "succeeded": 1}}},
            "worker",
            1,
            4,
        ),
    ],
    ids=["JobSet", "MPIJob"],
)  # fmt: skip
def test_a_job_of_another_controller_gives_back_what_its_status_says(
    api: Api,
    queues: Queues,
    source: Any,
    plural: str,
    status: Object,
    pod_set: str,
    done: int,
    cpu: int,
) -> None:
    api.apply(CRDS)
    queues.simple(cpu=cpu)
    api.create(fresh(source(), namespace=queues.namespace, queue="queue"))
    noticed = {"type": "Suspended", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    body = {"status": {"conditions": [noticed | {"reason": "Suspended", "message": ""}]}}
    api.patch(plural, "work", queues.namespace, body=body, subresource="status")
    api.wait_for("it has a workload", lambda: queues.workload("work"), PATIENT)
    queues.await_admitted("work")
    queues.job("next", run_for="1h")
    queues.await_condition("next", "QuotaReserved", "False", reason="WaitingForQuota")

    api.patch(plural, "work", queues.namespace, body={"status": status}, subresource="status")

    queues.await_admitted("next")
    assert reclaimed(queues, "work", pod_set) == done
