"""Edits of jobs and Workloads that have or had quota."""

from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import API, JOBS, QUEUE, WORKLOADS, Queues
from tests.harness.client import Api

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

LIMIT = "kueue.x-k8s.io/max-exec-time-seconds"


def pods(api: Api, queues: Queues) -> list[str]:
    """Return the UIDs of the pods of `job`."""
    found = api.list("pods", queues.namespace, labels="job-name=job")
    return sorted(pod["metadata"]["uid"] for pod in found)


def test_edits_of_metadata_stop_no_job_that_runs(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "4")
    queues.simple(cpu=4)
    queues.job("job", 2, run_for="1h", labels={LIMIT: "600"})
    queues.await_started("job")
    api.wait_for("its pods are there", lambda: len(pods(api, queues)) == 2)
    before = pods(api, queues)
    edits: tuple[dict[str, Any], ...] = (
        {"labels": {LIMIT: "1200"}},
        {"labels": {LIMIT: None}},
        {"labels": {QUEUE: "other"}},
        {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "other"}},
        {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "1"}},
        {"annotations": {"kueue.x-k8s.io/stopping": "true"}},
    )
    for edit in edits:
        api.patch(JOBS, "job", queues.namespace, body={"metadata": edit})

    def ignored() -> list[str]:
        return api.notes(queues.namespace, "EditIgnored")

    api.wait_for("the edits are reported", lambda: any("prebuilt" in note for note in ignored()))
    queues.job("next", run_for="100ms")
    queues.await_finished("next")  # and by then the edits have been looked at
    assert not queues.is_suspended("job")
    assert pods(api, queues) == before


def test_a_job_that_is_activated_again_may_run_as_long_as_at_first(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "4")
    cluster_queue, _ = queues.simple(cpu=4)
    queues.job("job", run_for="1h", labels={LIMIT: "2"})

    def stopped(times: int) -> Any:
        found: Any = queues.workload("job") or {}
        evictions = found.get("status", {}).get("schedulingStats", {}).get("evictions", [])
        done = sum(each["count"] for each in evictions) == times
        return found if done and not found["spec"].get("active", True) else None

    first = api.wait_for("it is stopped", lambda: stopped(1))
    queues.await_condition("job", "QuotaReserved", "False")
    name, where = first["metadata"]["name"], f"{API}/clusterqueues"
    api.patch(where, cluster_queue, body={"spec": {"stopPolicy": "Hold"}})
    queues.await_inactive(cluster_queue, "Stopped")
    api.patch(WORKLOADS, name, queues.namespace, body={"spec": {"active": True}})

    queues.await_condition("job", "Requeued", reason="Reactivated")
    again: Any = queues.its_workload("job")
    assert again["status"].get("accumulatedPastExecutionTimeSeconds", 0) == 0
    api.patch(where, cluster_queue, body={"spec": {"stopPolicy": "None"}})
    api.wait_for("it is stopped again", lambda: stopped(2))
