"""Starts of gangs: one id for each, from the first member that is tried until all are bound.

A start begins when kube-scheduler tries a member, or room is planned for it, of a gang that lacks
members on nodes. It goes on while the gang waits for room, and ends when what was planned is bound,
or when the gang loses the room that it had. What is noted here becomes log lines and a trace; no
decision reads it.
"""

from collections import deque
from typing import Final

import structlog
from cachetools import LRUCache
from opentelemetry.trace import NoOpTracer, Tracer

from extender.api.reasons import Reason
from extender.runtime.clock import Clock
from extender.runtime.faults import harmless
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from extender.telemetry.traces import MOST_EVENTS, NAMESPACE, REMEMBERED, Event, Trace, Value

_noted: Final = harmless("gang-starts")


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


class GangStarts:
    """The starts that are under way, by group.

    All methods are quick, and raise nothing: they are called where kube-scheduler waits for an
    answer, in the middle of what is done for a gang.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._view = cluster.view()
        self._clock, self._now = clock, clock.monotonic
        self._under_way: dict[str, GangStart] = {}
        self._last: LRUCache[str, str] = LRUCache(REMEMBERED)
        self.tracer: Tracer = NoOpTracer()
        """Makes the traces of starts that begin from now on."""
        # Bound here, once: a line that is not logged costs a twentieth then.
        self._log = structlog.get_logger(__name__).bind()
        cluster.subscribe(self.on_change)

    def id_of(self, group: str) -> str | None:
        """Return the id of a group's start that is under way, else of its last one, if known."""
        start = self._under_way.get(group)
        return start.trace.id if start is not None else self._last.get(group)

    # --- what happens ------------------------------------------------------------------------

    @_noted
    def tried(self, pod: PodInfo) -> None:
        """Note that kube-scheduler tries a pod."""
        if pod.group is not None and pod.group not in self._under_way:
            self._begin(pod.group)

    @_noted
    def planning(self, group: str) -> None:
        """Note that a plan of a group is begun."""
        start = self._under_way.get(group) or self._begin(group)
        if start is not None and start.planned is None:
            start.planning = self._now()

    @_noted
    def planned(self, group: str, pods: int) -> None:
        """Note that room is kept for so many more pods of a group."""
        start = self._under_way.get(group) or self._begin(group)
        if start is None:
            return
        start.planned = self._now()
        start.pods_planned += pods
        self._log.debug("gang planned", group=group, gang_id=start.trace.id, pods=pods)

    @_noted
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

    @_noted
    def held(self, group: str) -> None:
        """Note that the first bind request of a group is held."""
        start = self._under_way.get(group) or self._begin(group)
        if start is not None and start.held is None:
            start.held = self._now()
            self._log.debug("gang held", group=group, gang_id=start.trace.id)

    @_noted
    def released(self, group: str, held: int) -> None:
        """Note that a gang is bound; so many of its bind requests were held."""
        start = self._under_way.get(group)
        if start is not None and start.released is None:
            start.released = self._now()
        if held:
            self._log.debug("gang released", group=group, gang_id=self.id_of(group), pods=held)

    @_noted
    def writing(self, pod: PodInfo) -> None:
        """Note that a Binding is begun; `wrote` is to follow."""
        start = self._under_way.get(pod.group) if pod.group is not None else None
        if start is not None:
            start.writing += 1

    @_noted
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

    @_noted
    def failed(self, group: str, reason: str, message: str, *, held: int) -> None:
        """Note that a gang lost all that was kept for it; so many bind requests were held."""
        about = {"group": group, "gang_id": self.id_of(group)}
        self._log.info("gang refused", **about, pods=held, reason=reason, message=message)
        start = self._under_way.get(group)
        if start is not None:
            self._end(start, reason, message)

    @_noted
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
