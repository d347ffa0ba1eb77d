"""Permit: bind requests are held until their gang is complete; then all of them are bound.

While a bind request is open, kube-scheduler keeps the pod assumed and its room taken, and schedules
other pods. So a held request *is* a waiting pod, and there are three ways out of Permit: all
members are released and written in parallel, all are refused in the same instant, or one member's
hold ends alone (its connection broke, it was deleted, or kube-scheduler asked again).

Two races matter.

1. Release against refusal. Both happen in one step of the event loop, and a member that is
   released turns from WAITING to BINDING in that step. An event later in the same moment (a
   time-out, a deletion, another member's failure) finds no member waiting. So no member is refused
   because of members that are being bound, and none is bound because of members that have been
   refused.
2. A request against its own repetition. When kube-scheduler restarts, it may send a pod again
   before we notice that the old connection is gone. The newer request takes the hold over; the
   older one ends with an error that nobody reads.

Holds live in memory only: when this process restarts its requests are gone, and kube-scheduler
brings the pods again.

`BindingWriter` writes the Binding of a pod that has room. After a failure the room is kept or given
back.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from extender.api.reasons import Reason
from extender.gang.ahead import Left
from extender.gang.hold import (
    are_sought,
    bind_or_wait,
    no_node,
    refused_beside,
    stuck_member,
    to_patch,
)
from extender.gang.verdicts import Allow, Refuse, Wait, about, is_ours
from extender.kube.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    UnavailableError,
    UnknownOutcomeError,
)
from extender.kube.pods import PodRef
from extender.permit.group_memory import GroupMemory
from extender.permit.timing import BACK_OFF_SECONDS, LOOK_SECONDS, PATIENCE_SECONDS, UNSURE_SECONDS
from extender.runtime.faults import Retry
from extender.state.cluster import events as ev
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from extender.telemetry.metrics import Metrics

_log = structlog.get_logger(__name__)


Gone = Callable[[], Awaitable[None]]
"""Returns when the caller has hung up."""


async def comes_first(
    answer: "asyncio.Future[Any]", gone: Gone, *, within: float | None = None
) -> bool:
    """Return whether an answer comes before its caller hangs up, and within so many seconds.

    Raises what `gone` raises.
    """
    caller = asyncio.ensure_future(gone())
    try:
        await asyncio.wait((answer, caller), timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        caller.cancel()
    if caller.done():
        caller.result()
    return answer.done()


@dataclass(eq=False, slots=True)
class _Hold:
    """A held request; its outcome is None if the pod may be bound, else the refusal."""

    pod: PodInfo
    node: str
    outcome: "asyncio.Future[Refuse | None]"


@dataclass(slots=True)
class _Deadline:
    """The end of a gang's wait, in the loop's time, and the timers that watch over it."""

    at: float
    timer: asyncio.TimerHandle
    look: asyncio.TimerHandle
    last: float
    """The time when the last member came: kube-scheduler has not tried all while others come."""
    begun: bool = False
    """True once a member has waited; before that, the deadline is the plan's."""
    tried: set[str] = field(default_factory=set)
    """UIDs of members that were made to be tried again since the last one came."""
    again: asyncio.TimerHandle | None = None
    """The timer that has refused members tried again when none has come for a moment."""


@dataclass(slots=True)
class _Release:
    """The members of a gang that were released, and the minMember that they reached."""

    members: set[str]
    min_member: int
    followers: set[str] = field(default_factory=set)
    """The members whose own Bindings failed, while room is kept for them: they follow alone."""


