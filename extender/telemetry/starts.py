"""Starts of gangs and admissions of workloads: an id, log lines and a trace for each.

A start of a gang begins when kube-scheduler tries a member, or room is planned for it, of a gang
that lacks members on nodes. It goes on while the gang waits for room, and ends when what was
planned is bound, or when the gang loses the room that it had. An admission begins with the cycle
that decides it, and ends when the job starts; a decision that cannot be written, because the
workload has changed, and the next one are one admission. No decision reads what is noted here.

The parts of a process note times, and traces are made when a gang or an admission is over. The API
of OpenTelemetry does nothing until it is given a tracer of its SDK, which `otel` sets up.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Final, Generic, TypeVar

import structlog
from cachetools import LRUCache
from opentelemetry.context import Context
from opentelemetry.trace import (
    NoOpTracer,
    Status,
    StatusCode,
    Tracer,
    format_trace_id,
    set_span_in_context,
)

from extender.api.reasons import Reason
from extender.api.wellknown import WorkloadCondition
from extender.runtime.clock import Clock
from extender.runtime.faults import REMEMBERED, harmless
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from extender.state.queue.events import QueueChange
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.store import Queues

Value = str | int | float | bool
Event = tuple[float, str, Mapping[str, Value]]
"""The time, the name and the attributes of something that happened within a stage."""
NAMESPACE: Final = "k8s.namespace.name"
MOST_EVENTS: Final = 32
"""The most events of a kind that are kept for a stage."""


class Trace:
    """A trace of something that takes several stages. All times are monotonic seconds."""

    def __init__(self, tracer: Tracer, clock: Clock, name: str, *, began: float) -> None:
        self._tracer = tracer
        self.epoch = clock.wall() - clock.monotonic()
        """Added to a monotonic time it gives seconds since 1970."""
        self._began = began
        self._root = tracer.start_span(name, Context(), start_time=self._nanoseconds(began))
        context = self._root.get_span_context()
        self.id = format_trace_id(context.trace_id) if context.is_valid else token_hex(16)
        """32 hexadecimal digits, also where no trace is made."""

    @property
    def is_recording(self) -> bool:
        """Return whether the trace is made and sent."""
        return self._root.is_recording()

    def add_stage(
        self,
        name: str,
        times: tuple[float, float],
        *,
        attributes: Mapping[str, Value] | None = None,
        events: Iterable[Event] = (),
    ) -> None:
        """Add a child of the root that began and ended at these times."""
        began, ended = times
        parent = set_span_in_context(self._root, Context())
        start = self._nanoseconds(began)
        span = self._tracer.start_span(name, parent, attributes=attributes, start_time=start)
        for at, event, details in events:
            span.add_event(event, dict(details), self._nanoseconds(at))
        span.end(self._nanoseconds(max(began, ended)))

    def end(self, ended: float, attributes: Mapping[str, Value], error: str = "") -> None:
        """End the root, and with it the trace; `error` says why it failed."""
        self._root.set_attributes(dict(attributes))
        if error:
            self._root.set_status(Status(StatusCode.ERROR, error))
        self._root.end(self._nanoseconds(max(self._began, ended)))

    def _nanoseconds(self, monotonic: float) -> int:
        return int((monotonic + self.epoch) * 1_000_000_000)


_of_gangs: Final = harmless("gang-starts")


class GangStart:
    """A start that is under way. All times are monotonic seconds."""

    def __init__(self, group: str, began: float, trace: Trace) -> None:
        self.group = group
        self.began = began
        self.trace = trace
        self.planning: float | None = None
        """The time at which the latest plan was begun."""
        self.planned: float | None = None
        self.pods_planned = 0
        self.held: float | None = None
        self.released: float | None = None
        self.writing = 0
        """The number of Bindings that are being written."""
        self.binding: float | None = None
        """The time at which the first Binding was begun."""
        self.written: float | None = None
        """The time at which the last Binding was made, or failed."""
        self.bound = 0
        self.ahead = 0
        """The number of Bindings that were written ahead of kube-scheduler's requests."""
        self.failed = 0
        self.refusals: dict[str, Event] = {}
        """The first refusal for each reason, from before the gang had room."""
        self.failures = deque[Event](maxlen=MOST_EVENTS)
        """The latest Bindings that failed."""

    @property
    def has_room(self) -> bool:
        """Return whether room was kept for the gang."""
        return self.planned is not None or self.held is not None or self.binding is not None


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


T = TypeVar("T", GangStart, AdmissionStart)


