"""Starts of gangs: one id for each, from the first member that is tried until all are bound.

A start begins when kube-scheduler tries a member, or room is planned for it, of a gang that lacks
members on nodes. It goes on while the gang waits for room, and ends when what was planned is bound,
or when the gang loses the room that it had. What is noted here becomes log lines and a trace; no
decision reads it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from extender.api.reasons import Reason
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS, harmless
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.cluster.store import Cluster
from extender.telemetry.spans import NAMESPACE, Moment, Stretch, Trace, Value, new_id

_REMEMBERED: Final = 10_000
"""Of so many groups the id of the last start is kept, for what is logged of them later."""
_MOST: Final = 32
"""Failed Bindings of a start that are kept."""
_noted: Final = harmless("gang-starts")


@dataclass(slots=True)
class GangStart:
    """What is noted of a start; times in seconds of the monotonic clock."""

    group: str
    began: float
    id: str = field(default_factory=new_id)
    planning: float | None = None
    """When the plan was begun that is being made, or was made."""
    planned: float | None = None
    pods_planned: int = 0
    held: float | None = None
    released: float | None = None
    writing: int = 0
    """How many Bindings are being written."""
    binding: float | None = None
    """When the first Binding was begun."""
    written: float | None = None
    """When the last one was made, or failed."""
    bound: int = 0
    ahead: int = 0
    """How many of them were written ahead of kube-scheduler's requests."""
    failed: int = 0
    refusals: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Why members were refused before it had room: when first, and the message, by reason."""
    failures: list[tuple[float, str, str]] = field(default_factory=list)
    """Bindings that failed: when, the pod and the error."""

    @property
    def has_room(self) -> bool:
        """Whether room was kept for it."""
        return self.planned is not None or self.held is not None or self.binding is not None


@dataclass(frozen=True, slots=True)
class EndedStart:
    """A start that is over; `reason` is QuorumReached where the gang runs."""

    start: GangStart
    ended: float
    reason: str
    message: str = ""
    members: int = 0
    min_members: int = 0


class GangStarts:
    """The starts that are under way, by group.

    All methods are quick, and raise nothing: they are called where kube-scheduler waits for an
    answer, in the middle of what is done for a gang.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._view = cluster.view()
        self._now, self._wall = clock.monotonic, clock.wall
        self._under_way: dict[str, GangStart] = {}
        self._last: dict[str, str] = {}
        self._on_trace: Callable[[Trace], None] | None = None
        # Bound here, once: a line that is not logged costs a twentieth then.
        self._log = structlog.get_logger(__name__).bind()
        cluster.subscribe(self.on_change)

    def on_trace(self, listener: Callable[[Trace], None]) -> None:
        """Call `listener` with the trace of each start that is over."""
        self._on_trace = listener

    def id_of(self, group: str) -> str | None:
        """Return the id of a group's start that is under way, else of its last one, if known."""
        start = self._under_way.get(group)
        return start.id if start is not None else self._last.get(group)

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
        self._log.debug("gang planned", group=group, gang_id=start.id, pods=pods)

    @_noted
    def refused(self, group: str, reason: str, message: str, *, whole: bool = True) -> None:
        """Note that a member was refused, or that the `whole` group found no room.

        Of each start that is a line for each reason, with the level debug where it says nothing of
        the group: it lacks pods, or its plan is being made.
        """
        start = self._under_way.get(group)
        if start is None or start.has_room or reason in start.refusals:
            return
        start.refusals[reason] = self._now(), message
        log = self._log.info if whole else self._log.debug
        log("gang waits", group=group, gang_id=start.id, reason=reason, message=message)

    @_noted
    def held(self, group: str) -> None:
        """Note that the first bind request of a group is held."""
        start = self._under_way.get(group) or self._begin(group)
        if start is not None and start.held is None:
            start.held = self._now()
            self._log.debug("gang held", group=group, gang_id=start.id)

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
            if len(start.failures) < _MOST:
                start.failures.append((now, pod.name, error))
        else:
            start.bound += 1
            start.ahead += ahead
        start.writing = max(0, start.writing - 1)
        if not start.writing:
            self._look_at(start)  # the watch may have shown it before the answer came

    @_noted
    def failed(self, group: str, reason: str, message: str, *, held: int) -> None:
        """Note that a gang lost all that was kept for it; so many bind requests were held."""
        self._log.info(
            "gang refused",
            group=group,
            gang_id=self.id_of(group),
            pods=held,
            reason=reason,
            message=message,
        )
        start = self._under_way.get(group)
        if start is not None:
            self._end(start, reason, message)

    @_noted
    def on_change(self, change: ClusterChange) -> None:
        """End the starts of which nothing is under way any more."""
        for group in change.groups:
            if group in self._under_way:
                self._look_at(self._under_way[group])

    # --- the rule ----------------------------------------------------------------------------

    def _begin(self, group: str) -> GangStart | None:
        """Begin the start of a group, unless it has started, or is none."""
        pod_group, tally = self._view.pod_group(group), self._view.tally(group)
        if pod_group is None:
            return None
        if len(tally.bound) + len(tally.binding) >= self._view.quorum(pod_group):
            return None
        start = self._under_way[group] = GangStart(group, self._now())
        return start

    def _look_at(self, start: GangStart) -> None:
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

    def _end(self, start: GangStart, reason: Reason | str, message: str = "") -> None:
        group, now = start.group, self._now()
        del self._under_way[group]
        self._last[group] = start.id
        if len(self._last) > _REMEMBERED:
            del self._last[next(iter(self._last))]
        pod_group = self._view.pod_group(group)
        over = EndedStart(
            *(start, now, str(reason), message),
            members=len(self._view.tally(group).members),
            min_members=_min_members(pod_group),
        )
        if reason is Reason.QUORUM_REACHED:
            self._log.info("gang bound", group=group, gang_id=start.id, **_summary(over))
        elif not message:
            self._log.info("gang failed", group=group, gang_id=start.id, reason=str(reason))
        if self._on_trace is not None:
            try:
                self._on_trace(trace_of(over, epoch=self._wall() - now))
            except Exception as error:  # noqa: BLE001 - no gang is to suffer from its trace
                FAULTS.report("traces", error, key=group)


