"""Admissions of workloads: one id for each, from the cycle that decides it until the job starts.

What is noted here becomes log lines and a trace; no decision reads it. A decision that cannot be
written, because the workload has changed, and the next one are one admission.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import structlog
from cachetools import LRUCache
from opentelemetry.trace import NoOpTracer, Tracer

from extender.api.wellknown import WorkloadCondition
from extender.queueing import transitions as to
from extender.runtime.clock import Clock
from extender.runtime.faults import harmless
from extender.state.queue.events import QueueChange
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.store import Queues
from extender.telemetry.traces import MOST_EVENTS, NAMESPACE, REMEMBERED, Event, Trace, Value

STARTED: Final = "Started"
DELETED: Final = "WorkloadDeleted"
_noted: Final = harmless("admission-starts")


@dataclass(slots=True)
class AdmissionStart:
    """An admission that is under way. All times are monotonic seconds."""

    workload: WorkloadInfo
    """The workload as it was when it was decided."""
    cluster_queue: str
    trace: Trace
    began: float
    """The time at which the cycle began that decided it last."""
    decided: float
    admitted: float | None = None
    """The time at which the admission was stored."""
    lost: deque[Event] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))
    """The latest writes that came to nothing."""


class AdmissionStarts:
    """The admissions that are under way, by workload. What notes something raises nothing."""

    def __init__(self, queues: Queues, clock: Clock) -> None:
        self._view = queues.view()
        self._clock, self._now = clock, clock.monotonic
        self._began = 0.0
        self._under_way: dict[str, AdmissionStart] = {}
        self._last: LRUCache[str, str] = LRUCache(REMEMBERED)
        self.tracer: Tracer = NoOpTracer()
        """Makes the traces of admissions that begin from now on."""
        self._log = structlog.get_logger(__name__).bind()
        queues.subscribe(self.on_change)

    def id_of(self, workload: str) -> str | None:
        """Return the id of a workload's admission that is under way, else of its last one."""
        found = self._under_way.get(workload)
        return found.trace.id if found is not None else self._last.get(workload)

    # --- what happens ------------------------------------------------------------------------

    @_noted
    def cycle(self) -> None:
        """Note that a cycle begins."""
        self._began = self._now()

    @_noted
    def decided(self, workload: WorkloadInfo, cluster_queue: str) -> None:
        """Note that a workload gets its quota, which is to be written."""
        began, now = self._began, self._now()
        found = self._under_way.get(workload.key)
        if found is None or found.workload.meta.uid != workload.meta.uid:
            queued = to.queued_since(workload) - self._clock.wall() + now
            trace = Trace(self.tracer, self._clock, "admission", began=min(queued, began))
            found = AdmissionStart(workload, cluster_queue, trace, began, now)
            self._under_way[workload.key] = found
            return
        found.workload, found.cluster_queue = workload, cluster_queue
        found.began, found.decided, found.admitted = began, now, None

    @_noted
    def not_stored(self, workload: str, why: str) -> None:
        """Note that a write came to nothing: it is decided once more."""
        found = self._under_way.get(workload)
        if found is not None:
            found.lost.append((self._now(), "not stored", {"gang_extender.reason": why}))

    @_noted
    def written(self, before: WorkloadInfo, after: WorkloadInfo, cluster_queue: str) -> None:
        """Note a status that was stored in place of another one."""
        key = after.key
        if after.admitted and not before.admitted:
            self._admitted(after, cluster_queue)
        elif after.evicted and not before.evicted:
            self._evicted(after, cluster_queue)
        elif after.finished and not before.finished:
            self._end(key, str(WorkloadCondition.FINISHED))
        reason, message = _why_it_waits(after)
        if reason and reason != _why_it_waits(before)[0]:
            self._log.debug(
                "workload waits",
                workload=key,
                cluster_queue=cluster_queue,
                reason=reason,
                message=message,
            )

    @_noted
    def job_started(self, uid: str, namespace: str) -> None:
        """Note that a job started: the admission of its workload is over."""
        for key in self._view.workloads_of(uid, namespace):
            found = self._under_way.get(key)
            if found is not None and found.admitted is not None:
                self._end(key, STARTED)

    @_noted
    def on_change(self, change: QueueChange) -> None:
        """End the admissions of workloads that are gone."""
        if self._under_way:
            for key in change.workloads & self._under_way.keys():
                if key not in self._view.workloads:
                    self._end(key, DELETED)

    # --- the rule ----------------------------------------------------------------------------

    def _admitted(self, workload: WorkloadInfo, cluster_queue: str) -> None:
        found = self._under_way.get(workload.key)
        if found is not None:
            found.admitted = self._now()
        waited = max(0.0, self._clock.wall() - to.queued_since(workload))
        self._log.info(
            "workload admitted",
            workload=workload.key,
            cluster_queue=cluster_queue,
            admission_id=self.id_of(workload.key),
            waited=round(waited, 1),
        )

    def _evicted(self, workload: WorkloadInfo, cluster_queue: str) -> None:
        why = workload.condition(WorkloadCondition.EVICTED)
        reason, message = (why.reason, why.message) if why is not None else ("", "")
        self._log.info(
            "workload evicted",
            workload=workload.key,
            cluster_queue=cluster_queue,
            admission_id=self.id_of(workload.key),
            reason=reason,
            message=message,
        )
        self._end(workload.key, reason, message)

    def _end(self, key: str, reason: str, message: str = "") -> None:
        found = self._under_way.pop(key, None)
        if found is not None:
            self._last[key] = found.trace.id
            if found.trace.is_recording:
                _end_trace(found, self._now(), reason=reason, message=message)


def _end_trace(found: AdmissionStart, ended: float, *, reason: str, message: str) -> None:
    """Add the stages that were reached, and end the trace; what was not left ends with it."""
    workload, admitted, trace = found.workload, found.admitted, found.trace
    queued = min(to.queued_since(workload) - trace.epoch, found.began)
    waited_for, waited_message = _why_it_waits(workload)
    why: dict[str, Value] = {
        "gang_extender.reason": waited_for,
        "gang_extender.message": waited_message,
    }
    trace.add_stage("wait", (queued, found.began), attributes=why, events=found.lost)
    trace.add_stage("decide", (found.began, found.decided))
    trace.add_stage("write", (found.decided, admitted if admitted is not None else ended))
    if admitted is not None:
        trace.add_stage("start", (admitted, ended))
    attributes: dict[str, Value] = {
        NAMESPACE: workload.meta.namespace,
        "gang_extender.workload": workload.meta.name,
        "gang_extender.queue": workload.queue_name,
        "gang_extender.cluster_queue": found.cluster_queue,
        "gang_extender.pods": sum(each.count for each in workload.pod_sets),
        "gang_extender.reason": reason,
        "gang_extender.admission_id": trace.id,
    }
    if workload.owner is not None:
        attributes["gang_extender.job"] = f"{workload.owner.kind}/{workload.owner.name}"
    if message:
        attributes["gang_extender.message"] = message
    trace.end(ended, attributes, error="" if reason == STARTED else message or reason)


def _why_it_waits(workload: WorkloadInfo) -> tuple[str, str]:
    """Return the reason and the message for which a workload waits, as its status has them."""
    why = workload.condition(WorkloadCondition.QUOTA_RESERVED)
    if why is None or why.status == "True":
        return "", ""
    return why.reason, why.message
