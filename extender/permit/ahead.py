"""Binds members of gangs ahead of kube-scheduler's requests for them.

kube-scheduler brings pods one after the other, and each takes it a whole cycle. Once it has judged
one member, the Bindings of equal members are written at once. Its queue drops a pod that it sees on
a node. `ask` begins the members of a group that waits, some at a time, `run` writes their Bindings,
and `NextGroups` begins groups before kube-scheduler asks for one of their members.

kube-scheduler may still ask for a member, before or after its Binding is made. A filter request for
a member whose Binding is not on its way takes that member back: kube-scheduler would otherwise see
it appear on a node in the middle of its cycle, and call that an error. A bind request waits for the
write, and gets the same answer.

Nothing is written for a kube-scheduler that may have ended: the next one may give the nodes to
other pods. It counts as there while it calls, or has a request open.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

import structlog

from extender.gang import ahead
from extender.gang.ahead import Left, Prospect
from extender.kube.recorder import Event, ObjectRef
from extender.permit.group_memory import SchedulerLag
from extender.permit.hold import (
    HUNG_UP,
    HUNG_UP_ON_ANOTHER,
    BindingWriter,
    Gone,
    WaitingPods,
    comes_first,
)
from extender.permit.plans import Plans
from extender.permit.timing import (
    AHEAD_SECONDS,
    BACKLOG,
    FEW,
    LATE_SECONDS,
    MOMENT_SECONDS,
    PARALLEL,
    PATIENCE_SECONDS,
    PODS_AT_ONCE,
    REST,
    SILENT_SECONDS,
    SLICE_PODS,
    SPARED_SECONDS,
    STOPPED_SECONDS,
    TURNS_SETTLE_SECONDS,
)
from extender.runtime.clock import SLICE_SECONDS, advance, timed
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as ev
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.cluster.store import Cluster
from extender.steps import FairShare, Steps
from extender.telemetry.metrics import Metrics

_log = structlog.get_logger(__name__)

_NEVER: Final = float("-inf")


def scheduled(pod: PodInfo, node: str) -> Event:
    """Return the Event that kube-scheduler writes about a pod that it has bound."""
    about = ObjectRef("v1", "Pod", pod.namespace, pod.name, pod.uid)
    note = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
    return Event(about, "Scheduled", note, "Binding", warning=False, occasion=node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """The metrics and functions by which the parts of live gangs reach the rest of the process."""

    metrics: Metrics
    wake_after: Callable[[str, float], None]
    """Has a group, or a pod by its UID, tried again after this many seconds."""
    record: Callable[[Event], None]
    """Records an Event."""
    is_connected: Callable[[], bool]
    """Returns whether kube-scheduler has a connection open."""
    stale: Callable[[], str | None]
    """Returns a kind whose watch is stale, or None."""
    natives_stale: Callable[[], str | None]
    """Returns the kind of native PodGroups if some of them may not be known, else None."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member whose Binding is to be written."""

    pod: PodInfo
    node: str