class WaitingPods:
    """The held requests, and the deadlines of gangs that are planned or wait."""

    def __init__(
        self,
        cluster: Cluster,
        verdicts: GroupMemory,
        *,
        metrics: Metrics,
        try_beside: Callable[[Mapping[str, bool]], None],
        max_held: int = 20_000,
    ) -> None:
        """Take as `max_held` the most requests of all gangs that may be held at once.

        `try_beside` has members, by UID, tried again that kube-scheduler refused itself; the value
        is True if a member is to be spread.
        """
        self._try_beside = try_beside
        self._max_held = max_held
        self._stopping: Refuse | None = None
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._view = cluster.view()
        self._verdicts = verdicts
        self.starts = verdicts.starts
        self._options = verdicts.options
        self._metrics = metrics
        self._holds: dict[str, dict[str, _Hold]] = {}
        self._deadlines: dict[str, _Deadline] = {}
        self._keep_until: dict[str, float] = {}
        self._released: dict[str, _Release] = {}
        """The released members of each group, while some are being bound or follow, and none is
        lost."""
        self._ask_ahead: Callable[[str], None] = lambda _: None
        self._left: dict[str, Mapping[Left, int]] = {}
        """The members that groups which wait leave to kube-scheduler, counted by reason."""
        cluster.subscribe(self.on_change)

    def set_ahead(self, ask: Callable[[str], None]) -> None:
        """Set what begins to bind the members of a waiting group ahead; it is made after this."""
        self._ask_ahead = ask

    def note_left(self, group: str, left: Mapping[Left, int]) -> None:
        """Take note of the members that a group leaves to kube-scheduler if it starts now."""
        self._left[group] = left

    async def wait(self, pod: PodInfo, node: str, gone: Gone) -> Refuse | None:
        """Hold a member until it may be bound (None) or is refused."""
        group = pod.group
        assert group is not None
        denied = self._stopping or self._verdicts.failed_within_window(group)
        if denied is not None:  # the group failed between this pod's filter and its bind
            self._metrics.decisions.labels("bind", denied.reason).inc()
            return denied
        if pod.uid in self._followers(group):
            # Its gang has started: it follows alone, even if some members have finished by now.
            self._cluster.apply(ev.PodBinding(pod, node))
            return None
        hold = _Hold(pod, node, self._loop.create_future())
        old = self._holds.get(group, {}).get(pod.uid)
        if old is not None:
            text = f"{about(group)}kube-scheduler asked for this pod again"
            self._end(old, Refuse(Reason.DISCONNECTED, text))
        holds = self._holds.setdefault(group, {})
        holds[pod.uid] = hold
        self._cluster.apply(ev.PodWaiting(pod, node))
        self._end_lost_holds(group)
        if not hold.outcome.done():
            self.decide(group)
        if not hold.outcome.done() and self.held > self._max_held:
            # It cannot start without this one, and its holds are in the way of gangs that can.
            text = f"{about(group)}more than {self._max_held} pods wait to be bound (maxHeldBinds)"
            self._refuse(group, Refuse(Reason.TOO_MANY_HELD, text, deny=True))
        if hold.outcome.done():
            return hold.outcome.result()
        self._begin_wait(group)
        began = self._loop.time()

        async def until_gone() -> None:
            await gone()
            self._hung_up(hold)

        try:
            await comes_first(hold.outcome, until_gone)
        finally:
            self._hung_up(hold)  # this request may have been cancelled
        outcome = hold.outcome.result()
        result = outcome.reason if outcome else Reason.QUORUM_REACHED
        self._metrics.permit_wait_seconds.labels(result).observe(self._loop.time() - began)
        return outcome

    def asked(self, uid: str) -> None:
        """End the wait for the bind request of a pod: it has come, with whatever result."""
        self._verdicts.awaiting_bind.end(uid)
        pod = self._view.pods.get(uid)
        if pod is not None:
            self._verdicts.known_schedulers.bound(pod)

    @property
    def held(self) -> int:
        """Return the number of held requests."""
        return sum(map(len, self._holds.values()))

    @property
    def held_groups(self) -> int:
        """Return the number of groups with held requests."""
        return len(self._holds)

    def holds(self, group: str) -> bool:
        """Return whether a request of a group is held, so that its caller is there."""
        return group in self._holds

    def time_left(self, group: str) -> float | None:
        """Return the seconds until a planned or waiting group is refused; None for any other."""
        deadline = self._deadlines.get(group)
        return max(0.0, deadline.at - self._loop.time()) if deadline is not None else None

    @property
    def stopping(self) -> bool:
        """Return whether this process is about to stop."""
        return self._stopping is not None

    def on_change(self, change: ClusterChange) -> None:
        """Decide again for the groups that a change touched."""
        for uid in change.unschedulable:
            self._verdicts.awaiting_bind.end(uid)
            pod = self._view.pods.get(uid)
            # A condition that only repeats our own refusal changes nothing.
            if pod is None or is_ours(pod.unschedulable or "", pod.group or ""):
                continue
            if are_sought(pod, view=self._view):
                self._try_others_soon(pod.group or "")
            else:
                self.found_no_node(uid)
        for group in change.groups:
            self._forget_released(group)
            self._verdicts.changed(group)
            self._end_lost_holds(group)
            self.decide(group)

    def lose(self, group: str) -> None:
        """Forget the released members of a group: it has lost a member since.

        Members whose Binding failed, or fails later, need a quorum again.
        """
        self._released.pop(group, None)

    def _followers(self, group: str) -> AbstractSet[str]:
        released = self._released.get(group)
        return released.followers if released is not None else frozenset()

    def _forget_released(self, group: str) -> None:
        """Forget released members that have their Binding or lost their room.

        All are forgotten if the gang has lost one, or is broken in another way.
        """
        released, view = self._released.get(group), self._view
        if released is None:
            return
        if (
            self._is_broken(group, released.min_member)
            or not released.followers <= view.pods.keys()
        ):
            self.lose(group)
            return
        released.followers = {uid for uid in released.followers if view.reservation(uid)}
        if not released.followers and not view.tally(group).binding:
            self.lose(group)

    def _is_broken(self, group: str, least: int) -> bool:
        """Return whether a group that was released with a minMember of `least` is no longer whole.

        Its PodGroup is gone or asks for more members now, or a member is being deleted. A bound
        member that disappears without a deletion that we saw has finished.
        """
        pod_group = self._view.pod_group(group)
        if pod_group is None or pod_group.min_member > least:
            return True
        return bool(self._view.tally(group).leaving)

    def found_no_node(self, uid: str) -> None:
        """Decide what becomes of a member's gang when there is no node for it (PostFilter)."""
        pod = self._view.pods.get(uid)
        if pod is None or pod.group is None:
            return
        refusal = no_node(pod, pod.group, view=self._view, options=self._options)
        if refusal is not None:
            self._refuse(pod.group, refusal)

    def keep(self, pod: PodInfo, node: str) -> None:
        """Keep the room of a released member whose Binding failed, until it comes again.

        The room of any other pod is given back, and that of one whose Bindings failed for long.
        """
        lasts = pod.group is not None and not self.has_failed_for_long(pod)
        if lasts and not self._is_promised_twice(pod, node):
            self.follow([(pod, node)])
        else:
            self._cluster.apply(ev.Unreserved((pod.uid,)))

    def may_write_again(self, pod: PodInfo) -> bool:
        """Return whether a pod that may be bound may have another Binding to the same node."""
        follows = pod.group is None or pod.uid in self._followers(pod.group)
        return follows and not self.has_failed_for_long(pod)

    def has_failed_for_long(self, pod: PodInfo) -> bool:
        """Return whether the time-out of its gang has passed since a Binding of a pod failed first.

        The first call begins that time. A Binding that fails forever must not hold room forever.
        """
        now, pods = self._loop.time(), self._view.pods
        waiting = (uid for uid in self._keep_until if uid in pods and pods[uid].node is None)
        failing = {uid: self._keep_until[uid] for uid in waiting}
        self._keep_until = failing
        return now >= failing.setdefault(pod.uid, now + self._timeout(pod.group or ""))

    def binding_refused(self, pod: PodInfo, said: str) -> None:
        """Decide what becomes of a gang when the API server refuses the Binding of a member.

        The gang has failed if all of its Bindings are refused, or if room was kept for the member
        for long enough. While room is kept, the others may be bound, and the member follows.
        """
        group = pod.group or ""
        pod_group, tally = self._view.pod_group(group), self._view.tally(group)
        if pod_group is None or tally.assigned >= self._view.quorum(pod_group):
            return  # the gang can do without it
        text = f"{about(group)}the API server refuses to bind a pod: {said}"
        refusal = Refuse(Reason.BINDING_REFUSED, text, deny=True)
        is_kept = self._view.planned_node(pod.uid) is not None
        if is_kept and (tally.bound or tally.binding - self._keep_until.keys()):
            self._verdicts.binding_refused(group, refusal)
        else:
            self.lose(group)
            self._refuse(group, refusal)

    def follow(self, members: Iterable[tuple[PodInfo, str]], *, unsure: bool = False) -> None:
        """Keep the room of members on nodes; a member that was released follows alone.

        If it is `unsure` whether they are bound, they count as pods that are being bound.
        """
        nodes: dict[str, str] = {}
        for pod, node in members:
            released = self._released.get(pod.group or "")
            if released is not None and pod.uid in released.members:
                released.followers.add(pod.uid)
            nodes[pod.uid] = node
        self._cluster.apply(ev.BoundAhead(nodes) if unsure else ev.Planned(nodes))

    def release(self, group: str, ahead: Iterable[str], coming: Iterable[str]) -> None:
        """Release a gang with members bound `ahead` of requests, and with those that are `coming`.

        A member whose request is not held, or not yet, follows alone.
        """
        self._remember_released(group, (*ahead, *coming))
        nodes = ((uid, self._view.planned_node(uid)) for uid in coming)
        self.follow([(self._view.pods[uid], node) for uid, node in nodes if node is not None])
        self._release(group)

    def _remember_released(self, group: str, uids: Iterable[str]) -> None:
        """Remember members that are about to be bound, and the minMember that they reach."""
        pod_group = self._view.pod_group(group)
        if pod_group is not None:
            released = self._released.setdefault(group, _Release(set(), 0))
            released.members.update(uids)
            released.min_member = pod_group.min_member

    def _is_promised_twice(self, pod: PodInfo, node: str) -> bool:
        """Return whether others have plans for the room that a pod has on a node."""
        asked = (what for what, amount in pod.shape.requests.items() if amount)
        return self._view.is_overcommitted(node, asked)

    def refuse_all(self) -> None:
        """End every hold and take no more: this process is about to stop."""
        self._stopping = Refuse(Reason.TERMINATING, "the extender is shutting down")
        for group in list(self._holds):
            self._refuse(group, self._stopping)

    def _hung_up(self, hold: _Hold) -> None:
        """End a hold whose caller is gone, unless it has ended."""
        if not hold.outcome.done():
            text = f"{about(hold.pod.group or '')}kube-scheduler hung up"
            self._end(hold, Refuse(Reason.DISCONNECTED, text))

    def _end(self, hold: _Hold, refusal: Refuse) -> None:
        """End one hold, and free its room unless kube-scheduler is to bring the pod again.

        A scheduler that restarts tries all pods anew: the first pod must not take the room of a
        member whose siblings still wait. The gang's deadline frees that room in the end.
        """
        group = hold.pod.group or ""
        holds = self._holds[group]
        del holds[hold.pod.uid]
        if not holds:
            del self._holds[group]
        hold.outcome.set_result(refusal)
        self._metrics.decisions.labels("bind", refusal.reason).inc()
        if hold.pod.uid not in self._view.tally(group).waiting:
            return
        if refusal.reason is Reason.DISCONNECTED and not self._is_promised_twice(
            hold.pod, hold.node
        ):
            self._cluster.apply(ev.Planned({hold.pod.uid: hold.node}))
        else:
            self._cluster.apply(ev.Unreserved((hold.pod.uid,)))

    def _end_lost_holds(self, group: str) -> None:
        """End the holds of members that no longer wait.

        They were deleted, bound by another client, or filtered again: kube-scheduler restarted.
        """
        holds = self._holds.get(group)
        waiting = self._view.tally(group).waiting
        if holds is None or len(holds) == len(waiting):
            return
        for uid in [uid for uid in holds if uid not in waiting]:
            text = f"{about(group)}this pod was deleted or taken elsewhere while it waited"
            self._end(holds[uid], Refuse(Reason.MEMBER_DELETED, text))

    def decide(self, group: str) -> None:
        """Decide again for a group: its members wait on, are released, or are refused."""
        tally = self._view.tally(group)
        if not tally.waiting and not tally.planned:
            self._clear_deadline(group)
            return
        if group not in self._deadlines:
            self._set_deadline(group)
        now, deadline = self._loop.time(), self._deadlines[group].at
        if now < deadline and not tally.waiting and tally.planned <= self._followers(group):
            return  # the gang has started, whatever became of its members since
        match bind_or_wait(group, view=self._view, now=now, deadline=deadline):
            case Allow():
                self._release(group)
            case Wait():
                if tally.waiting:
                    self._ask_ahead(group)
            case Refuse() as refusal:
                last = self._verdicts.last_failure(group)
                if last is not None and last.reason is Reason.BINDING_REFUSED:
                    # It is late, and may wait for nothing but members with refused Bindings.
                    waits = tally.planned and tally.planned <= self._keep_until.keys()
                    refusal = last if waits else refusal
                self._refuse(group, refusal)

    def _release(self, group: str) -> None:
        holds = self._holds.pop(group, {})
        if holds:
            self._remember_released(group, holds)
        for hold in holds.values():
            self._cluster.apply(ev.PodBinding(hold.pod, hold.node))
            hold.outcome.set_result(None)
        if holds:
            self._metrics.decisions.labels("bind", Reason.QUORUM_REACHED).inc(len(holds))
        self.starts.released(group, len(holds))
        for why, count in self._left.pop(group, {}).items():
            self._metrics.ahead_skipped.labels(why).inc(count)
        self._verdicts.started(group)
        if not self._view.tally(group).planned:
            self._clear_deadline(group)
        elif self._loop.time() >= self._deadlines[group].at:
            self._drop_plan(group)  # the gang can do without these members

    def _refuse(self, group: str, refusal: Refuse) -> None:
        """Refuse all waiting members of a group, and give back all room that was kept."""
        holds = self._holds.pop(group, {})
        self._clear_deadline(group)
        for hold in holds.values():
            hold.outcome.set_result(refusal)
        self._metrics.decisions.labels("bind", refusal.reason).inc(len(holds))
        self.starts.failed(group, refusal.reason, refusal.message, held=len(holds))
        self._drop_plan(group)
        if refusal.deny:
            self._verdicts.failed(group, refusal)

    def _drop_plan(self, group: str) -> None:
        tally = self._view.tally(group)
        self._cluster.apply(ev.Unreserved((*tally.waiting, *tally.planned)))

    def _set_deadline(self, group: str) -> None:
        self._clear_deadline(group)
        now, grace = self._loop.time(), self._options.retry_grace
        deadline = now + self._timeout(group)
        self._deadlines[group] = _Deadline(
            deadline,
            self._loop.call_at(deadline, self._expire, group),
            self._loop.call_at(now + grace, self._look_again, group, now),
            now,
        )

    def _begin_wait(self, group: str) -> None:
        """Start the time-out when the first member waits, and not anew with each repeated request.

        Connections may break forever if kube-scheduler waits for a shorter time than the gang.
        """
        self.starts.held(group)
        if not self._deadlines[group].begun:
            self._set_deadline(group)
        deadline = self._deadlines[group]
        deadline.begun, deadline.last = True, self._loop.time()
        deadline.tried.clear()
        self._try_others_soon(group)

    def _try_others_soon(self, group: str) -> None:
        """Retry members, after a moment, that kube-scheduler refused before siblings had a node."""
        deadline = self._deadlines.get(group)
        if deadline is not None:
            if deadline.again is not None:
                deadline.again.cancel()
            deadline.again = self._loop.call_later(LOOK_SECONDS, self._try_others, group)

    def _try_others(self, group: str) -> None:
        tried = self._deadlines[group].tried
        held = [hold.pod for hold in self._holds.get(group, {}).values()]
        pods = refused_beside(held, group, view=self._view, tried=tried)
        tried.update(pod.uid for pod in pods)
        self._try_beside(to_patch(pods, held))

    def _timeout(self, group: str) -> float:
        pod_group = self._view.pod_group(group)
        return self._options.timeout(pod_group.schedule_timeout if pod_group else None)

    def _expire(self, group: str) -> None:
        # A timer may fire a clock tick early; the deadline counts as passed all the same.
        self._deadlines[group].at = float("-inf")
        self.decide(group)

    def _look_again(self, group: str, last: float) -> None:
        """Find what keeps a group from its quorum, unless another member came after `last`."""
        deadline = self._deadlines[group]
        due = deadline.last + self._options.retry_grace
        if deadline.last > last:
            deadline.look = self._loop.call_at(due, self._look_again, group, deadline.last)
            return
        # The group may come to lack more later, so look again until it is refused.
        pause = max(LOOK_SECONDS, self._options.retry_grace)
        deadline.look = self._loop.call_later(pause, self._look_again, group, deadline.last)
        beside = self._loop.time() >= due + BACK_OFF_SECONDS
        stuck = stuck_member(group, view=self._view, beside=beside)
        if stuck is not None:
            self.found_no_node(stuck.uid)

    def _clear_deadline(self, group: str) -> None:
        deadline = self._deadlines.pop(group, None)
        self._left.pop(group, None)
        if deadline is not None:
            deadline.timer.cancel()
            deadline.look.cancel()
            if deadline.again is not None:
                deadline.again.cancel()