class _Starts(Generic[T]):
    """The starts of a kind that are under way, by `namespace/name`. Noting one never raises.

    All methods are quick: they are called where kube-scheduler waits for an answer, in the middle
    of what is done for a gang.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._now = clock, clock.monotonic
        self._under_way: dict[str, T] = {}
        self._last: LRUCache[str, str] = LRUCache(REMEMBERED)
        self.tracer: Tracer = NoOpTracer()
        """Makes the traces of what begins from now on."""
        # Bound here, once: a line that is not logged costs a twentieth then.
        self._log = structlog.get_logger(__name__).bind()

    def id_of(self, key: str) -> str | None:
        """Return the id of what is under way of a group or a workload, else of its last one."""
        found = self._under_way.get(key)
        return found.trace.id if found is not None else self._last.get(key)


class GangStarts(_Starts[GangStart]):
    """The starts that are under way, by group."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        super().__init__(clock)
        self._view = cluster.view()
        cluster.subscribe(self.on_change)

    # --- what happens ------------------------------------------------------------------------

    @_of_gangs
    def tried(self, pod: PodInfo) -> None:
        """Note that kube-scheduler tries a pod."""
        if pod.group is not None and pod.group not in self._under_way:
            self._begin(pod.group)

    @_of_gangs
    def planning(self, group: str) -> None:
        """Note that a plan of a group is begun."""
        start = self._under_way.get(group) or self._begin(group)
        if start is not None and start.planned is None:
            start.planning = self._now()

    @_of_gangs
    def planned(self, group: str, pods: int) -> None:
        """Note that room is kept for so many more pods of a group."""
        start = self._under_way.get(group) or self._begin(group)
        if start is None:
            return
        start.planned = self._now()
        start.pods_planned += pods
        self._log.debug("gang planned", group=group, gang_id=start.trace.id, pods=pods)

    @_of_gangs
    def refused(self, group: str, reason: str, message: str, *, whole: bool = True) -> None:
        """Note that a member was refused, or that the `whole` group found no room.

        Each reason is logged once for each start, at the level debug where it says nothing of the
        whole group: it lacks pods, or its plan is being made.
        """
        start = self._under_way.get(group)
        if start is None or start.has_room or reason in start.refusals:
            return
        why = {"gang_extender.reason": reason, "gang_extender.message": message}
        start.refusals[reason] = self._now(), "refused", why
        log = self._log.info if whole else self._log.debug
        log("gang waits", group=group, gang_id=start.trace.id, reason=reason, message=message)

    @_of_gangs
    def held(self, group: str) -> None:
        """Note that the first bind request of a group is held."""
        start = self._under_way.get(group) or self._begin(group)
        if start is not None and start.held is None:
            start.held = self._now()
            self._log.debug("gang held", group=group, gang_id=start.trace.id)

    @_of_gangs
    def released(self, group: str, held: int) -> None:
        """Note that a gang is bound; so many of its bind requests were held."""
        start = self._under_way.get(group)
        if start is not None and start.released is None:
            start.released = self._now()
        if held:
            self._log.debug("gang released", group=group, gang_id=self.id_of(group), pods=held)

    @_of_gangs
    def writing(self, pod: PodInfo) -> None:
        """Note that a Binding is begun; `wrote` is to follow."""
        start = self._under_way.get(pod.group) if pod.group is not None else None
        if start is not None:
            start.writing += 1

    @_of_gangs
    def wrote(self, pod: PodInfo, error: str, *, seconds: float, ahead: bool) -> None:
        """Note a Binding that was made, or failed, after so many seconds."""
        start = self._under_way.get(pod.group) if pod.group is not None else None
        if start is None:
            return
        start.written = now = self._now()
        began = now - seconds
        if start.binding is None or began < start.binding:
            start.binding = began
        if error:
            start.failed += 1
            why = {"k8s.pod.name": pod.name, "exception.message": error}
            start.failures.append((now, "binding failed", why))
        else:
            start.bound += 1
            start.ahead += ahead
        start.writing = max(0, start.writing - 1)
        if not start.writing:
            self._end_if_over(start)  # the watch may have shown it before the answer came

    @_of_gangs
    def failed(self, group: str, reason: str, message: str, *, held: int) -> None:
        """Note that a gang lost all that was kept for it; so many bind requests were held."""
        about = {"group": group, "gang_id": self.id_of(group)}
        self._log.info("gang refused", **about, pods=held, reason=reason, message=message)
        start = self._under_way.get(group)
        if start is not None:
            self._end(start, reason, message)

    @_of_gangs
    def on_change(self, change: ClusterChange) -> None:
        """End the starts of which nothing is under way any more."""
        for group in change.groups:
            if group in self._under_way:
                self._end_if_over(self._under_way[group])

    # --- the rule ----------------------------------------------------------------------------

    def _begin(self, group: str) -> GangStart | None:
        """Begin the start of a group, unless it has started, or is none."""
        pod_group, tally = self._view.pod_group(group), self._view.tally(group)
        if pod_group is None:
            return None
        if len(tally.bound) + len(tally.binding) >= self._view.quorum(pod_group):
            return None
        now = self._now()
        trace = Trace(self.tracer, self._clock, "gang", began=now)
        start = self._under_way[group] = GangStart(group, now, trace)
        return start

    def _end_if_over(self, start: GangStart) -> None:
        group, tally = start.group, self._view.tally(start.group)
        if tally.binding or tally.waiting or tally.planned or start.writing:
            return
        pod_group = self._view.pod_group(group)
        if pod_group is None:
            self._end(start, Reason.POD_GROUP_DELETED)
        elif not tally.members:
            self._end(start, Reason.MEMBER_DELETED)
        elif len(tally.bound) >= self._view.quorum(pod_group):
            self._end(start, Reason.QUORUM_REACHED)
        elif start.has_room:
            few = len(tally.members) < self._view.quorum(pod_group)
            self._end(start, Reason.MEMBER_DELETED if few else Reason.ROOM_LOST)

    def _end(self, start: GangStart, reason: str, message: str = "") -> None:
        group, ended = start.group, self._now()
        del self._under_way[group]
        self._last[group] = start.trace.id
        about = {"group": group, "gang_id": start.trace.id}
        if reason == Reason.QUORUM_REACHED:
            ended = start.written or ended
            seconds = round(ended - start.began, 3)
            self._log.info("gang bound", **about, pods=start.bound, seconds=seconds)
        elif not message:
            self._log.info("gang failed", **about, reason=str(reason))
        if start.trace.is_recording:
            self._end_trace(start, ended, reason=str(reason), message=message)

    def _end_trace(self, start: GangStart, ended: float, *, reason: str, message: str) -> None:
        """Add the stages that were reached, and end the trace; what was not left ends with it."""
        trace, plan = start.trace, start.planning or start.began
        if start.refusals:
            until = plan if start.planned is not None else ended
            trace.add_stage("wait", (start.began, until), events=start.refusals.values())
        if start.planned is not None:
            pods: dict[str, Value] = {"gang_extender.pods": start.pods_planned}
            trace.add_stage("plan", (plan, start.planned), attributes=pods)
        if start.held is not None:
            trace.add_stage("hold", (start.held, start.released or ended))
        if start.binding is not None and start.written is not None:
            bindings: dict[str, Value] = {
                "gang_extender.bound": start.bound,
                "gang_extender.bound_ahead": start.ahead,
                "gang_extender.failed_bindings": start.failed,
            }
            times = start.binding, start.written
            trace.add_stage("bind", times, attributes=bindings, events=start.failures)
        namespace, _, name = start.group.partition("/")
        pod_group = self._view.pod_group(start.group)
        attributes: dict[str, Value] = {
            NAMESPACE: namespace,
            "gang_extender.group": name,
            "gang_extender.gang_id": trace.id,
            "gang_extender.members": len(self._view.tally(start.group).members),
            "gang_extender.min_members": pod_group.min_member if pod_group is not None else 0,
            "gang_extender.reason": reason,
        }
        if message:
            attributes["gang_extender.message"] = message
        failed = reason != Reason.QUORUM_REACHED
        trace.end(ended, attributes, error=(message or reason) if failed else "")


