"""Quota that one that waits keeps from others: when it does so no more, they are tried again."""

from dataclasses import replace
from typing import Any

import pytest

from extender.api.core_v1 import LabelSelector
from extender.queueing.cycle import NotAdmitted, Preempt
from extender.queueing.rules import AdmissionOptions, PodsReady
from extender.state.cluster import events as cluster_events
from extender.state.queue.records import LocalQueueInfo, NamespaceInfo, WorkloadInfo
from tests.makers import cluster_of, node, observe
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

BLOCKING = AdmissionOptions(pods_ready=PodsReady(enabled=True, block_admission=True))
TEAM = LabelSelector({"team": "a"})
OURS = NamespaceInfo("ns", {"team": "a"})
ELSEWHERE = NamespaceInfo("far", {"team": "a"})


def holder(name: str, cpu: int, queue: str = "cq", **more: Any) -> WorkloadInfo:
    """Return a workload that is admitted."""
    conditions = (condition("QuotaReserved", at=100), condition("Admitted", at=100))
    held = admission(workload(name, cpu, queue), queue)
    return workload(name, cpu, queue, admission=held, conditions=conditions, **more)


def reasons(queues: Admissions) -> dict[str, str]:
    """Run cycles until none is left to be tried; return what was said last, by name."""
    found: dict[str, str] = {}
    for _ in range(9):
        for outcome in queues.run():
            said = outcome.reason if isinstance(outcome, NotAdmitted) else type(outcome).__name__
            found[outcome.workload.split("/")[1]] = str(said)
        if not queues.last.more and not queues.last.freed:
            return found
    raise AssertionError("it does not come to rest")


def far(name: str, cpu: int) -> WorkloadInfo:
    """Return a workload of another namespace, in a queue without quota of its own."""
    return workload(name, cpu, "other", meta=meta(name, "far", created=9.0))


def held() -> Admissions:
    """Return queues of a cohort in which `held` waits for the pods of `runs`, and keeps all."""
    queues = Admissions(
        cluster_queue("cq", 4, "all", namespace_selector=TEAM),
        local_queue(),
        cluster_queue("other", 0, "all"),
        LocalQueueInfo(meta("other", "far"), "other"),
        OURS,
        ELSEWHERE,
        options=BLOCKING,
    )
    queues.put(holder("runs", 1), workload("held", 3, created=1.0), far("far", 1))
    assert reasons(queues) == {"held": "WaitingForPodsReady", "far": "WaitingForQuota"}
    return queues


def no_more_welcome(queues: Admissions) -> None:
    queues.put(replace(OURS, labels={}))


def deleted(queues: Admissions) -> None:
    queues.drop(*(w for w in queues.view.workloads.values() if w.meta.name == "held"))


def larger_than_its_quota(queues: Admissions) -> None:
    before = queues.view.workloads["ns/held"]
    queues.put(replace(before, pod_sets=(pod_set(9),)))


GONE = pytest.mark.parametrize("gone", [no_more_welcome, deleted, larger_than_its_quota])


@GONE
def test_of_one_that_waits_for_pods(gone: Any) -> None:
    queues = held()
    gone(queues)
    assert reasons(queues)["far"] == "WaitingForPodsReady"


@GONE
def test_of_the_head_of_a_strict_queue(gone: Any) -> None:
    queues = Admissions(
        cluster_queue("cq", 2, "all", strategy="StrictFIFO", namespace_selector=TEAM),
        local_queue(),
        cluster_queue("other", 2, "all"),
        LocalQueueInfo(meta("other", "far"), "other"),
        OURS,
        ELSEWHERE,
    )
    queues.put(holder("runs", 1), holder("lent", 2, "other"))
    queues.put(workload("held", 2, created=1.0), far("far", 1))
    assert reasons(queues) == {"held": "WaitingForQuota", "far": "WaitingForQuota"}
    gone(queues)
    assert reasons(queues)["far"] == "Admit"


def test_of_a_head_that_others_come_before() -> None:
    """It is strict, and the first one now asks for too much to keep anything."""
    queues = Admissions(
        cluster_queue("cq", 2, "all", strategy="StrictFIFO"),
        local_queue(),
        cluster_queue("other", 2, "all"),
        local_queue("other"),
    )
    queues.put(holder("runs", 1), holder("lent", 2, "other"))
    queues.put(workload("head", 2, created=1.0), workload("waits", 1, "other", created=9.0))
    assert reasons(queues) == {"head": "WaitingForQuota", "waits": "WaitingForQuota"}
    queues.put(workload("first", 9, priority=1, created=2.0))
    assert reasons(queues) == {"first": "ExceedsMaxQuota", "waits": "Admit"}


def test_of_a_preemptor_that_goes() -> None:
    """Its victim has given its quota back, and would wait forever for what is free."""
    queues = Admissions(
        cluster_queue("cq", 4, preemption={"within_cluster_queue": "LowerPriority"}),
        local_queue(),
    )
    queues.put(holder("victim", 3), workload("urgent", 4, priority=9, created=5.0))
    [outcome] = queues.run()
    assert isinstance(outcome, Preempt)
    asks = workload("victim", 3, created=1.0, conditions=(condition("Evicted", "Preempted"),))
    queues.put(holder("other", 1), asks)
    assert reasons(queues)["victim"] == "WaitingForQuota"
    queues.drop(queues.view.workloads["ns/urgent"])
    assert reasons(queues) == {"victim": "Admit"}


def test_of_one_that_lost_its_room() -> None:
    cluster = cluster_of(node("n", 4))
    options = replace(BLOCKING, require_room=True)
    queues = Admissions(
        cluster_queue("cq", 4, "all"),
        local_queue(),
        cluster_queue("other", 0, "all"),
        local_queue("other"),
        options=options,
        cluster=cluster,
    )
    queues.put(holder("runs", 1), workload("held", 3, created=1.0))
    queues.put(workload("waits", 1, "other", created=9.0))
    assert reasons(queues) == {"held": "WaitingForPodsReady", "waits": "WaitingForQuota"}
    observe(cluster, cluster_events.ObjectApplied(node("n", 2)))
    assert reasons(queues) == {"held": "WaitingForRoom", "waits": "WaitingForPodsReady"}


def test_a_workload_that_goes_on_keeping_quota_causes_no_busy_loop() -> None:
    queues = held()
    for _ in range(3):
        queues.pending.requeue("ns/held")
        assert reasons(queues) == {"held": "WaitingForPodsReady"}
