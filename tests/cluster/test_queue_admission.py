"""Which workloads are admitted and preempted, in one queue and in cohorts, and what stops one."""

from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import API, JOBS, WORKLOADS, Queues
from tests.harness import objects
from tests.harness.client import Api

pytestmark = pytest.mark.usefixtures("gang", "reconciler")


@pytest.fixture(autouse=True)
def _nodes(nodes: NodeFactory) -> None:
    nodes(2, "16")


def _priority(queues: Queues, short: str, value: int) -> dict[str, str]:
    return {"kueue.x-k8s.io/priority-class": queues.priority_class(short, value)}


def test_a_job_of_higher_priority_preempts_one_of_its_own_queue(queues: Queues, api: Api) -> None:
    queues.simple(cpu=2, preemption={"withinClusterQueue": "LowerPriority"})
    queues.job("victim", 2, labels=_priority(queues, "low", 1), run_for="1h")
    queues.await_admitted("victim")
    template = api.get(JOBS, "victim", queues.namespace)["spec"]["template"]

    queues.job("better", 2, labels=_priority(queues, "high", 10), run_for="1h")

    queues.await_admitted("better")
    reported = queues.condition("victim", "Preempted")
    assert (reported["status"], reported["reason"]) == ("True", "InClusterQueue")
    assert queues.condition("victim", "Evicted")["reason"] == "Preempted"
    queues.await_condition("victim", "QuotaReserved", "False")
    assert queues.is_suspended("victim")

    def restored() -> bool:
        after = api.get(JOBS, "victim", queues.namespace)["spec"]["template"]
        marked = "kueue.x-k8s.io/podset" in after["metadata"].get("labels", {})
        return not marked and bool(after["spec"] == template["spec"])

    api.wait_for("its template is as it was", restored)

    api.delete(JOBS, "better", queues.namespace)
    queues.await_admitted("victim")
    assert queues.condition("victim", "Evicted")["status"] == "False"


def test_a_cohort_lends_and_takes_back(queues: Queues) -> None:
    flavor, cohort = queues.flavor(), queues.name("cohort")
    both = {"cohortName": cohort, "preemption": {"reclaimWithinCohort": "Any"}}
    for side in ("a", "b"):
        name = queues.cluster_queue(side, cpu=2, flavor=flavor, **both)
        queues.local_queue(side, name)
    queues.job("borrower", 4, queue="a", run_for="1h")
    queues.await_admitted("borrower")

    queues.job("owner", 2, queue="b", run_for="1h")

    queues.await_admitted("owner")
    assert queues.condition("borrower", "Preempted")["reason"] == "InCohortReclamation"


def test_in_a_strict_queue_no_job_passes(queues: Queues) -> None:
    queues.simple(cpu=3, queueingStrategy="StrictFIFO")
    queues.job("first", 2, run_for="1h")
    queues.await_admitted("first")
    queues.job("large", 2, run_for="1h")
    queues.await_condition("large", "QuotaReserved", "False")
    queues.job("small", 1, run_for="1h")
    queues.api.wait_for("small has a workload", lambda: queues.workload("small"))
    # What comes after it to another queue is admitted: small could have been by now.
    queues.local_queue("other", queues.cluster_queue("other", cpu=1))
    queues.job("other", 1, queue="other", run_for="1h")
    queues.await_admitted("other")
    assert queues.condition("small", "QuotaReserved").get("status") != "True"

    queues.api.delete(JOBS, "first", queues.namespace)
    queues.await_admitted("large", "small")


def test_the_second_flavor_is_used_when_the_first_is_full(queues: Queues, nodes: Any) -> None:
    nodes(1, "4", prefix="spot", labels={"kind": "spot"})
    first, second = queues.flavor("first"), queues.flavor("spot", nodeLabels={"kind": "spot"})
    groups = [{
        "coveredResources": ["cpu", "memory"],
        "flavors": [
            {"name": name, "resources": [
                {"name": "cpu", "nominalQuota": 1}, {"name": "memory", "nominalQuota": "1Gi"}]}
            for name in (first, second)
        ],
    }]  # fmt: skip
    queues.local_queue("queue", queues.cluster_queue(resourceGroups=groups))
    queues.job("one", run_for="1h")
    queues.await_admitted("one")
    queues.job("two", run_for="1h")
    queues.await_admitted("two")

    workload = queues.its_workload("two")
    [given] = workload["status"]["admission"]["podSetAssignments"]
    assert given["flavors"] == {"cpu": second, "memory": second}
    queues.await_started("two")
    job = queues.api.get(JOBS, "two", queues.namespace)
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"kind": "spot"}