STARTED: Final = "Started"
DELETED: Final = "WorkloadDeleted"
_of_admissions: Final = harmless("admission-starts")


class AdmissionStarts(_Starts[AdmissionStart]):
    """The admissions that are under way, by workload."""

    def __init__(self, queues: Queues, clock: Clock) -> None:
        super().__init__(clock)
        self._view = queues.view()
        self._began = 0.0
        queues.subscribe(self.on_change)

    # --- what happens ------------------------------------------------------------------------

    @_of_admissions
    def cycle(self) -> None:
        """Note that a cycle begins."""
        self._began = self._now()

    @_of_admissions
    def decided(self, workload: WorkloadInfo, cluster_queue: str) -> None:
        """Note that a workload gets its quota, which is to be written."""
        began, now = self._began, self._now()
        found = self._under_way.get(workload.key)
        if found is None or found.workload.meta.uid != workload.meta.uid:
            queued = workload.queued_since - self._clock.wall() + now
            trace = Trace(self.tracer, self._clock, "admission", began=min(queued, began))
            found = AdmissionStart(workload, cluster_queue, trace, began, now)
            self._under_way[workload.key] = found
            return
        found.workload, found.cluster_queue = workload, cluster_queue
        found.began, found.decided, found.admitted = began, now, None

    @_of_admissions
    def not_stored(self, workload: str, why: str) -> None:
        """Note that a write came to nothing: it is decided once more."""
        found = self._under_way.get(workload)
        if found is not None:
            found.lost.append((self._now(), "not stored", {"gang_extender.reason": why}))

    @_of_admissions
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

    @_of_admissions
    def job_started(self, uid: str, namespace: str) -> None:
        """Note that a job started: the admission of its workload is over."""
        for key in self._view.workloads_of(uid, namespace):
            found = self._under_way.get(key)
            if found is not None and found.admitted is not None:
                self._end(key, STARTED)

    @_of_admissions
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
        waited = max(0.0, self._clock.wall() - workload.queued_since)
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
    queued = min(workload.queued_since - trace.epoch, found.began)
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
