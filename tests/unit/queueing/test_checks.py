"""Admission checks: which a workload needs, and what becomes of it by their states."""

from dataclasses import replace
from typing import Any

import pytest

from extender.api.queue_wire import PodSetUpdate
from extender.queueing import checks, lifecycle
from extender.queueing import lifecycle as to
from extender.state.queue.records import CheckRule, CheckState, OwnerRef, RequeueInfo, WorkloadInfo
from tests.makers import NAMESPACE
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    condition,
    group,
    local_queue,
    meta,
    stated,
    workload,
)

RULES = (
    CheckRule("nodes", frozenset(("spot", "reserved"))),
    CheckRule("budget"),
    CheckRule("audit", frozenset(("default",))),
)
NOW = 1_000_000.0


def check(name: str, state: str = "Pending", message: str = "", **more: Any) -> CheckState:
    return CheckState(name, state, message, **{"last_transition": NOW - 100, **more})


def holds(
    *states: CheckState, rules: tuple[CheckRule, ...] | None = None, **more: Any
) -> tuple[Admissions, WorkloadInfo]:
    """Return a workload that holds quota, with these states of its checks."""
    asks = workload("w")
    held = to.reserved(asks, replace(admission(asks), **more), NOW - 200)
    held = replace(held, checks=states)
    listed = tuple(CheckRule(each.name) for each in states) if rules is None else rules
    return Admissions(cluster_queue(admission_checks=listed), local_queue(), held), held


def step(of: WorkloadInfo, queues: Admissions) -> lifecycle.WorkloadStep:
    return lifecycle.decide(of, queues.view, NOW, orphaned=False)


@pytest.mark.parametrize(
    ("flavor", "want"),
    [
        ("default", ("audit", "budget")),
        ("spot", ("budget", "nodes")),
        ("other", ("budget",)),
    ],
)
def test_the_assigned_flavors_say_which_checks_are_due(flavor: str, want: tuple[str, ...]) -> None:
    queue = cluster_queue(cpu=group(default=1, spot=1, other=1), admission_checks=RULES)
    assert checks.due(queue, admission(workload("w"), flavor=flavor)) == want
    assert checks.due(cluster_queue(), admission(workload("w"))) == ()
    assert checks.due(None, admission(workload("w"))) == ()


def test_new_checks_are_pending_and_those_no_longer_due_go() -> None:
    ready, gone = check("audit", "Ready"), check("gone", "Rejected", "never")
    queues, held = holds(gone, ready, rules=RULES)
    found = step(held, queues).after
    assert found is not None
    assert found.checks == (ready, check("budget", last_transition=NOW))
    assert checks.unready(found) == ("budget",)
    assert step(found, queues) == lifecycle.WorkloadStep(), "it is written once"
    passed = replace(found, checks=(ready, check("budget", "Ready")))
    assert checks.unready(passed) == ()


def test_a_workload_without_checks_is_left_as_it_is() -> None:
    queues, held = holds()
    assert checks.synced(held, queues.view, NOW) is held
    waits = workload("waits")
    assert checks.synced(waits, queues.view, NOW) is waits


@pytest.mark.parametrize(
    ("states", "known", "until"),
    [
        ((check("a", "Retry", "no nodes", requeue_after_seconds=160),), None, (0, NOW + 60)),
        ((check("a", "Retry", "no nodes", requeue_after_seconds=90),), None, None),
        ((check("a", "Retry", "no nodes"),), None, None),
        (
            (
                check("a", "Retry", "no nodes", requeue_after_seconds=160),
                check("b", "Retry", "broke", requeue_after_seconds=200),
                check("c", "Ready", requeue_after_seconds=900),
            ),
            RequeueInfo(2, NOW + 10),
            (2, NOW + 100),
        ),
        (
            (check("a", "Retry", "no nodes", requeue_after_seconds=160),),
            RequeueInfo(2, NOW + 500),
            (2, NOW + 500),
        ),
    ],
)
def test_retry_takes_the_quota_until_the_latest_time(
    states: tuple[CheckState, ...], known: RequeueInfo | None, until: tuple[int, float] | None
) -> None:
    queues, held = holds(*states)
    found = step(replace(held, requeue=known), queues)
    assert found.reason == "Evicted"
    assert found.after is not None
    assert found.after.requeue == (None if until is None else RequeueInfo(*until))
    said = stated(found.after, "Evicted")
    assert said[:2] == ("True", "AdmissionCheck")
    assert said[2].startswith("Evicted due to AdmissionCheck")
    assert '"a" (no nodes)' in said[2]
    assert found.message == said[2]
    assert all(each.state == "Pending" for each in found.after.checks)
    # Without quota it waits until its time, or not at all.
    waits = to.released(found.after, NOW)
    assert stated(waits, "Requeued")[:2] == ("False", "AdmissionCheck")
    queues.put(waits)
    again = step(waits, queues)
    if until is None:
        assert again.reason == "BackoffFinished"
    else:
        assert again.again == until[1] - NOW


def test_several_checks_are_told_in_one_sentence() -> None:
    queues, held = holds(check("a", "Retry", "x"), check("b", "Retry", "y"), check("c", "Ready"))
    assert step(held, queues).message == (
        'Evicted due to AdmissionChecks in Retry state: "a" (x); "b" (y)'
    )