def test_a_stopped_queue_admits_no_job_and_a_drained_one_stops_all(queues: Queues) -> None:
    cluster_queue, _ = queues.simple(cpu=2)
    queues.job("runs", run_for="1h")
    queues.await_admitted("runs")

    def stop(policy: str) -> None:
        queues.api.patch(f"{API}/clusterqueues", cluster_queue,
                         body={"spec": {"stopPolicy": policy}})  # fmt: skip

    stop("Hold")
    queues.await_inactive(cluster_queue, "Stopped")
    queues.job("held", run_for="1h")
    queues.api.wait_for("it has a workload", lambda: queues.workload("held"))
    assert not queues.is_suspended("runs")

    stop("HoldAndDrain")
    queues.await_condition("runs", "Evicted", reason="ClusterQueueStopped")
    queues.await_condition("runs", "QuotaReserved", "False", reason="Suspended")
    assert queues.is_suspended("runs")
    assert queues.is_suspended("held")

    stop("None")
    queues.await_admitted("runs", "held")
    assert queues.condition("runs", "Requeued")["reason"] == "ClusterQueueRestarted"


def test_a_workload_is_deactivated_and_comes_back(queues: Queues) -> None:
    queues.simple(cpu=1)
    queues.job("job", run_for="1h")
    queues.await_admitted("job")
    workload = queues.its_workload("job")

    def set_active(*, active: bool) -> None:
        name = workload["metadata"]["name"]
        queues.api.patch(WORKLOADS, name, queues.namespace, body={"spec": {"active": active}})

    set_active(active=False)
    queues.await_condition("job", "Evicted", reason="Deactivated")
    queues.await_condition("job", "QuotaReserved", "False", reason="Deactivated")
    assert queues.is_suspended("job")

    set_active(active=True)
    queues.await_admitted("job")


def test_a_job_that_takes_too_long_is_stopped_for_good(queues: Queues) -> None:
    queues.simple(cpu=1)
    queues.job("job", run_for="1h", labels={"kueue.x-k8s.io/max-exec-time-seconds": "1"})

    queues.await_condition("job", "Evicted", reason="DeactivatedDueToMaximumExecutionTimeExceeded")
    queues.api.wait_for("it is stopped", lambda: queues.is_suspended("job"))
    workload = queues.its_workload("job")
    assert workload["spec"]["active"] is False


def test_part_of_a_job_is_admitted_where_it_allows_that(queues: Queues) -> None:
    queues.simple(cpu=3)
    job = objects.job("job", 5, namespace=queues.namespace, queue="queue", suspend=True, cpu="1",
                      run_for="1h")  # fmt: skip
    job["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "2"}
    queues.api.create(job)

    queues.await_started("job")
    assert queues.api.get(JOBS, "job", queues.namespace)["spec"]["parallelism"] == 3


def test_a_running_job_without_quota_is_stopped_and_none_of_its_pods_starts(
    queues: Queues, api: Api
) -> None:
    queues.simple(cpu=1)
    queues.job("too-large", 2, suspend=False)

    queues.await_condition("too-large", "QuotaReserved", "False")
    api.wait_for("it is stopped", lambda: queues.is_suspended("too-large"))
    events = api.list("events.k8s.io/v1/events", queues.namespace, fields="reason=Scheduled")
    assert events == []


def test_a_queue_in_use_does_not_go(queues: Queues, api: Api) -> None:
    cluster_queue, _ = queues.simple(cpu=1)
    queues.await_active(cluster_queue)
    queues.job("job", run_for="1h")
    queues.await_admitted("job")

    api.delete(f"{API}/clusterqueues", cluster_queue)
    queues.await_inactive(cluster_queue, "Terminating")
    api.delete(JOBS, "job", queues.namespace)
    api.wait_for("it is gone", lambda: api.find(f"{API}/clusterqueues", cluster_queue) is None)


def test_what_is_not_honoured_stops_the_queue_with_the_known_reason(queues: Queues) -> None:
    checks = {"admissionChecks": [{"name": "wait-for-budget"}]}
    with_checks = queues.cluster_queue("checked", admissionChecksStrategy=checks)
    queues.await_inactive(with_checks, "AdmissionCheckNotFound")

    lost = queues.cluster_queue("lost", flavor=queues.name("nowhere"))
    queues.await_inactive(lost, "FlavorNotFound")
    queues.flavor("nowhere")
    queues.await_active(lost)


def test_an_unknown_queue_is_reported_and_followed_when_it_appears(queues: Queues) -> None:
    cluster_queue = queues.cluster_queue(cpu=1)
    queues.job("job", queue="later", run_for="1h")
    queues.await_condition("job", "QuotaReserved", "False", reason="Misconfigured")

    queues.local_queue("later", cluster_queue)
    queues.await_admitted("job")
