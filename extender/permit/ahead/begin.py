"""Binds the members of a gang together with one that kube-scheduler has asked for.

kube-scheduler brings pods one after the other, and each takes it a whole cycle. Once it has judged
one member, the Bindings of equal members are written at once, ahead of its own requests. Its queue
drops a pod that it sees on a node.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

import structlog

from extender.gang import ahead
from extender.gang.ahead import Left
from extender.permit.ahead.write import AheadWriter, Member
from extender.permit.hold import WaitingPods
from extender.permit.plans import Plans
from extender.permit.timing import BACKLOG, FEW_UNSENT, MEMBERS_SLICE_SECONDS, REST, SLICE_PODS
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import advance
from extender.state.cluster.store import Cluster
from extender.steps import Steps

_log = structlog.get_logger(__name__)


class Begin:
    """Begins to bind the members of a group that can be bound, some at a time."""

    def __init__(
        self,
        cluster: Cluster,
        waiting: WaitingPods,
        writer: AheadWriter,
        *,
        plans: Plans,
        behind: Callable[[], bool],
    ) -> None:
        """Begin no group while `behind` says that kube-scheduler's watch or ours is late."""
        self._loop = asyncio.get_running_loop()
        self._view = cluster.view()
        self._waiting = waiting
        self._writer = writer
        self._plans = plans
        self._metrics = writer.metrics
        self._behind = behind
        self._busy: dict[str, bool] = {}
        """The groups that are being begun, or rest after an attempt in vain; True if a group was
        asked for again meanwhile."""
        self._later: dict[str, None] = {}
        """The groups to look at once fewer Bindings are to be written."""
        self._left: dict[str, Counter[Left]] = {}
        """The members that the last decision left to kube-scheduler, counted by reason."""

    @property
    def is_open(self) -> bool:
        """Return whether a group without an open bind request may begin.

        It may if kube-scheduler is there and sees bound pods, and few Bindings are to be written.
        """
        able = self._writer.unsent < FEW_UNSENT and not self._waiting.stopping
        return able and not self._behind() and self._writer.is_there()

    def ask(self, group: str) -> None:
        """Begin to bind the members of a waiting group that can be; release it if they suffice."""
        if group in self._busy:
            self._busy[group] = True
        elif self._writer.unsent >= BACKLOG:
            self._later[group] = None
        elif not self._waiting.stopping:
            self._busy[group] = False
            self._go_on(group, self._beginning(group), 0.0)

    def _go_on(self, group: str, steps: Steps[bool], spent: float) -> None:
        """Run more steps of a group that begins; `spent` are the seconds of the earlier ones."""
        began = self._loop.time()
        try:
            done = advance(steps, self._plans.clock, seconds=MEMBERS_SLICE_SECONDS)
        except Exception as fault:  # noqa: BLE001 - it harms this group alone, until its next ask
            FAULTS.report("bind-together", fault, key=group)
            del self._busy[group]
            return
        spent += self._loop.time() - began
        if done is None:
            self._loop.call_soon(self._go_on, group, steps, spent)
        elif done.value:
            del self._busy[group]
            self._later[group] = None
            self.look_soon()
        else:
            self._loop.call_later(REST * spent, self._rested, group)

    def _rested(self, group: str) -> None:
        if self._busy.pop(group):
            self._decide(group)

    def look_soon(self) -> None:
        """Decide again about groups that were put off while many Bindings were to be written."""
        if self._later:
            self._loop.call_soon(self._look_at_others)

    def _look_at_others(self) -> None:
        while self._later and self._writer.unsent < BACKLOG:
            group = next(iter(self._later))
            del self._later[group]
            self._decide(group)

    def _decide(self, group: str) -> None:
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

    def _beginning(self, group: str) -> Steps[bool]:
        """Begin the members of a group that can be bound; return whether there were any.

        Their Bindings go out as soon as the group has its quorum. If it gets none, they are taken
        back. The state may change after each step, so each part is judged when it begins: a plan
        yields to pods of higher priority.
        """
        found = yield from ahead.members_able(
            group,
            view=self._view,
            schedulers=self._plans.schedulers,
            proven=self._plans.verdicts.known_schedulers,
            in_hand=self._plans.verdicts.awaiting_bind,
            barred=Left.BEHIND if self._behind() else None,
        )
        if self._view.tally(group).members:
            self._left[group] = Counter(found.left)
        begun, rest, is_sent = list[Member](), iter(found.nodes.items()), False
        try:
            while not self._waiting.stopping and (part := dict(islice(rest, SLICE_PODS))):
                some = self._still_able(group, part)
                begun += some
                self._writer.begin(some)
                if self._may_send(group, found.coming):
                    self._send(group, begun, found.coming, is_first=not is_sent)
                    begun, is_sent = [], True
                yield
            while begun:
                some, begun = begun[:SLICE_PODS], begun[SLICE_PODS:]
                self._writer.take_back(each.pod.uid for each in some)
                yield
        except Exception:
            self._writer.drop(begun)
            raise
        return bool(found.nodes)

    def _still_able(self, group: str, nodes: Mapping[str, str]) -> list[Member]:
        """Return the members that may still be bound, of those found before the last step."""
        if self._behind():
            return []
        able = ahead.still_able(
            *(group, nodes),
            view=self._view,
            schedulers=self._plans.schedulers,
            proven=self._plans.verdicts.known_schedulers,
            in_hand=self._plans.verdicts.awaiting_bind,
        )
        return [Member(self._view.pods[uid], node) for uid, node in able.items()]

    def _may_send(self, group: str, coming: Sequence[str]) -> bool:
        """Return whether a group has its quorum, and kube-scheduler is there."""
        if self._waiting.holds(group):
            self._writer.still_asks()  # its caller has not hung up
        pod_group, tally = self._view.pod_group(group), self._view.tally(group)
        if pod_group is None or self._writer.is_silent():
            return False
        return tally.assigned + len(tally.planned.intersection(coming)) >= self._view.quorum(
            pod_group
        )

    def _send(
        self, group: str, begun: Sequence[Member], coming: Sequence[str], *, is_first: bool
    ) -> None:
        """Queue the Bindings of a group that has its quorum."""
        there = self._writer.still_begun(begun)
        if is_first:
            by = "request" if self._waiting.holds(group) else "turn"
            self._metrics.groups_begun.labels(by).inc()
        self._waiting.release(group, [each.pod.uid for each in there], coming)
        self._writer.send(there)
        _log.debug("members are bound together", group=group, pods=len(there))
