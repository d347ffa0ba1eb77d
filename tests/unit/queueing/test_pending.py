"""Which workloads wait in which queue, and when they are tried again."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from extender.api.core_v1 import LabelSelector
from extender.queueing.cycle import Admit, NotAdmitted
from extender.queueing.pending import Counts
from extender.queueing.quota import QuotaTree
from extender.state.queue import events as ev
from extender.state.queue.records import CheckRule, NamespaceInfo, RequeueInfo, WorkloadInfo
from tests.makers import key
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    condition,
    local_queue,
    meta,
    pod_set,
    workload,
)


@pytest.fixture
def queues() -> Admissions:
    return Admissions(cluster_queue(), local_queue())


def changed(before: WorkloadInfo, **fields: object) -> WorkloadInfo:
    newer = replace(meta(before.meta.name, "ns"), created=before.meta.created)
    return replace(before, **{"meta": newer, **fields})  # type: ignore[arg-type]


NOT_QUEUED: dict[str, dict[str, object]] = {
    "has quota": {"admission": admission(workload("w"))},
    "is evicted and has quota still": {
        "admission": admission(workload("w")),
        "conditions": (condition("Evicted", "Preempted"),),
    },
    "has ended": {"conditions": (condition("Finished"),)},
    "is not active": {"active": False},
    "is being deleted": {"meta": meta("w", "ns", version=10**9, terminating=True)},
    "asks for a queue that is not there": {"queue_name": "elsewhere"},
}


@pytest.mark.parametrize("fields", NOT_QUEUED.values(), ids=NOT_QUEUED)
def test_a_workload_leaves_its_queue_when_it_need_not_wait(
    queues: Admissions, fields: dict[str, object]
) -> None:
    queues.put(workload("w"))
    assert queues.waiting() == ["w"]
    queues.put(changed(queues.view.workloads[key("w")], **fields))
    assert queues.waiting() == []
    assert queues.run() == ()


@pytest.mark.parametrize("queue", [local_queue, cluster_queue])
def test_a_stopped_queue_is_empty(queues: Admissions, queue: Callable[..., Any]) -> None:
    queues.put(workload("w"), queue(stop_policy="Hold"))
    assert queues.waiting() == []
    queues.put(queue())
    assert queues.admitted() == ["w"]


def test_a_cluster_queue_that_is_gone_is_empty(queues: Admissions) -> None:
    queues.put(workload("w"))
    queues.drop(queues.view.cluster_queues["cq"])
    assert queues.waiting() == []
    assert queues.pending.queue("cq").counts() == Counts()
    queues.put(cluster_queue(meta=meta("cq", uid="second")))
    assert queues.admitted() == ["w"]


def test_workloads_may_be_there_before_their_queues() -> None:
    queues = Admissions(workload("w"))
    queues.put(local_queue())
    assert queues.waiting() == []
    queues.put(cluster_queue())
    assert queues.admitted() == ["w"]


def test_a_workload_that_lost_its_quota_is_queued_again_where_it_was(queues: Admissions) -> None:
    first = workload("first", 4)
    queues.put(first, workload("second", 4))
    assert queues.admitted() == ["first"]
    evicted = (condition("Evicted", "Preempted", at=queues.now),)
    queues.put(changed(first, conditions=evicted, admission=admission(first)))
    assert queues.waiting() == ["second"]
    queues.put(changed(first, conditions=evicted))
    assert queues.waiting() == ["first", "second"]
    assert queues.admitted() == ["first"]


def test_equivalent_workloads_become_inadmissible_together(queues: Admissions) -> None:
    queues.put(*(workload(f"big{number}", 5) for number in range(3)), workload("small"))

    assert [type(x) for x in queues.run()] == [NotAdmitted, Admit]
    assert queues.pending.queue("cq").counts() == Counts(active=0, inadmissible=3)
    queues.put(workload("big3", 5))
    assert queues.run() == ()
    assert queues.waiting() == ["big0", "big1", "big2", "big3"]


def test_an_older_equal_is_tried(queues: Admissions) -> None:
    queues.put(workload("big", 5, created=9))
    assert len(queues.run()) == 1
    queues.put(workload("older", 5, created=1))
    assert queues.pending.queue("cq").counts() == Counts(active=1, inadmissible=1)
    assert [x.workload for x in queues.run()] == [key("older")]


def test_a_change_of_status_is_no_reason_to_try_again(queues: Admissions) -> None:
    queues.put(workload("big", 5))
    assert len(queues.run()) == 1
    reported = (condition("QuotaReserved", "ExceedsMaxQuota", true=False),)
    queues.put(changed(queues.view.workloads[key("big")], conditions=reported))
    assert queues.pending.is_inadmissible(key("big"))
    assert queues.run() == ()


def test_another_priority_or_size_is(queues: Admissions) -> None:
    queues.put(workload("big", 5))
    assert len(queues.run()) == 1
    queues.put(changed(queues.view.workloads[key("big")], priority=1))
    assert len(queues.run()) == 1
    queues.put(changed(queues.view.workloads[key("big")], pod_sets=(pod_set(4),)))
    assert queues.admitted() == ["big"]


def test_quota_that_comes_back_concerns_only_the_queues_that_share_it() -> None:
    queues = Admissions(
        *(cluster_queue(name, 1, "all") for name in "ab"),
        cluster_queue("c", 1),
        *(local_queue(name) for name in "abc"),
    )
    queues.put(*(workload(f"{name}-big", 5, name) for name in "abc"), workload("a-small", 1, "a"))
    assert queues.admitted() == ["a-small"]
    queues.drop(queues.view.workloads[key("a-small")])

    assert queues.pending.ready() == ["a", "b"]
    assert queues.pending.is_inadmissible(key("c-big"))


def test_a_requeued_workload_waits_until_its_time() -> None:
    queues = Admissions(cluster_queue(), local_queue())
    queues.put(workload("w", requeue=RequeueInfo(1, queues.now + 60)))
    assert queues.run() == ()
    assert queues.pending.queue("cq").counts() == Counts(inadmissible=1)
    assert queues.pending.next_backoff_end() == queues.now + 60
    for _ in queues.pending.requeue_all(queues.view, queues.now):
        pass
    assert queues.run() == ()

    queues.now += 60
    queues.pending.end_backoffs(queues.now)
    assert queues.pending.queue("cq").counts() == Counts(active=1)
    assert queues.pending.next_backoff_end() is None
    assert queues.admitted() == ["w"]


def test_a_workload_that_is_not_requeued_waits_for_its_condition(queues: Admissions) -> None:
    made = workload("w", conditions=(condition("Requeued", "PodsReadyTimeout", true=False),))
    queues.put(made)
    for _ in queues.pending.requeue_all(queues.view, queues.now):
        pass
    assert queues.run() == ()
    assert queues.waiting() == ["w"]
    queues.put(changed(made, conditions=(condition("Requeued", "BackoffFinished"),)))
    assert queues.admitted() == ["w"]


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_a_namespace_that_is_not_selected_bars_no_workload_of_others(strategy: str) -> None:
    queues = Admissions(
        cluster_queue(strategy=strategy, namespace_selector=LabelSelector({"team": "a"})),
        local_queue(),
    )
    queues.put(workload("w"), workload("x"))
    assert queues.run() == (
        NotAdmitted(
            key("w"),
            "Misconfigured",
            "namespace ns doesn't match ClusterQueue selector: spec.namespaceSelector of cq does "
            "not select it ({} selects every namespace, no selector selects none)",
        ),
    )
    for _ in queues.pending.requeue_all(queues.view, queues.now):
        pass
    assert queues.run() == ()
    queues.put(NamespaceInfo("elsewhere", {"team": "a"}))
    assert queues.run() == ()
    queues.put(NamespaceInfo("ns", {"team": "a"}))
    assert queues.admitted() == ["w", "x"]


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_a_namespace_that_is_no_longer_selected_makes_its_workloads_inadmissible(
    strategy: str,
) -> None:
    queues = Admissions(
        cluster_queue("cq", 1, strategy=strategy, namespace_selector=LabelSelector({"team": "a"})),
        local_queue(),
        NamespaceInfo("ns", {"team": "a"}),
    )
    queues.put(workload("w", 2))
    assert [each.reason for each in queues.run() if isinstance(each, NotAdmitted)] == [
        "ExceedsMaxQuota"
    ]
    assert queues.run() == ()
    queues.put(NamespaceInfo("ns", {"team": "b"}))
    assert [each.reason for each in queues.run() if isinstance(each, NotAdmitted)] == [
        "Misconfigured"
    ]


def test_a_queue_that_lacks_a_flavor_admits_no_workload() -> None:
    queues = Admissions(
        cluster_queue(admission_checks=(CheckRule("budget"),)), local_queue(), workload("w")
    )
    (outcome,) = queues.run()
    assert isinstance(outcome, NotAdmitted)
    assert outcome.reason == "Suspended"
    queues.put(cluster_queue())
    assert queues.admitted() == ["w"]


def test_counts_by_local_queue(queues: Admissions) -> None:
    queues.put(local_queue("other", "cq"), workload("a", 9), workload("b", 1, "other"))
    queues.put(workload("late", 1, "other", requeue=RequeueInfo(1, queues.now + 60)))
    assert queues.pending.queue("cq").counts() == Counts(active=2, inadmissible=1)
    assert queues.pending.queue("cq").counts("ns/other") == Counts(active=1, inadmissible=1)
    queues.run()
    assert queues.pending.queue("cq").counts("ns/cq") == Counts(inadmissible=1)
    assert queues.pending.queue("nowhere").counts() == Counts()


def test_a_new_head_of_a_strict_queue_is_tried() -> None:
    queues = Admissions(cluster_queue(strategy="StrictFIFO"), local_queue(), workload("big", 5))
    assert len(queues.run()) == 1
    queues.put(workload("behind"))
    assert queues.run() == ()
    queues.put(workload("urgent", priority=1))
    assert queues.admitted() == ["urgent"]
    queues.apply(ev.Deleted(queues.view.workloads[key("big")]))
    assert queues.admitted() == ["behind"]


def test_a_line_may_be_released_while_its_followers_are_yielded(queues: Admissions) -> None:
    queues.put(*(workload(name, 99, created=at) for at, name in enumerate("abc")))
    queues.run()
    followers = queues.pending.followers()
    first = next(followers)
    queues.pending.requeue(key("a"))
    assert [first, *followers] == [(key(name), key("a")) for name in "abc"]


def test_those_that_share_quota_are_found_once_for_each_tree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cycle may release quota of very many ClusterQueues of one cohort."""
    names = [f"q{number}" for number in range(9)]
    queues = Admissions(*(cluster_queue(name, 1, "team") for name in names), cluster_queue("alone"))
    asked, sharing = list[str](), QuotaTree.sharing_with

    def counted(tree: QuotaTree, name: str) -> Iterator[str]:
        asked.append(name)
        return sharing(tree, name)

    monkeypatch.setattr(QuotaTree, "sharing_with", counted)
    found = queues.pending.sharing_with([*names, "alone", "gone"], queues.view)
    assert found == ["alone", "gone", *names]
    assert asked == ["q0", "alone", "gone"]