class Ahead:
    """Binds members of gangs ahead of requests; nothing if `gang.bindTogether` is off."""

    def __init__(
        self,
        cluster: Cluster,
        waiting: WaitingPods,
        writer: BindingWriter,
        *,
        plans: Plans,
        callbacks: Callbacks,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._view = cluster.view()
        self._waiting = waiting
        self._writer = writer
        self._plans = plans
        self._awaiting_bind = plans.verdicts.awaiting_bind
        self._callbacks = callbacks
        self._enabled = plans.verdicts.options.bind_equal
        self.lag = SchedulerLag(cluster, clock=plans.clock, wake_after=callbacks.wake_after)
        self._called = self._heard = _NEVER
        """The times of kube-scheduler's last call or open request (never, once it has hung up),
        and of its last call."""
        self._held_answer: asyncio.Future[None] | None = None
        """The future that ends the bind request whose answer is held back; None if none is."""
        self._begun: dict[str, bool] = {}
        """The groups that are being begun, or rest after that; True if a group was asked for again
        meanwhile."""
        self._queue: asyncio.Queue[Member] = asyncio.Queue()
        """The members in their order; those no longer in `_unsent` are passed over."""
        self._unsent: dict[str, Member] = {}
        self._writing: dict[str, asyncio.Timeout] = {}
        """The time limits of the writes that are under way, by UID."""
        self._joined: dict[str, asyncio.Future[str]] = {}
        self._events: dict[str, asyncio.TimerHandle] = {}
        """The timers that record the Events of pods that were bound, by UID."""
        self._holds_from = _NEVER
        """The time from which answers of filter may be held again, after one was held in vain."""
        self.next_groups = NextGroups(cluster, plans, is_open=self.is_open, ask=self.ask)
        waiting.set_ahead(self.ask)

    # --- what kube-scheduler asks ------------------------------------------------------------

    def asked(self) -> None:
        """Take note of a call of kube-scheduler: it is there."""
        self._called = self._heard = self._loop.time()

    async def written(self, uid: str, gone: Gone) -> None:
        """Return when a Binding that is on its way is made, or after a moment.

        Until then kube-scheduler tries the pod in vain. Each try is two writes more for the API
        server, which has the Bindings of the gang to store. After a wait in vain there is none for
        ten moments: kube-scheduler has other pods to try. Raises ValueError if the caller hangs up.
        """
        if uid not in self._writing or self._loop.time() < self._holds_from:
            return

        async def hung_up() -> None:
            await gone()
            raise ValueError(HUNG_UP)

        made = self._joined.setdefault(uid, self._loop.create_future())
        if not await comes_first(made, hung_up, within=MOMENT_SECONDS):
            self._holds_from = self._loop.time() + 10 * MOMENT_SECONDS

    def filtered(self, pod: PodInfo) -> None:
        """Leave a pod that filter is asked about to kube-scheduler, unless it is being bound."""
        self.asked()
        self.take_back((pod.uid,))
        self.next_groups.look_soon()

    def join(self, uid: str) -> "asyncio.Future[str] | None":
        """Return the future error of a Binding that is written ahead; None if there is none."""
        if uid not in self._unsent and uid not in self._writing:
            return None
        return self._joined.setdefault(uid, self._loop.create_future())

    async def bound(self, uid: str, gone: Gone, *, until: float) -> None:
        """Take note that a bind request succeeded; return when it may be answered.

        One answer is held back until all Bindings are sent or its caller has hung up, which `gone`
        reports to `hung_up` before it returns. kube-scheduler does not call while all its pods
        wait, and it hangs up when it ends: one open request shows whether it is there.
        """
        self.lag.bound(uid)
        event = self._events.pop(uid, None)
        if event is not None:
            event.cancel()  # kube-scheduler records it
        pod, now = self._view.pods.get(uid), self._loop.time()
        if self._held_answer is not None or not self._unsent or pod is None or pod.group is None:
            return
        held = self._held_answer = self._loop.create_future()
        try:
            await comes_first(held, gone, within=min(PATIENCE_SECONDS, until - now))
        finally:
            if self._held_answer is held:
                self._held_answer = None
                self._still_asks()

    def hung_up(self) -> None:
        """End unsent writes, and give up those under way: kube-scheduler may have ended.

        One that stops in order gives its lease back before it hangs up: the next one may have
        begun. If it is still there, its next call shows that, and it brings the members.
        """
        self._called = _NEVER
        self._end_held_answer()
        for limit in self._writing.values():
            if not limit.expired():
                limit.reschedule(self._loop.time())

    def lost(self) -> None:
        """Count kube-scheduler as gone unless one of its bind requests is open.

        Its last connection has ended. A process that stops closes it itself.
        """
        if not self._is_asking and not self._waiting.stopping:
            self.hung_up()

    # --- whether kube-scheduler is there -----------------------------------------------------

    @property
    def _is_asking(self) -> bool:
        """True if a bind request, or the answer to one, is held."""
        return self._held_answer is not None or self._waiting.held_groups > 0

    def _still_asks(self) -> None:
        """Count an open request as a call."""
        self._called = self._loop.time()

    def _is_silent(self) -> bool:
        """Return whether kube-scheduler has not called for so long that it may have ended."""
        if self._held_answer is not None:
            self._still_asks()
        return self._loop.time() > self._called + SILENT_SECONDS

    def _is_behind(self) -> bool:
        """Return whether kube-scheduler's watch or ours is late."""
        return self.lag.behind or self._callbacks.stale() is not None

    def is_open(self) -> bool:
        """Return whether a group without an open bind request may begin.

        It may if kube-scheduler is there, judged by its requests and its connection, and sees bound
        pods, and few Bindings are to be written.
        """
        if len(self._unsent) >= FEW or self._waiting.stopping or self._is_behind():
            return False
        if self._called == _NEVER:
            return False
        if self._is_asking:
            self._still_asks()  # the callers have not hung up
            return self._loop.time() <= self._heard + STOPPED_SECONDS
        return self._callbacks.is_connected() and not self._is_silent()

    # --- the start of a group ----------------------------------------------------------------

    def ask(self, group: str) -> None:
        """Begin to bind the members of a waiting group that can be; release it if they suffice."""
        if group in self._begun:
            self._begun[group] = True
        elif self._enabled and not self._waiting.stopping:
            is_late = self._begun[group] = len(self._unsent) >= BACKLOG
            if is_late:
                self._loop.call_later(MOMENT_SECONDS, self._rested, group)
            else:
                self._go_on(group, self._beginning(group), 0.0)

    def _go_on(self, group: str, steps: Steps[None], spent: float) -> None:
        """Run more steps of a group that begins; `spent` are the seconds of the earlier ones."""
        began = self._loop.time()
        try:
            done = advance(steps, self._plans.clock, seconds=SLICE_SECONDS)
        except Exception as fault:  # noqa: BLE001 - it harms this group alone, until its next ask
            FAULTS.report("bind-together", fault, key=group)
            del self._begun[group]
            return
        spent += self._loop.time() - began
        if done is None:
            self._loop.call_soon(self._go_on, group, steps, spent)
        else:
            self._loop.call_later(REST * spent, self._rested, group)

    def _rested(self, group: str) -> None:
        try:
            if self._begun.pop(group) and self._view.tally(group).waiting:
                self._waiting.decide(group)
        except Exception as fault:  # noqa: BLE001 - it harms this group alone
            FAULTS.report("bind-together", fault, key=group)

    def _beginning(self, group: str) -> Steps[None]:
        """Begin the members of a group that can be bound.

        Their Bindings go out as soon as the group has its quorum. If it gets none, they are taken
        back. The state may change after each step, so each part is judged when it begins: a plan
        yields to pods of higher priority.
        """
        found = yield from ahead.members_able(
            group,
            view=self._view,
            schedulers=self._plans.schedulers,
            proven=self._plans.verdicts.known_schedulers,
            in_hand=self._awaiting_bind,
            barred=Left.BEHIND if self._is_behind() else None,
        )
        if self._view.tally(group).members:
            self._waiting.note_left(group, found.left)
        begun, rest, is_sent = list[Member](), iter(found.nodes.items()), False
        try:
            while not self._waiting.stopping and (part := dict(islice(rest, SLICE_PODS))):
                some = self._still_able(group, part)
                begun += some
                self._unsent.update((each.pod.uid, each) for each in some)
                self._cluster.apply(ev.BoundAhead({each.pod.uid: each.node for each in some}))
                if self._may_send(group, found.coming):
                    self._send(group, begun, found.coming, is_first=not is_sent)
                    begun, is_sent = [], True
                yield
            while begun:
                some, begun = begun[:SLICE_PODS], begun[SLICE_PODS:]
                self.take_back(each.pod.uid for each in some)
                yield
        except Exception:
            self.take_back(each.pod.uid for each in begun)
            raise

    def _still_able(self, group: str, nodes: Mapping[str, str]) -> list[Member]:
        """Return the members that may still be bound, of those found before the last step."""
        if self._is_behind():
            return []
        able = ahead.still_able(
            *(group, nodes),
            view=self._view,
            schedulers=self._plans.schedulers,
            proven=self._plans.verdicts.known_schedulers,
            in_hand=self._awaiting_bind,
        )
        return [Member(self._view.pods[uid], node) for uid, node in able.items()]

    def _may_send(self, group: str, coming: Sequence[str]) -> bool:
        """Return whether a group has its quorum, and kube-scheduler is there."""
        if self._waiting.holds(group):
            self._still_asks()  # its caller has not hung up
        pod_group, tally = self._view.pod_group(group), self._view.tally(group)
        if pod_group is None or self._is_silent():
            return False
        return tally.assigned + len(tally.planned.intersection(coming)) >= self._view.quorum(
            pod_group
        )

    def _send(
        self, group: str, begun: Sequence[Member], coming: Sequence[str], *, is_first: bool
    ) -> None:
        """Queue the Bindings of a group that has its quorum."""
        there = [each for each in begun if self._unsent.get(each.pod.uid) is each]
        if is_first:
            by = "request" if self._waiting.holds(group) else "turn"
            self._writer.metrics.groups_begun.labels(by).inc()
        self._waiting.release(group, [each.pod.uid for each in there], coming)
        for each in there:
            self._queue.put_nowait(each)
        _log.debug("members are bound together", group=group, pods=len(there))

    def take_back(self, uids: Iterable[str]) -> None:
        """Keep the room of unsent members for kube-scheduler, which brings them itself."""
        unsent = [each for uid in uids if (each := self._unsent.pop(uid, None)) is not None]
        try:
            kept = [each for each in unsent if ahead.has_room(each.pod, each.node, view=self._view)]
            for each in unsent:
                now = self._view.pods.get(each.pod.uid)
                if now is None or now.group != each.pod.group:
                    self._waiting.lose(each.pod.group or "")
            if kept:
                self._waiting.follow([(each.pod, each.node) for each in kept])
        except Exception:
            self._cluster.apply(ev.Unreserved([each.pod.uid for each in unsent]))
            raise
        finally:
            for each in unsent:
                self._end(each, HUNG_UP)
            self._all_sent()

    # --- the Bindings ------------------------------------------------------------------------

    @property
    def writing(self) -> AbstractSet[str]:
        """Return the UIDs of the pods whose Bindings are being written."""
        return self._writing.keys()

    def restarted(self) -> None:
        """Count pods everywhere as unseen: an earlier run of this process may have bound some."""
        if self._enabled:
            self.lag.restarted()

    def stop(self) -> None:
        """Take back all members that are not being written: this process is about to stop."""
        self.take_back(list(self._unsent))

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.lag.run())
            if self._enabled:
                tasks.create_task(self.next_groups.run())
                tasks.create_task(self.write_on())

    async def write_on(self) -> None:
        """Write Bindings until cancelled, some at a time."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(PARALLEL):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            each = await self._queue.get()
            try:
                await self._bind(each)
            except Exception as fault:  # noqa: BLE001 - it harms this pod alone
                FAULTS.report("bind-together", fault, key=each.pod.uid)
                if self._unsent.get(each.pod.uid) is each:
                    self.take_back((each.pod.uid,))

    async def _bind(self, member: Member) -> None:
        """Write the Binding of a member, or leave it to kube-scheduler after all."""
        pod, node = member.pod, member.node
        if self._unsent.get(pod.uid) is not member:
            return  # taken back; it may have begun anew since, without a quorum yet
        if self._is_silent():
            self.take_back({pod.uid, *islice(self._unsent, SLICE_PODS)})
            await asyncio.sleep(0)
            return
        if not ahead.still_holds(pod, node, view=self._view):
            self.take_back((pod.uid,))
            return
        del self._unsent[pod.uid]
        self._all_sent()
        seconds, error = self._called + AHEAD_SECONDS - self._loop.time(), HUNG_UP
        limit = self._writing[pod.uid] = asyncio.timeout(seconds)
        try:
            error = await self._writer.write_ahead(pod, node, seconds=seconds, limit=limit)
            if not error or pod.uid in self._writer.unsure:
                self._announce_later(pod, node)
        except Exception:
            self._cluster.apply(ev.Unreserved((pod.uid,)))
            raise
        finally:
            del self._writing[pod.uid]
            self._end(member, error)

    def _all_sent(self) -> None:
        """Answer the bind request that is held back if nothing is left to be sent."""
        if self._held_answer is not None and not self._unsent:
            self._still_asks()
            self._end_held_answer()

    def _end_held_answer(self) -> None:
        held, self._held_answer = self._held_answer, None
        if held is not None:
            held.set_result(None)

    def _end(self, member: Member, error: str) -> None:
        if error == HUNG_UP and self._called == _NEVER:
            error = HUNG_UP_ON_ANOTHER  # its own request has no attempt of its own, either
        joined = self._joined.pop(member.pod.uid, None)
        if joined is not None and not joined.done():
            joined.set_result(error)

    def _announce_later(self, pod: PodInfo, node: str) -> None:
        """Record the Event of a pod that is bound; kube-scheduler does if it asks for the pod."""
        if (earlier := self._events.get(pod.uid)) is not None:
            earlier.cancel()
        self._events[pod.uid] = self._loop.call_later(LATE_SECONDS, self._announce, pod, node)

    def _announce(self, pod: PodInfo, node: str) -> None:
        known = self._view.pods.get(pod.uid, pod)
        if pod.uid in self._awaiting_bind or (not known.node and pod.uid in self._writer.unsure):
            self._announce_later(pod, node)
            return
        del self._events[pod.uid]
        if self._view.bound_node(known) == node:
            self._callbacks.record(scheduled(pod, node))


# --- the next groups -------------------------------------------------------------------------
#
# The first groups of the queue are looked at after a change: room came, a group became complete,
# Bindings were made, kube-scheduler has judged a pod. A group is planned and bound together if each
# of its members has an equal that kube-scheduler has judged. The look ends at the first group that
# kube-scheduler is to try itself.
#
# kube-scheduler goes through its own queue meanwhile, in nearly the same order, and takes back the
# members that it reaches. So few groups begin at a time, and the last of them is written first.


class NextGroups:
    """Begins groups whose turn it is, as long as kube-scheduler is there."""

    def __init__(
        self,
        cluster: Cluster,
        plans: Plans,
        *,
        is_open: Callable[[], bool],
        ask: Callable[[str], None],
    ) -> None:
        """Take `is_open`, which says whether a group may begin, and `ask`, which begins it."""
        self._view = cluster.view()
        self._plans = plans
        self._is_open = is_open
        self._ask = ask
        self._clock = plans.clock
        self._changed = asyncio.Event()
        self._share = FairShare(SLICE_PODS)
        self._planned: dict[str, None] = {}
        """The groups that have room, but may have no member that has begun."""
        self._kept: dict[str, int] = {}
        """The quorums of the groups that got room in an earlier look and have not begun."""
        self._asked: dict[str, float] = {}
        """The time when a group that was asked for may be asked for again: until then it is left to
        that ask, or to kube-scheduler."""
        cluster.subscribe(self.on_change)

    def on_change(self, change: ClusterChange) -> None:
        """Look at the queue soon, and at groups that were planned before their turn."""
        for group in change.groups:
            tally = self._view.tally(group)
            if tally.planned and not tally.assigned:
                self._planned[group] = None
            else:
                self._planned.pop(group, None)
        self._changed.set()

    def look_soon(self) -> None:
        """Look at the queue soon: kube-scheduler has judged a pod."""
        self._changed.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SPARED_SECONDS if self._asked else None):
                    await self._changed.wait()
            self._changed.clear()
            pause = TURNS_SETTLE_SECONDS
            try:
                begun, spent = await timed(self.looking(), self._clock, seconds=SLICE_SECONDS)
                if not begun:
                    pause = REST * spent  # a short queue takes no time: what arrives begins at once
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("next-groups", error)
            await asyncio.sleep(pause)

    def looking(self) -> Steps[int]:
        """Begin the groups whose turn it is; return their number.

        An ask may come to nothing: a member was taken back, or its Bindings are refused. A group
        that still has its room after a pause is asked for again.
        """
        ready: list[str] = []
        for group in [each for each, at in self._asked.items() if self._clock.monotonic() >= at]:
            del self._asked[group]
            if self._view.tally(group).planned:
                self._planned[group] = None
        yield from self._find_planned(ready)
        yield from self._find_in_queue(ready)
        # kube-scheduler reaches the first groups first, so they are written last.
        for group in reversed(ready):
            pod_group = self._view.pod_group(group)
            if pod_group is not None:
                self._kept[group] = self._view.quorum(pod_group)
                self._asked[group] = self._clock.monotonic() + SPARED_SECONDS
                self._ask(group)
            yield
        return len(ready)

    def _find_planned(self, ready: list[str]) -> Steps[None]:
        """Add to `ready` the groups that can begin and got room before their turn."""
        pods = 0
        for group in [*self._planned]:
            if not self._is_open() or (ready and pods > PODS_AT_ONCE):
                return
            if self._plans.planner.is_busy(group) or group in self._asked:
                continue  # it has only a part of its room yet, or may be about to begin
            self._planned.pop(group, None)
            pod_group, tally = self._view.pod_group(group), self._view.tally(group)
            if pod_group is None or not tally.planned or tally.assigned:
                continue
            yield
            if not self._is_outranked(group):
                prospect = yield from self._judging(pod_group)
                if prospect is Prospect.BEGINS:
                    ready.append(group)
                    pods += self._view.quorum(pod_group)

    def _find_in_queue(self, ready: list[str]) -> Steps[None]:
        """Plan the first groups of the queue, and add to `ready` those that can begin.

        A group that has room and does not begin is left to kube-scheduler, and loses its room if
        that takes long: few groups may wait that way.
        """
        for group in [*self._kept]:
            tally = self._view.tally(group)
            if tally.assigned or not tally.planned:
                del self._kept[group]
        least_priority, pods = -math.inf, 0
        for group in (yield from self._share.choosing(self._view.queue)):
            yield
            pod_group = self._view.pod_group(group)
            if pod_group is None or group not in self._view.queue:
                continue
            pods += self._view.quorum(pod_group)
            if not self._is_open() or (ready and pods > PODS_AT_ONCE):
                return
            if sum(self._kept.values()) >= PODS_AT_ONCE or self._is_outranked(group):
                return
            priority = self._view.tally(group).priority
            if priority < least_priority:
                return  # the groups behind it have no higher priority
            prospect = yield from self._serving(pod_group, ready)
            if prospect is Prospect.UNREADABLE:
                least_priority = priority
            elif prospect in (Prospect.ASKED_FOR, Prospect.IN_HAND):
                return

    def _serving(self, pod_group: PodGroupInfo, ready: list[str]) -> Steps[Prospect]:
        """Give a group its turn; return its prospect, ASKED_FOR if those behind it have to wait."""
        group, plans = pod_group.key, self._plans
        if plans.planner.is_busy(group):
            return Prospect.ASKED_FOR
        strict = plans.verdicts.options.strict_order and not plans.never_starts(pod_group)
        passed = Prospect.ASKED_FOR if strict else Prospect.STANDS_ASIDE
        prospect = Prospect.STANDS_ASIDE
        if not plans.had_no_room(pod_group):
            prospect = yield from self._judging(pod_group)
        if prospect not in (Prospect.BEGINS, Prospect.LACKS_NODES):
            return passed if strict else prospect
        came_between = self._view.pod_group(group) != pod_group or self._is_outranked(group)
        if came_between or group in self._asked:
            return Prospect.ASKED_FOR
        plans.plan_ahead(pod_group, schedulers=plans.schedulers, seconds=SLICE_SECONDS)
        if group in self._view.queue:
            strict = strict and not plans.never_starts(pod_group)
            return Prospect.ASKED_FOR if strict or plans.planner.is_busy(group) else passed
        if prospect is Prospect.BEGINS:
            ready.append(group)
        else:
            self._kept[group] = self._view.quorum(pod_group)
        return prospect

    def _is_outranked(self, group: str) -> bool:
        priority, schedulers = self._view.tally(group).priority, self._plans.schedulers
        return ahead.is_outranked(priority, view=self._view, schedulers=schedulers)

    def _judging(self, pod_group: PodGroupInfo) -> Steps[Prospect]:
        return ahead.prospect_of(
            pod_group,
            view=self._view,
            schedulers=self._plans.schedulers,
            proven=self._plans.verdicts.known_schedulers,
            in_hand=self._plans.verdicts.awaiting_bind,
        )
