"""Gates of admission and of preemption, and claims that no quota counts."""

from dataclasses import replace
from typing import Any, Literal

import pytest

from extender.kube.queues import status_patch
from extender.queueing import lifecycle
from extender.queueing import lifecycle as to
from extender.queueing.cycle import Admit, NotAdmitted, Preempt
from extender.queueing.rules import AdmissionOptions
from extender.queueing.status import pod_set_fault
from extender.state.queue.records import PreemptionPolicy, WorkloadInfo
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    cohort,
    condition,
    local_queue,
    pod_set,
    stated,
    workload,
)

GATE = "kueue.x-k8s.io/admission-gated-by"
BLOCKED = "BlockedOnPreemptionGates"
LOWER = PreemptionPolicy(within_cluster_queue="LowerPriority")


def gated(of: WorkloadInfo, by: str) -> WorkloadInfo:
    """Return a newer version of a workload whose annotation says who holds it back."""
    meta = replace(of.meta, annotations={GATE: by}, version=of.meta.version + 1)
    return replace(of, meta=meta)


def step(of: WorkloadInfo, queues: Admissions) -> lifecycle.WorkloadStep:
    return lifecycle.decide(of, queues.view, queues.now, orphaned=False)


def test_a_gated_workload_stays_out_of_its_queue_and_says_who_holds_it() -> None:
    waits = gated(workload("w"), "example.com/budget,example.com/data")
    queues = Admissions(cluster_queue(), local_queue(), waits)
    assert queues.admitted() == []
    found = step(waits, queues)
    assert (found.reason, found.message) == (
        "AdmissionGated",
        "Workload admission is gated by: example.com/budget,example.com/data",
    )
    assert found.after is not None
    text = "Admission is gated by: example.com/budget,example.com/data"
    assert stated(found.after, "QuotaReserved") == ("False", "AdmissionGated", text)
    assert step(found.after, queues).after is None, "it is said once"
    fewer = gated(found.after, "example.com/data")
    again = step(fewer, queues)
    assert again.after is not None, "another list is said again"


def test_a_workload_whose_gate_is_cleared_is_queued_by_its_creation() -> None:
    first, second = gated(workload("first"), "example.com/budget"), workload("second")
    queues = Admissions(cluster_queue(cpu=1), local_queue(), first, second)
    held = step(first, queues).after
    assert held is not None
    cleared = gated(held, "")
    queues.put(cleared)
    found = step(cleared, queues)
    assert (found.reason, found.message) == (
        "AdmissionGateCleared",
        "Admission gate cleared, workload is now admissible",
    )
    assert found.after is not None
    text = "AdmissionGatedBy cleared, waiting for quota reservation"
    assert stated(found.after, "QuotaReserved") == ("False", "PendingEvaluation", text)
    assert step(found.after, queues).reason == ""
    assert queues.admitted() == ["first"]


def test_a_gate_takes_no_quota_away() -> None:
    runs = workload("w")
    runs = gated(replace(runs, admission=admission(runs)), "example.com/late")
    queues = Admissions(cluster_queue(), local_queue(), runs)
    assert step(runs, queues).after is None


def two(*, gates: tuple[str, ...] = ("example.com/g",), **more: Any) -> Admissions:
    """Return a full ClusterQueue, and a workload of higher priority with gates."""
    low = workload("low", 4)
    low = replace(low, admission=admission(low), conditions=(condition("QuotaReserved"),))
    high = workload("high", 4, priority=10, closed_gates=gates)
    return Admissions(cluster_queue(cpu=4, preemption=LOWER, **more), local_queue(), low, high)


def test_closed_gates_leave_the_victims_alone_and_say_so() -> None:
    [blocked] = two().decide()
    assert isinstance(blocked, NotAdmitted)
    assert blocked.gated
    assert blocked.reason == "WaitingForQuota"
    assert "preemption gates" in blocked.message
    [preempts] = two(gates=()).decide()
    assert isinstance(preempts, Preempt)