def _min_members(pod_group: PodGroupInfo | None) -> int:
    return pod_group.min_member if pod_group is not None else 0


def _summary(over: EndedStart) -> dict[str, object]:
    """Return what is logged of a gang that started: counts, and seconds."""
    start = over.start
    return {
        "pods": start.bound,
        "seconds": round((start.written or over.ended) - start.began, 3),
    }


def trace_of(over: EndedStart, *, epoch: float) -> Trace:
    """Return the trace of a start; `epoch` is what the monotonic clock lacks to the wall clock."""
    start = over.start
    started = over.reason == Reason.QUORUM_REACHED
    ended = start.written if started and start.written is not None else over.ended
    namespace, _, name = start.group.partition("/")
    attributes: dict[str, Value] = {
        NAMESPACE: namespace,
        "gang_extender.group": name,
        "gang_extender.gang_id": start.id,
        "gang_extender.members": over.members,
        "gang_extender.min_members": over.min_members,
        "gang_extender.reason": over.reason,
    }
    if over.message:
        attributes["gang_extender.message"] = over.message
    root = Stretch(
        "gang",
        start.began + epoch,
        ended + epoch,
        attributes,
        error="" if started else over.message or over.reason,
    )
    return Trace(start.id, root, [*_stages(start, ended, epoch)])


def _stages(start: GangStart, ended: float, epoch: float) -> list[Stretch]:
    """Return the stages of a start that were reached; one that was not left ends with it."""
    found: list[Stretch] = []
    plan = start.planning or start.began
    if start.refusals:
        moments = [
            Moment(
                "refused",
                at + epoch,
                {"gang_extender.reason": reason, "gang_extender.message": message},
            )
            for reason, (at, message) in start.refusals.items()
        ]
        until = plan if start.planned is not None else ended
        found.append(Stretch("wait", start.began + epoch, until + epoch, moments=moments))
    if start.planned is not None:
        pods = {"gang_extender.pods": start.pods_planned}
        found.append(Stretch("plan", plan + epoch, start.planned + epoch, pods))
    if start.held is not None:
        until = start.released if start.released is not None else ended
        found.append(Stretch("hold", start.held + epoch, until + epoch))
    if start.binding is not None and start.written is not None:
        counts: dict[str, Value] = {
            "gang_extender.bound": start.bound,
            "gang_extender.bound_ahead": start.ahead,
            "gang_extender.failed_bindings": start.failed,
        }
        moments = [
            Moment("binding failed", at + epoch, {"k8s.pod.name": pod, "exception.message": error})
            for at, pod, error in start.failures
        ]
        found.append(Stretch("bind", start.binding + epoch, start.written + epoch, counts, moments))
    return found
