"""Members of a gang that are bound together with one that kube-scheduler has asked for.

kube-scheduler brings pods one after the other, and each takes it a whole cycle. Where it has judged
an equal member, the Bindings of the others are written at once: ahead of its own requests. Its
queue drops a pod that it sees on a node.

It may ask for a member all the same, before or after the Binding is made, though it has to pause
for a moment meanwhile (`permit.pause`). A filter request for a member whose Binding is not on its
way takes that back: kube-scheduler would see it appear on a node
in the middle of its cycle, and call that an error. A bind request waits for the write, and has the
same answer.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeVar

import structlog

from extender.gang import together, wake
from extender.gang.ahead import Left
from extender.gang.together import Together
from extender.permit.announcing import Announcer
from extender.permit.pause import Pauses
from extender.permit.plans import Plans
from extender.permit.waiting_pods import Gone, WaitingPods
from extender.permit.waker import SPARED_SECONDS
from extender.permit.writing import HUNG_UP, HUNG_UP_ON_ANOTHER, BindingWriter
from extender.runtime.budget import advance
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from extender.steps import Steps

_log = structlog.get_logger(__name__)

_T = TypeVar("_T")
_NEVER: Final = float("-inf")

PARALLEL: Final = 64
"""Bindings that are on their way at a time, more than the client has connections for them. A member
whose Binding is on its way is not taken back when kube-scheduler tries it: with fewer,
kube-scheduler brings more members itself (decision 65)."""
LOOK_SECONDS: Final = 0.005
"""How long members are looked at in one step of the event loop."""
AT_ONCE: Final = 250
"""So many members of a group begin in one step of the event loop."""
BACKLOG: Final = 500
"""While so many Bindings are still to be written no further group begins: it would be partial for
as long, and kube-scheduler may as well bring its members."""
FEW: Final = 32
"""While so many Bindings are still to be written no group begins that nothing waits for."""
REST: Final = 9
"""How much longer a group is left alone than a decision took that came to nothing."""
AHEAD_SECONDS: Final = 3.0
"""After so long without a call of kube-scheduler a write ends. One that cannot renew its lease ends
five seconds before another one may begin, which gives the nodes to other pods."""
SILENT_SECONDS: Final = AHEAD_SECONDS - 1
"""After so long without a call of kube-scheduler no write begins."""
STOPPED_SECONDS: Final = 8.0
"""So long after a call open requests say nothing of kube-scheduler: where its process stands still
it loses its lease in 13 seconds, and they stay open. One that runs calls for the pods that came."""
ANSWER_HELD_SECONDS: Final = 60.0
"""How long the answer to a bind request is held back, at most, while others are to be written."""


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A member whose Binding is to be written."""

    pod: PodInfo
    node: str


@dataclass(slots=True)
class _Search:
    """A group whose members are being looked at, some at a time."""

    steps: Steps[Together]
    seconds: float = 0.0
    turns: int = 0
    is_old: bool = False
    """Whether the group has changed since it began."""


@dataclass(slots=True)
class _Start:
    """A group whose members begin to be bound, some at a time."""

    rest: deque[tuple[str, str]]
    coming: Sequence[str]
    """Members whose own bind requests are due."""
    is_judged: bool
    """Whether the next members have been judged by the books as they are now."""
    begun: deque[_Ahead] = field(default_factory=deque)
    is_sent: bool = False
    """Whether the first of its Bindings are on their way."""