def test_closed_gates_count_only_where_there_is_something_to_preempt() -> None:
    queues = two()
    low = queues.view.workloads["ns/low"]
    queues.put(replace(low, priority=20, meta=replace(low.meta, version=10**6)))
    [waits] = queues.decide()
    assert isinstance(waits, NotAdmitted)
    assert not waits.gated
    queues.drop(queues.view.workloads["ns/low"])
    [admitted] = queues.decide()
    assert isinstance(admitted, Admit), "it is admitted where it fits"


def test_a_gate_that_opens_queues_the_workload_again() -> None:
    queues = two()
    assert [type(each) for each in queues.run()] == [NotAdmitted]
    assert queues.run() == ()
    high = queues.view.workloads["ns/high"]
    opened = replace(
        high,
        closed_gates=(),
        open_gates=high.closed_gates,
        meta=replace(high.meta, version=high.meta.version + 1000),
    )
    queues.put(opened)
    assert [type(each) for each in queues.run()] == [Preempt]


def test_closed_gates_keep_borrowers_of_the_cohort_too() -> None:
    low = workload("low", 6, "other")
    low = replace(low, admission=admission(low, "other"), conditions=(condition("QuotaReserved"),))
    policy = PreemptionPolicy(reclaim_within_cohort="Any")
    records = (
        cohort("all"),
        cluster_queue("cq", 4, "all", preemption=policy),
        cluster_queue("other", 4, "all"),
        local_queue(),
        local_queue("other"),
        low,
    )
    for gates, kind in (((), Preempt), (("example.com/g",), NotAdmitted)):
        queues = Admissions(*records, workload("high", 4, closed_gates=gates))
        assert [type(each) for each in queues.decide()] == [kind]


def test_an_eviction_closes_all_gates() -> None:
    runs = workload("w", closed_gates=("a",), open_gates=("b",))
    runs = to.with_gates(replace(runs, admission=admission(runs)), "", "x", blocked=True, now=5.0)
    after = to.evicted(runs, "Preempted", "others need it", now=7.0)
    assert (after.closed_gates, after.open_gates) == (("a", "b"), ())
    assert stated(after, BLOCKED)[:2] == ("False", "Preempted")
    assert status_patch(runs, after)["preemptionGates"] == [
        {"name": name, "position": "Closed", "lastTransitionTime": "1970-01-01T00:00:07Z"}
        for name in ("a", "b")
    ]
    untouched = workload("w")
    assert "preemptionGates" not in status_patch(
        untouched, to.evicted(untouched, "Preempted", "", now=7.0)
    )


def test_quota_ends_the_condition_of_gates() -> None:
    waits = to.with_gates(workload("w"), "", "it has victims", blocked=True, now=5.0)
    assert stated(waits, BLOCKED) == ("True", "PreemptionGated", "it has victims")
    after = to.reserved(waits, admission(waits), 6.0)
    assert not after.holds(BLOCKED)
    assert to.with_gates(workload("w"), "x", "y", now=1.0).condition(BLOCKED) is None


@pytest.mark.parametrize("setting", ["Refuse", "Ignore"])
def test_claims_that_no_quota_counts_are_refused_unless_a_setting_says_otherwise(
    setting: Literal["Refuse", "Ignore"],
) -> None:
    options = AdmissionOptions(resource_claims=setting)
    claims = workload("w", replace(pod_set(), resource_claims=True))
    queues = Admissions(cluster_queue(), local_queue(), claims, options=options)
    [outcome] = queues.decide()
    if setting == "Ignore":
        assert isinstance(outcome, Admit)
        return
    assert isinstance(outcome, NotAdmitted)
    assert outcome.reason == "Misconfigured"
    assert outcome.message == pod_set_fault(claims, options)
    assert "DRA resource claims not supported" in outcome.message
    assert "queue.resourceClaims" in outcome.message