# --- the Bindings of pods that have room -----------------------------------------------------

_LONGEST_WORDS: Final = 300
HUNG_UP: Final = "kube-scheduler hung up before the Binding was written"
HUNG_UP_ON_ANOTHER: Final = "kube-scheduler hung up while another member of the gang was bound"

_GIVEN_UP: Final[ApiError | None] = UnknownOutcomeError("it was given up")


class BindingWriter:
    """Writes Bindings, each with `bind`.

    `bind` raises ApiError; it is a success if the pod is already on the node.
    """

    def __init__(
        self,
        cluster: Cluster,
        waiting: WaitingPods,
        bind: Callable[[PodRef, str], Awaitable[None]],
        *,
        metrics: Metrics,
        retry: Retry,
    ) -> None:
        self.clock = retry.clock
        self._cluster = cluster
        self._view = cluster.view()
        self._waiting = waiting
        self._bind = bind
        self.metrics = metrics
        self._retry = retry
        self.unsure: dict[str, asyncio.TimerHandle] = {}
        """The timers that end the doubt about pods that may or may not be bound, by UID."""

    async def write(self, pod: PodInfo, node: str, *, latest: float, gone: Gone) -> str:
        """Return the error, empty if the pod is on the node; no attempt begins after `latest`.

        The write ends when its caller hangs up: a kube-scheduler that is stopped gives its lease
        back first, so the next one may have begun. After that no attempt begins, and an attempt on
        its way is given up; the watch will show whether it was carried out.
        """
        until = min(self.clock.monotonic() + PATIENCE_SECONDS, latest)
        tries = self._try_while_asked(pod, node, until=until, gone=gone)
        return await self._written(pod, node, tries, path="asked")

    async def write_ahead(
        self, pod: PodInfo, node: str, *, seconds: float, limit: asyncio.Timeout
    ) -> str:
        """Return the error, empty if the pod is on the node.

        No attempt begins after `seconds`, and one on its way ends with the `limit`.
        """
        until = self.clock.monotonic() + seconds

        async def limited() -> ApiError | None:
            try:
                async with limit:
                    return await self._try_often(pod, node, until=until)
            except TimeoutError:
                return UnknownOutcomeError(HUNG_UP)

        return await self._written(pod, node, limited(), path="ahead")

    async def _written(
        self, pod: PodInfo, node: str, tries: Awaitable[ApiError | None], *, path: str
    ) -> str:
        """Return the error of a Binding; take note of it, and keep or free the pod's room.

        The `path` is "asked" if kube-scheduler asked for it, or "ahead" of that.
        """
        self._waiting.starts.writing(pod)
        doubt = self.unsure.pop(pod.uid, None)
        if doubt is not None:
            doubt.cancel()
        began, error = self.clock.monotonic(), _GIVEN_UP
        try:
            error = await tries
        finally:
            said, seconds = str(error or ""), self.clock.monotonic() - began
            self._waiting.starts.wrote(pod, said, seconds=seconds, ahead=path == "ahead")
        result = "error" if error else "ok"
        self.metrics.binding_seconds.labels(result).observe(seconds)
        self.metrics.bindings.labels(path, result).inc()
        if error is None:
            return ""
        _log.warning("binding failed", pod=pod.key, group=pod.group, path=path, error=str(error))
        if isinstance(error, UnknownOutcomeError):
            self._doubt(pod, node, until=asyncio.get_running_loop().time() + UNSURE_SECONDS)
        elif doubt is not None and not isinstance(error, NotFoundError | ConflictError):
            self._doubt(pod, node, until=doubt.when())  # this write has failed, not the one before
        else:
            self._keep_or_free(pod, node, error)
        return str(error)

    def _keep_or_free(self, pod: PodInfo, node: str, error: ApiError) -> None:
        """Keep the room of a member that comes again after its Binding failed; else free it."""
        if isinstance(error, NotFoundError):
            if pod.group is not None:
                self._waiting.lose(pod.group)
            self._cluster.apply(ev.Unreserved((pod.uid,)))
        else:
            # Its siblings are bound or about to be, and kube-scheduler brings the pod again.
            self._waiting.keep(pod, node)
            passing = isinstance(error, ConflictError | UnavailableError)
            if pod.group is not None and 400 <= error.status < 500 and not passing:
                # The API server gives the same answer until a rule is changed.
                self._waiting.binding_refused(pod, _general_words(error, pod, node))

    def _doubt(self, pod: PodInfo, node: str, *, until: float) -> None:
        """Count a pod as being bound until the watch must have shown whether it is."""
        self._waiting.has_failed_for_long(pod)  # that time begins
        self._waiting.follow([(pod, node)], unsure=True)
        end = asyncio.get_running_loop().call_at(until, self._end_doubt, pod, node)
        self.unsure[pod.uid] = end

    def _end_doubt(self, pod: PodInfo, node: str) -> None:
        del self.unsure[pod.uid]
        if self._view.bound_node(pod) is not None:  # the watch has not shown it
            self._waiting.keep(pod, node)

    async def _try_while_asked(
        self, pod: PodInfo, node: str, *, until: float, gone: Gone
    ) -> ApiError | None:
        async def end_with_caller() -> None:
            await gone()
            tries.cancel()

        async with asyncio.TaskGroup() as tasks:
            # This begins before the tries do: nothing is sent for a caller that is already gone.
            caller = tasks.create_task(end_with_caller())
            tries = tasks.create_task(self._try_often(pod, node, until=until))
            await asyncio.wait((tries,))
            caller.cancel()
        return UnknownOutcomeError(HUNG_UP) if tries.cancelled() else tries.result()

    async def _try_often(self, pod: PodInfo, node: str, *, until: float) -> ApiError | None:
        """Write the Binding; try again while the API server is unavailable: quorum is reached."""
        ref, doubts = PodRef(pod.namespace, pod.name, pod.uid), list[UnavailableError]()

        async def write() -> None:
            try:
                await self._bind(ref, node)
            except UnavailableError as error:
                doubts.extend([error] if isinstance(error, UnknownOutcomeError) else ())
                _log.warning(
                    "binding not written yet", pod=pod.key, group=pod.group, error=str(error)
                )
                raise

        try:
            await self._retry.run(write, on=UnavailableError, until=until)
        except (NotFoundError, ConflictError) as error:
            return error
        except ApiError as error:  # an earlier attempt may be carried out all the same
            return UnknownOutcomeError(str(error), status=error.status) if doubts else error
        return None


def _general_words(error: ApiError, pod: PodInfo, node: str) -> str:
    """Return the message of the API server, in words that are the same for all pods and nodes."""
    said = str(error).partition(": ")[2] or str(error)
    for name, word in ((pod.name, "POD"), (node, "NODE")):
        said = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", word, said)
    return said.replace("%", " per cent")[:_LONGEST_WORDS]
