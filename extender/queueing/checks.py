"""The admission checks of workloads: which ones a workload needs, and what their states mean.

A check is passed by another controller, which writes its state into `status.admissionChecks`. A
workload with quota is admitted when all of its checks are Ready. Retry takes its quota away for a
while, Rejected deactivates it.

Source: https://kueue.sigs.k8s.io/docs/concepts/admission_check/
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from extender.state.queue.records import (
    AdmissionInfo,
    CheckState,
    ClusterQueueInfo,
    RequeueInfo,
    WorkloadInfo,
)
from extender.state.queue.view import QueueView

PENDING: Final = "Pending"
READY: Final = "Ready"
RETRY: Final = "Retry"
REJECTED: Final = "Rejected"
_LONGEST_MESSAGE: Final = 32_000
"""Characters of a condition's message; the API stores 32,768."""


def due(queue: ClusterQueueInfo | None, admission: AdmissionInfo) -> tuple[str, ...]:
    """Return the names of the checks that an admission needs in this ClusterQueue, sorted.

    A check for some flavors is needed where one of them is assigned to any pod set.
    """
    if queue is None or not queue.admission_checks:
        return ()
    flavors = {name for each in admission.assignments for name in each.flavors.values()}
    return tuple(
        sorted(
            rule.name
            for rule in queue.admission_checks
            if not rule.flavors or not rule.flavors.isdisjoint(flavors)
        )
    )


def synced(workload: WorkloadInfo, view: QueueView, now: float) -> WorkloadInfo:
    """Return a workload with quota that lists exactly the checks that it needs.

    New ones are Pending. It is the same workload where nothing changes.
    """
    if workload.admission is None:
        return workload
    queue = view.cluster_queues.get(workload.admission.cluster_queue)
    names = due(queue, workload.admission)
    known = {each.name: each for each in workload.checks}
    if known.keys() == set(names):
        return workload
    listed = tuple(known.get(name) or CheckState(name, last_transition=now) for name in names)
    return replace(workload, checks=listed)


def unready(workload: WorkloadInfo) -> tuple[str, ...]:
    """Return the checks that keep a synced workload from being admitted."""
    return tuple(each.name for each in workload.checks if each.state != READY)


def in_state(workload: WorkloadInfo, state: str) -> tuple[CheckState, ...]:
    """Return the checks of a workload that are in a state."""
    return tuple(each for each in workload.checks if each.state == state)


def told(found: Iterable[CheckState], state: str) -> str:
    """Return in words which checks are in a state, and what their controllers say."""
    texts = [f'"{each.name}" ({each.message})' for each in found]
    noun = "AdmissionCheck" if len(texts) == 1 else "AdmissionChecks"
    return f"{noun} in {state} state: {'; '.join(texts)}"[:_LONGEST_MESSAGE]


def requeue_of(workload: WorkloadInfo, now: float) -> RequeueInfo | None:
    """Return until when a workload with checks in Retry backs off, where that is later."""
    ends = (
        each.last_transition + (each.requeue_after_seconds or 0)
        for each in in_state(workload, RETRY)
    )
    end, known = max(ends, default=0.0), workload.requeue
    if end <= now or (known is not None and known.at is not None and known.at >= end):
        return known
    return RequeueInfo(known.count if known is not None else 0, end)


def reset(found: Iterable[CheckState], now: float) -> tuple[CheckState, ...]:
    """Return the checks of a workload that loses its quota: all of them are Pending again."""
    return tuple(
        each
        if each.state == PENDING
        else replace(
            each,
            state=PENDING,
            message=f"Reset to Pending after eviction. Previously: {each.state}",
            last_transition=now,
            pod_set_updates=(),
            retry_count=each.retry_count + (each.state == RETRY),
        )
        for each in found
    )
