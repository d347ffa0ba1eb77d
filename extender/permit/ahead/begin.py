"""Begins to bind the members of a gang together with one that kube-scheduler has asked for.

kube-scheduler brings pods one after the other, and each takes it a whole cycle. Once it has judged
one member, the Bindings of equal members are written at once, ahead of its own requests. Its queue
drops a pod that it sees on a node.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

import structlog

from extender.gang import ahead
from extender.gang.ahead import Left, Together
from extender.permit.ahead.write import AheadWriter, Member
from extender.permit.hold import WaitingPods
from extender.permit.plans import Plans
from extender.permit.timing import BACKLOG, FEW_UNSENT, MEMBERS_SLICE_SECONDS, REST, SLICE_PODS
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import advance
from extender.state.cluster.store import Cluster
from extender.steps import Steps

_log = structlog.get_logger(__name__)

_T = TypeVar("_T")


@dataclass(slots=True)
class _Search:
    """A group whose members are being looked at, some at a time."""

    steps: Steps[Together]
    seconds: float = 0.0
    turns: int = 0
    is_old: bool = False
    """True if the group has changed since the look began."""


@dataclass(slots=True)
class _Start:
    """A group whose members begin to be bound, some at a time."""

    rest: deque[tuple[str, str]]
    coming: Sequence[str]
    """The members whose own bind requests are due."""
    is_judged: bool
    """True if the next members have been judged by the state as it is now."""
    begun: deque[Member] = field(default_factory=deque)
    is_sent: bool = False
    """True once the first of its Bindings are on their way."""


class Begin:
    """Begins to bind the members of a group that can be bound."""

    def __init__(
        self,
        cluster: Cluster,
        waiting: WaitingPods,
        ahead: AheadWriter,
        *,
        plans: Plans,
        behind: Callable[[], bool],
        on_sent: Callable[[str], None],
    ) -> None:
        """Begin no group while `behind` says that kube-scheduler's watch or ours is late.

        `on_sent` is called with a group when the first of its Bindings are sent.
        """
        self._loop = asyncio.get_running_loop()
        self._view = cluster.view()
        self._waiting = waiting
        self._ahead = ahead
        self._plans = plans
        self._metrics = ahead.metrics
        self._behind = behind
        self._on_sent = on_sent
        self._searches: dict[str, _Search] = {}
        self._starts: dict[str, _Start] = {}
        self._resting: dict[str, bool] = {}
        """The groups that are left alone for a moment; True if one is worth a look afterwards."""
        self._later: dict[str, None] = {}
        """The groups to look at once fewer Bindings are to be written."""
        self._left: dict[str, Counter[Left]] = {}
        """The members that the last decision left to kube-scheduler, counted by reason."""

    @property
    def is_open(self) -> bool:
        """Return whether a group without an open bind request may begin.

        It may if kube-scheduler is there and sees bound pods, and few Bindings are to be written.
        """
        able = self._ahead.unsent < FEW_UNSENT and not self._waiting.stopping and not self._behind()
        return able and self._ahead.is_there()

    def ask(self, group: str) -> None:
        """Begin to bind the members of a waiting group that can be; release it if they suffice."""
        if group in self._resting:
            self._resting[group] = True
            return
        if group in self._starts or self._waiting.stopping:
            return
        if group in self._searches:
            self._searches[group].is_old = True
            return
        if self._ahead.unsent >= BACKLOG:
            self._later[group] = None
            return
        steps = ahead.members_able(
            group,
            view=self._view,
            schedulers=self._plans.schedulers,
            proven=self._plans.verdicts.known_schedulers,
            in_hand=self._plans.verdicts.awaiting_bind,
            barred=Left.BEHIND if self._behind() else None,
        )
        self._searches[group] = _Search(steps)
        self._go_on(group)

    def _go_on(self, group: str) -> None:
        """Look at more members of a group, and begin to bind it after the last one."""
        try:
            self._search_on(group)
        except Exception as fault:  # noqa: BLE001 - it harms this group alone, until its next ask
            FAULTS.report("bind-together", fault, key=group)

    def _search_on(self, group: str) -> None:
        search, began = self._searches.pop(group), self._loop.time()
        found = advance(search.steps, self._plans.clock, seconds=MEMBERS_SLICE_SECONDS)
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

    def _rested(self, group: str) -> None:
        if self._resting.pop(group) and self._view.tally(group).waiting:
            self._waiting.decide(group)

    def look_soon(self) -> None:
        """Decide again about groups that were put off while many Bindings were to be written."""
        if self._later:
            self._loop.call_soon(self._look_at_others)

    def _look_at_others(self) -> None:
        while self._later and self._ahead.unsent < BACKLOG:
            group = next(iter(self._later))
            del self._later[group]
            try:
                if self._view.tally(group).waiting:
                    self._waiting.decide(group)
            except Exception as fault:  # noqa: BLE001 - it harms this group alone
                FAULTS.report("bind-together", fault, key=group)

    # -- the end of a wait

    def started(self, group: str) -> None:
        """Count the members that a group left to kube-scheduler: it was released."""
        for why, count in self._left.pop(group, Counter()).items():
            self._metrics.ahead_skipped.labels(why).inc(count)

    def forget(self, group: str) -> None:
        """Forget the members that a group left to kube-scheduler: it waits no more."""
        self._left.pop(group, None)

    # -- the start of a group

    def _begin_next(self, group: str) -> None:
        """Begin the next members; their Bindings go out as soon as the group has its quorum."""
        try:
            self._begin_some(group, self._starts[group])
        except Exception as fault:  # noqa: BLE001 - it harms this group alone
            self._give_up(group, fault)

    def _begin_some(self, group: str, start: _Start) -> None:
        view = self._view
        if self._waiting.stopping:
            start.rest.clear()
        part = dict(islice(_popped(start.rest), SLICE_PODS))
        if not start.is_judged:
            part = self._still_able(group, part)
        start.is_judged = False
        ahead = [Member(view.pods[uid], node) for uid, node in part.items()]
        start.begun += ahead
        self._ahead.begin(ahead)
        if self._waiting.holds(group):
            self._ahead.still_asks()  # its caller has not hung up
        able = not self._waiting.stopping and not self._ahead.is_silent()
        if able and self._has_quorum(group, start):
            self._send(group, start)
        if start.rest:
            self._loop.call_soon(self._begin_next, group)
        else:
            self._undo_next(group)

    def _still_able(self, group: str, nodes: Mapping[str, str]) -> dict[str, str]:
        """Return the members that may still be bound, of those that could be when it was judged.

        Other pods may have got room since: a plan yields to pods of higher priority.
        """
        if self._behind():
            return {}
        return ahead.still_able(
            group,
            nodes,
            view=self._view,
            schedulers=self._plans.schedulers,
            proven=self._plans.verdicts.known_schedulers,
            in_hand=self._plans.verdicts.awaiting_bind,
        )

    def _undo_next(self, group: str) -> None:
        """Take back members begun without a quorum, and then look at the group again."""
        start = self._starts[group]
        try:
            self._ahead.take_back(each.pod.uid for each in islice(_popped(start.begun), SLICE_PODS))
        except Exception as fault:  # noqa: BLE001 - it harms this group alone
            self._give_up(group, fault)
            return
        if start.begun:
            self._loop.call_soon(self._undo_next, group)
            return
        del self._starts[group]
        self._later[group] = None
        self.look_soon()

    def _give_up(self, group: str, fault: Exception) -> None:
        """Free the room of begun members that are not to be written, after a fault."""
        FAULTS.report("bind-together", fault, key=group)
        self._ahead.drop(self._starts.pop(group).begun)

    def _has_quorum(self, group: str, start: _Start) -> bool:
        pod_group, tally = self._view.pod_group(group), self._view.tally(group)
        coming = tally.planned.intersection(start.coming)
        return pod_group is not None and tally.assigned + len(coming) >= self._view.quorum(
            pod_group
        )

    def _send(self, group: str, start: _Start) -> None:
        """Queue the Bindings of a group that has its quorum."""
        there = self._ahead.still_begun(start.begun)
        if not start.is_sent:
            by = "request" if self._waiting.holds(group) else "turn"
            self._metrics.groups_begun.labels(by).inc()
            self._on_sent(group)
        start.is_sent = True
        self._waiting.release(group, [each.pod.uid for each in there], start.coming)
        self._ahead.send(there)
        start.begun.clear()  # only now: after a fault above, these are not written
        _log.debug("members are bound together", group=group, pods=len(there))


def _popped(rest: deque[_T]) -> Iterable[_T]:
    while rest:
        yield rest.popleft()