class BindTogether:
    """Binds what it can of a group, and stands aside for kube-scheduler's own requests."""

    def __init__(
        self,
        cluster: Cluster,
        waiting: WaitingPods,
        writer: BindingWriter,
        *,
        plans: Plans,
        announcer: Announcer,
        behind: Callable[[], bool] = lambda: False,
    ) -> None:
        """`behind` says that kube-scheduler's watch or ours is late, so that none begins."""
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._view = cluster.view()
        self._waiting = waiting
        self._writer = writer
        self._plans = plans
        self._announcer = announcer
        self._behind = behind
        self._is_there: Callable[[], bool] = lambda: True
        self._called = self._heard = _NEVER
        """When kube-scheduler last called or had a request open (never, once it has hung up), and
        when it last called."""
        self._held_answer: asyncio.Future[None] | None = None
        """Ends the bind request whose answer is held back, as long as its caller is there."""
        self._searches: dict[str, _Search] = {}
        self._starts: dict[str, _Start] = {}
        self._queue: asyncio.Queue[_Ahead] = asyncio.Queue()
        """Members in their order; those that are not in `_unsent` any more are passed over."""
        self._unsent: dict[str, _Ahead] = {}
        self._writing: dict[str, asyncio.Timeout] = {}
        """What ends the writes that are on their way, by UID."""
        self._joined: dict[str, asyncio.Future[str]] = {}
        self._resting: dict[str, bool] = {}
        """Groups that are left alone for a moment; whether one is worth another look then."""
        self._later: dict[str, None] = {}
        """Groups that are to be looked at when fewer Bindings are to be written."""
        self._spared: dict[str, float] = {}
        """Until when the members of a group are not woken."""
        self._left: dict[str, Counter[Left]] = {}
        """What the last decision about a group left to kube-scheduler, until it starts."""
        self._answered: set[str] = set()
        """Members whose bind requests were answered while their Bindings were being written."""
        self.pauses = Pauses(self, metrics=writer.metrics)
        waiting.bind_together(self)
        writer.on_failure(announcer.unsure)

    @property
    def writing(self) -> AbstractSet[str]:
        """UIDs of the pods whose Bindings are being written."""
        return self._writing.keys()

    @property
    def going_out(self) -> int:
        """How many Bindings are to be written ahead, or are being written."""
        return len(self._unsent) + len(self._writing)

    def binds(self, uid: str) -> bool:
        """Return whether that of a member is one of them."""
        return uid in self._unsent or uid in self._writing

    # -- what kube-scheduler asks

    def filtered(self, pod: PodInfo) -> None:
        """Leave a pod to kube-scheduler that filter is asked about, if it can still be left."""
        self.asked()
        self._take_back((pod.uid,))

    def asked(self) -> None:
        """Remember when kube-scheduler last called."""
        self._called = self._heard = self._loop.time()

    def hung_up(self) -> None:
        """End what is to be written, and give up what is on its way: kube-scheduler may have ended.

        One that is stopped in order gives its lease back before it hangs up: the next one may have
        begun. If it is there all the same, its next call ends this, and it brings the members.
        """
        self._called = _NEVER
        self._end_held_answer()
        self.pauses.hung_up()
        for limit in self._writing.values():
            if not limit.expired():
                limit.reschedule(self._loop.time())

    def lost(self) -> None:
        """Count kube-scheduler as gone if no bind request of its is open.

        The connection has ended by which it called filter. A process that stops ends it itself.
        """
        if not self._is_asking and not self._waiting.stopping:
            self.hung_up()

    def answered(self, uid: str) -> None:
        """Leave the Event of a pod to kube-scheduler, which was answered that the pod is bound."""
        self._announcer.asked(uid)
        if uid in self._writing:
            self._answered.add(uid)

    async def hold_answer(self, uid: str, gone: Gone, *, until: float) -> None:
        """Return when all is sent, or the caller of a bind request for a member has hung up.

        `gone` says that to `hung_up` before it returns.
        kube-scheduler does not call while all its pods wait, and it hangs up when it ends: one open
        request says whether it is there. No other answer is held back meanwhile.
        """
        pod, now = self._view.pods.get(uid), self._loop.time()
        if self._held_answer is not None or not self._unsent or pod is None or pod.group is None:
            return
        held = self._held_answer = self._loop.create_future()
        caller = asyncio.ensure_future(gone())
        try:
            await asyncio.wait(
                (held, caller),
                timeout=min(ANSWER_HELD_SECONDS, until - now),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            caller.cancel()
            if self._held_answer is held:
                self._held_answer = None
                self._still_asks()

    def join(self, uid: str) -> "asyncio.Future[str] | None":
        """Return the error to come of a Binding that is to be written, or is being written."""
        if uid not in self._unsent and uid not in self._writing:
            return None
        return self._joined.setdefault(uid, self._loop.create_future())

    # -- what groups ask that begin in their turn

    @property
    def is_open(self) -> bool:
        """Whether a group may begin of which no bind request is open.

        kube-scheduler is there, and sees what was bound. Few Bindings are still to be written.
        """
        able = len(self._unsent) < FEW and not self._waiting.stopping and not self._behind()
        if not able or self._called == _NEVER:
            return False
        if self._is_asking:
            self._still_asks()  # the callers have not hung up
            return self._loop.time() <= self._heard + STOPPED_SECONDS
        return self._is_there() and not self._is_silent()

    @property
    def _is_asking(self) -> bool:
        """Whether a bind request is held, or its answer."""
        return self._held_answer is not None or self._waiting.held_groups > 0

    def while_there(self, is_there: Callable[[], bool]) -> None:
        """Begin no group without a request unless `is_there`.

        It says whether the connection is open by which filter was called last.
        """
        self._is_there = is_there

    # -- what permit asks

    def ask(self, group: str) -> None:
        """Begin to bind what can be of a group that waits, and release it if that is enough."""
        if group in self._resting:
            self._resting[group] = True
            return
        if group in self._starts or self._waiting.stopping:
            return
        if group in self._searches:
            self._searches[group].is_old = True
            return
        if len(self._unsent) >= BACKLOG:
            self._later[group] = None
            return
        steps = together.deciding(
            group,
            view=self._view,
            schedulers=self._plans.schedulers,
            proven=self._plans.verdicts.proven,
            in_hand=self._plans.verdicts.in_hand,
            barred=Left.BEHIND if self._behind() else None,
        )
        self._searches[group] = _Search(steps)
        self._go_on(group)

    def _go_on(self, group: str) -> None:
        """Look at more members of a group, and begin to bind it when all were looked at."""
        search, began = self._searches.pop(group), self._loop.time()
        found = advance(search.steps, self._plans.clock, seconds=LOOK_SECONDS)
        search.seconds += self._loop.time() - began
        if found is None:
            search.turns += 1
            self._searches[group] = search
            self._loop.call_soon(self._go_on, group)
            return
        if self._view.tally(group).members:
            self._left[group] = Counter(found.value.left)
        if found.value.nodes and not self._waiting.stopping:
            nodes = deque(found.value.nodes.items())
            self._starts[group] = _Start(nodes, found.value.coming, is_judged=not search.turns)
            self._begin_next(group)
            return
        self._resting[group] = search.is_old
        self._loop.call_later(REST * search.seconds, self._rested, group)

    def started(self, group: str) -> None:
        """Count what a group left to kube-scheduler: it was released."""
        self._spared.pop(group, None)
        for why, count in self._left.pop(group, Counter()).items():
            self._writer.metrics.ahead_skipped.labels(why).inc(count)

    def forget(self, group: str) -> None:
        """Forget what a group left to kube-scheduler: it waits no more."""
        self._spared.pop(group, None)
        self._left.pop(group, None)

    def to_wake(self, group: str, pods: Sequence[PodInfo]) -> Sequence[PodInfo]:
        """Return which members that were refused are to be woken now.

        Those that can be bound together with another one are left alone for a moment.
        """
        now = self._loop.time()
        if now >= self._spared.setdefault(group, now + SPARED_SECONDS):
            return pods
        coming = self._plans.verdicts.in_hand.coming
        return wake.not_spared(group, pods, view=self._view, coming=coming)

    def stop(self) -> None:
        """Give back what is not on its way: this process is about to stop."""
        self.pauses.stop()
        self._take_back(list(self._unsent))

    # -- the work

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(PARALLEL):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            ahead = await self._queue.get()
            try:
                await self._bind(ahead)
                self._look_at_others()
            except Exception as fault:  # noqa: BLE001 - it harms this pod alone
                FAULTS.report("bind-together", fault, key=ahead.pod.uid)
                if self._unsent.get(ahead.pod.uid) is ahead:
                    self._take_back((ahead.pod.uid,))

    async def _bind(self, ahead: _Ahead) -> None:
        """Write the Binding of a member, or leave it to kube-scheduler after all."""
        uid = ahead.pod.uid
        if self._unsent.get(uid) is not ahead:
            return  # taken back; it may have begun anew since, without a quorum yet
        if self._is_silent():
            self._take_back({uid, *islice(self._unsent, AT_ONCE)})
            await asyncio.sleep(0)
        elif not together.still_holds(ahead.pod, ahead.node, view=self._view):
            self._take_back((uid,))
        else:
            del self._unsent[uid]
            self._all_sent()
            left = self._called + AHEAD_SECONDS - self._loop.time()
            await self._write(ahead, seconds=left)

    def _still_asks(self) -> None:
        """Count a request that is open as a call."""
        self._called = self._loop.time()

    def _is_silent(self) -> bool:
        """Return whether kube-scheduler has not called for so long that it may be there no more."""
        if self._held_answer is not None:
            self._still_asks()
        return self._loop.time() > self._called + SILENT_SECONDS

    def _all_sent(self) -> None:
        """Answer the request that was held back if nothing is to be sent any more."""
        if self._held_answer is not None and not self._unsent:
            self._still_asks()
            self._end_held_answer()

    def _end_held_answer(self) -> None:
        held, self._held_answer = self._held_answer, None
        if held is not None:
            held.set_result(None)

    async def _write(self, ahead: _Ahead, *, seconds: float) -> None:
        pod, error = ahead.pod, HUNG_UP
        limit = self._writing[pod.uid] = asyncio.timeout(seconds)
        try:
            error = await self._writer.write_ahead(pod, ahead.node, seconds=seconds, limit=limit)
            if not error and pod.uid not in self._answered:
                self._announcer.bound(pod, ahead.node)
        except Exception:
            self._cluster.apply(ev.Unreserved((pod.uid,)))
            raise
        finally:
            del self._writing[pod.uid]
            self._answered.discard(pod.uid)
            self._end(ahead, error)

    def _look_at_others(self) -> None:
        while self._later and len(self._unsent) < BACKLOG:
            group = next(iter(self._later))
            del self._later[group]
            if self._view.tally(group).waiting:
                self._waiting.decide(group)

    def _begin_next(self, group: str) -> None:
        """Begin the next members; they are written as soon as the group has its quorum."""
        try:
            self._begin_some(group, self._starts[group])
        except Exception as fault:  # noqa: BLE001 - it harms this group alone
            self._give_up(group, fault)

    def _begin_some(self, group: str, start: _Start) -> None:
        view = self._view
        if self._waiting.stopping:
            start.rest.clear()
        part = dict(islice(_popped(start.rest), AT_ONCE))
        if not start.is_judged:
            part = self._still_able(group, part)
        start.is_judged = False
        ahead = [_Ahead(view.pods[uid], node) for uid, node in part.items()]
        start.begun += ahead
        self._unsent.update((each.pod.uid, each) for each in ahead)
        self._cluster.apply(ev.BoundAhead(part))
        if self._waiting.holds(group):
            self._still_asks()  # its caller has not hung up
        if self._has_quorum(group, start) and not self._waiting.stopping and not self._is_silent():
            self._send(group, start)
        if start.rest:
            self._loop.call_soon(self._begin_next, group)
        else:
            self._undo_next(group)

    def _still_able(self, group: str, nodes: Mapping[str, str]) -> dict[str, str]:
        """Return the members that may be bound now, of those that were when the group was judged.

        Other pods may have got room since: a plan yields to those of higher priority.
        """
        if self._behind():
            return {}
        return together.still_able(
            group,
            nodes,
            view=self._view,
            schedulers=self._plans.schedulers,
            proven=self._plans.verdicts.proven,
            in_hand=self._plans.verdicts.in_hand,
        )

    def _undo_next(self, group: str) -> None:
        """Take back what was begun without a quorum, and look at the group again then."""
        start = self._starts[group]
        try:
            self._take_back(each.pod.uid for each in islice(_popped(start.begun), AT_ONCE))
        except Exception as fault:  # noqa: BLE001 - it harms this group alone
            self._give_up(group, fault)
            return
        if start.begun:
            self._loop.call_soon(self._undo_next, group)
            return
        del self._starts[group]
        self._later[group] = None
        self._loop.call_soon(self._look_at_others)

    def _give_up(self, group: str, fault: Exception) -> None:
        """Free the room of what was begun of a group and is not to be written, after a fault."""
        FAULTS.report("bind-together", fault, key=group)
        begun = self._starts.pop(group).begun
        left = [each for each in begun if self._unsent.get(each.pod.uid) is each]
        for each in left:
            del self._unsent[each.pod.uid]
        self._free(left)

    def _free(self, left: Sequence[_Ahead]) -> None:
        """Free the room of members that are to be written no more."""
        self._cluster.apply(ev.Unreserved([each.pod.uid for each in left]))
        for each in left:
            self._end(each, HUNG_UP)
        self._all_sent()

    def _has_quorum(self, group: str, start: _Start) -> bool:
        pod_group, tally = self._view.pod_group(group), self._view.tally(group)
        coming = tally.planned.intersection(start.coming)
        return pod_group is not None and tally.assigned + len(coming) >= self._view.quorum(
            pod_group
        )

    def _send(self, group: str, start: _Start) -> None:
        """Queue the Bindings of a group that has its quorum."""
        there = [each for each in start.begun if self._unsent.get(each.pod.uid) is each]
        if not start.is_sent:
            by = "request" if self._waiting.holds(group) else "turn"
            self._writer.metrics.groups_begun.labels(by).inc()
        start.is_sent = True
        self._waiting.release(group, [each.pod.uid for each in there], start.coming)
        for each in there:
            self._queue.put_nowait(each)
        start.begun.clear()  # only now: after a fault no writer has what is left
        _log.info("members are bound together", group=group, pods=len(there))

    def _rested(self, group: str) -> None:
        if self._resting.pop(group) and self._view.tally(group).waiting:
            self._waiting.decide(group)

    def _take_back(self, uids: Iterable[str]) -> None:
        """Keep the room of members for kube-scheduler, which brings them itself."""
        unsent = [ahead for uid in uids if (ahead := self._unsent.pop(uid, None)) is not None]
        try:
            self._keep(unsent)
        except Exception:
            self._free(unsent)
            raise
        for ahead in unsent:
            self._end(ahead, HUNG_UP)
        self._all_sent()

    def _keep(self, unsent: Sequence[_Ahead]) -> None:
        kept = [each for each in unsent if together.has_room(each.pod, each.node, view=self._view)]
        for ahead in unsent:
            now = self._view.pods.get(ahead.pod.uid)
            if now is None or now.group != ahead.pod.group:
                self._waiting.lose(ahead.pod.group or "")
        if kept:
            self._waiting.follow([(ahead.pod, ahead.node) for ahead in kept])

    def _end(self, ahead: _Ahead, error: str) -> None:
        if error == HUNG_UP and self._called == _NEVER:
            error = HUNG_UP_ON_ANOTHER  # its own request has no attempt of its own, either
        joined = self._joined.pop(ahead.pod.uid, None)
        if joined is not None and not joined.done():
            joined.set_result(error)
        self.pauses.ended(made=not error)


def _popped(rest: deque[_T]) -> Iterable[_T]:
    while rest:
        yield rest.popleft()