def test_an_eviction_of_any_kind_begins_the_checks_anew() -> None:
    update = PodSetUpdate("main", labels={"a": "b"})
    states = (
        check("a", "Ready", "there", pod_set_updates=(update,), retry_count=1),
        check("b", "Retry", "later", requeue_after_seconds=60, retry_count=1),
        check("c", message="soon"),
    )
    _, held = holds(*states)
    text = "Reset to Pending after eviction. Previously: "
    assert to.preempted(held, "InClusterQueue", "for another", now=NOW).checks == (
        CheckState("a", "Pending", text + "Ready", NOW, retry_count=1),
        CheckState("b", "Pending", text + "Retry", NOW, (), 60, 2),
        states[2],
    )


def test_rejected_deactivates_and_reactivation_begins_anew() -> None:
    states = (check("a", "Rejected", "no budget", retry_count=3), check("b", "Retry", "x"))
    queues, held = holds(*states)
    found = step(held, queues)
    text = 'AdmissionCheck in Rejected state: "a" (no budget)'
    assert (found.reason, found.message) == ("AdmissionCheckRejected", f"Deactivated due to {text}")
    assert found.after is not None
    assert stated(found.after, "DeactivationTarget") == ("True", "AdmissionCheck", text)
    assert step(found.after, queues).deactivate
    inactive = replace(found.after, active=False)
    gone = step(inactive, queues).after
    assert gone is not None
    assert stated(gone, "Evicted") == (
        "True",
        "DeactivatedDueToAdmissionCheck",
        f"The workload is deactivated due to {text}",
    )
    assert gone.condition("DeactivationTarget") is None
    waits = to.released(gone, NOW)
    queues.put(waits)
    assert step(waits, queues).reason == ""
    back = step(replace(waits, active=True), queues)
    assert back.reason == "Reactivated"
    assert back.after is not None
    assert [(each.state, each.retry_count) for each in back.after.checks] == [("Pending", 0)] * 2


def test_a_workload_that_leaves_already_is_not_evicted_again() -> None:
    queues, held = holds(check("a", "Retry", "x"))
    gone = to.preempted(held, "InClusterQueue", "for another", now=NOW)
    job = OwnerRef("batch/v1", "Job", "j", "uid")
    late = replace(gone, checks=(check("a", "Retry", "x"),), owners=(job,))
    assert step(late, queues).after is None


def test_an_evicted_one_goes_to_the_end_of_its_queue() -> None:
    early, late = (
        workload("early", created=1, conditions=(condition("Evicted", "AdmissionCheck", at=50.0),)),
        workload("late", created=2),
    )
    queues = Admissions(cluster_queue(cpu=1), local_queue(), early, late)
    assert queues.admitted() == ["late"]


def test_long_messages_are_cut() -> None:
    many = [check(f"c{n}", "Retry", "x" * 32_768) for n in range(8)]
    assert len(checks.told(many, "Retry")) == 32_000


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
@pytest.mark.parametrize("which", ["ClusterQueue", "LocalQueue"])
def test_a_stopped_queue_takes_back_what_is_only_reserved(policy: Any, which: str) -> None:
    state = check("a", "Ready", "there")
    queues, held = holds(state, reserved_only=True)
    assert step(held, queues).after is None
    rules = (CheckRule("a"),)
    queues.put(
        cluster_queue(admission_checks=rules, stop_policy=policy)
        if which == "ClusterQueue"
        else local_queue(stop_policy=policy)
    )
    found = step(held, queues).after
    assert found is not None
    assert found.admission is None
    assert stated(found, "QuotaReserved") == ("False", "Suspended", f"{which} cq is stopped")
    assert stated(found, "Admitted")[:2] == ("False", "NoReservation")
    assert [each.state for each in found.checks] == ["Pending"]
    assert found.condition("Evicted") is None


def test_a_cluster_queue_that_goes_takes_back_what_is_only_reserved() -> None:
    queues, held = holds(reserved_only=True)
    leaving = cluster_queue(meta=meta("cq", terminating=True, finalizers=("f",)))
    queues.put(leaving)
    found = step(held, queues).after
    assert found is not None
    assert stated(found, "QuotaReserved")[1:] == ("Suspended", "ClusterQueue cq is terminating")
    queues.drop(leaving)
    found = step(held, queues).after
    assert found is not None
    assert stated(found, "QuotaReserved")[1:] == ("Suspended", "ClusterQueue cq doesn't exist")


def test_what_was_said_of_an_earlier_reservation_counts_no_more() -> None:
    asks = replace(workload("w"), checks=(check("a", "Ready", "stale"),))
    (state,) = to.reserved(asks, admission(asks), NOW).checks
    assert (state.state, state.last_transition) == ("Pending", NOW)


def test_a_check_that_comes_late_is_what_the_workload_waits_for() -> None:
    queues, held = holds(rules=RULES)
    held = replace(held, conditions=(condition("Admitted", "WaitingForNodes", true=False),))
    held = replace(held, admission=replace(admission(held), reserved_only=True))
    found = step(held, queues).after
    assert found is not None
    assert stated(found, "Admitted")[:2] == ("False", "UnsatisfiedChecks")
    queues.put(replace(found, meta=meta("w", NAMESPACE)))
    assert not queues.view.passed
    passed = tuple(replace(each, state="Ready") for each in found.checks)
    queues.put(replace(found, meta=meta("w", NAMESPACE), checks=passed))
    assert queues.view.passed == {found.key}
