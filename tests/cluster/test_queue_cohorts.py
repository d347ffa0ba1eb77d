"""Quota that is lent: limits, trees of cohorts, flavors in order; and what is tried again when."""

from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import API, JOBS, QUEUE, WORKLOADS, Queues, group
from tests.harness.client import Api
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

ATTEMPTS = 'kueue_admission_attempts_total{result="inadmissible"}'


@pytest.fixture(autouse=True)
def _nodes(nodes: NodeFactory) -> None:
    nodes(2, "16")


def priority(queues: Queues, short: str, value: int) -> dict[str, str]:
    name = queues.name(short)
    queues.api.create(
        {
            "apiVersion": API,
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
    )
    queues.made("workloadpriorityclasses", name)
    return {"kueue.x-k8s.io/priority-class": name}


def member(queues: Queues, short: str, flavor: str, cpu: Any, **spec: Any) -> None:
    """Make a ClusterQueue, and a LocalQueue of the short name."""
    groups = [group(flavor, cpu=cpu)]
    queues.local_queue(short, queues.cluster_queue(short, resourceGroups=groups, **spec))


def test_a_tree_of_cohorts_shares_what_its_root_has(queues: Queues, api: Api) -> None:
    """The root has quota of its own; a branch may take so much of it as its limit says."""
    flavor = queues.flavor()
    groups = [group(flavor, cpu=2, memory="1Ti")]
    root = queues.create("Cohort", "root", {"resourceGroups": groups})
    limited = [group(flavor, cpu={"nominalQuota": 0, "borrowingLimit": 1}, memory="1Ti")]
    left = queues.create("Cohort", "left", {"parentName": root, "resourceGroups": limited})
    right = queues.create("Cohort", "right", {"parentName": root})
    member(queues, "left", flavor, 1, cohortName=left)
    member(queues, "right", flavor, 1, cohortName=right)

    queues.job("in-left", 3, queue="left", run_for="1h")
    queues.await_condition("in-left", "QuotaReserved", "False", reason="ExceedsMaxQuota")
    limit = [group(flavor, cpu={"nominalQuota": 0, "borrowingLimit": 2}, memory="1Ti")]
    api.patch(f"{API}/cohorts", left, body={"spec": {"resourceGroups": limit}})
    queues.await_admitted("in-left")

    queues.job("in-right", 2, queue="right", run_for="1h")
    reported = queues.await_condition(
        "in-right", "QuotaReserved", "False", reason="WaitingForQuota"
    )
    assert "1 more needed" in reported["message"]
    api.delete(JOBS, "in-left", queues.namespace)
    queues.await_admitted("in-right")


def test_a_borrower_preempts_lesser_work_up_to_the_threshold(queues: Queues) -> None:
    flavor, cohort = queues.flavor(), queues.name("cohort")
    policy = {"policy": "LowerPriority", "maxPriorityThreshold": 5}
    preemption = {"reclaimWithinCohort": "LowerPriority", "borrowWithinCohort": policy}
    member(queues, "a", flavor, 1, cohortName=cohort, preemption=preemption)
    member(queues, "b", flavor, 1, cohortName=cohort)
    member(queues, "idle", flavor, 2, cohortName=cohort)
    high = priority(queues, "high", 10)
    queues.job("above", 3, queue="b", labels=priority(queues, "above", 6), run_for="1h")
    queues.await_admitted("above")
    queues.job("high", 3, queue="a", labels=high, run_for="1h")
    queues.await_condition("high", "QuotaReserved", "False", reason="WaitingForQuota")

    queues.api.delete(JOBS, "above", queues.namespace)
    queues.await_admitted("high")
    queues.api.delete(JOBS, "high", queues.namespace)
    queues.job("below", 3, queue="b", labels=priority(queues, "below", 4), run_for="1h")
    queues.await_admitted("below")
    queues.job("again", 3, queue="a", labels=high, run_for="1h")

    queues.await_admitted("again")
    assert queues.condition("below", "Preempted")["reason"] == "InCohortReclaimWhileBorrowing"


def test_a_job_that_waits_goes_to_another_queue(queues: Queues, api: Api) -> None:
    queues.simple(cpu=1)
    queues.local_queue("other", queues.cluster_queue("other", cpu=2))
    queues.job("job", 2, run_for="1h")
    queues.await_condition("job", "QuotaReserved", "False", reason="ExceedsMaxQuota")
    before = queues.workload("job")

    labels = {"metadata": {"labels": {QUEUE: "other"}}}
    api.patch(JOBS, "job", queues.namespace, body=labels)

    queues.await_admitted("job")
    after = queues.workload("job")
    assert before is not None
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["queueName"] == "other"


def test_a_waiting_workload_is_not_tried_or_written_for_others_and_is_inadmissible_with_its_equals(
    queues: Queues, api: Api, reconciler: Reconciler
) -> None:
    """Ends in another cohort wake no workload here; ends here do, and equals are tried as one."""
    cluster_queue, _ = queues.simple(cpu=2)
    queues.local_queue("other", queues.cluster_queue("other", cpu=1))
    queues.job("holder", 2, run_for="1h")
    queues.await_admitted("holder")
    waiting = [f"waits-{number}" for number in range(8)]
    for name in waiting:
        queues.job(name, 2, run_for="1h")
    inadmissible = (
        f'kueue_pending_workloads{{cluster_queue="{cluster_queue}",status="inadmissible"}}'
    )
    api.wait_for("all are inadmissible", lambda: reconciler.metric(inadmissible) == len(waiting))
    api.wait_for(
        "all have their reason", lambda: all(is_reported(queues, name) for name in waiting)
    )
    versions = {name: version(queues, name) for name in waiting}
    attempts = reconciler.metric(ATTEMPTS)
    assert attempts >= 1

    for number in range(4):
        queues.job(f"other-{number}", queue="other", run_for="100ms")
        queues.await_finished(f"other-{number}")

    assert reconciler.metric(ATTEMPTS) == attempts
    assert {name: version(queues, name) for name in waiting} == versions

    api.delete(JOBS, "holder", queues.namespace)
    api.wait_for("one is admitted", lambda: len(admitted(queues)) == 1)
    api.wait_for("it is tried", lambda: reconciler.metric(ATTEMPTS) > attempts)
    # One for all that wait, and once more for each event that a deletion has.
    assert reconciler.metric(ATTEMPTS) < attempts + len(waiting) - 1
    [chosen] = admitted(queues)
    written = {name for name in waiting if version(queues, name) != versions[name]}
    assert chosen in written
    assert len(written) <= 2  # and the next head, which gets its reason


def is_reported(queues: Queues, job: str) -> bool:
    return queues.condition(job, "QuotaReserved").get("reason") == "WaitingForQuota"


def version(queues: Queues, job: str) -> str:
    workload = queues.workload(job)
    assert workload is not None
    return str(workload["metadata"]["resourceVersion"])


def admitted(queues: Queues) -> list[str]:
    """Return the jobs that wait no longer, of those that did."""
    return [
        each["metadata"]["ownerReferences"][0]["name"]
        for each in queues.api.list(WORKLOADS, queues.namespace)
        if each["metadata"]["ownerReferences"][0]["name"].startswith("waits-")
        and each.get("status", {}).get("admission")
    ]
