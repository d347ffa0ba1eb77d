"""The order between groups (QueueSort), imposed when a member of a group without a plan is tried.

kube-scheduler brings pods in an order of its own. So before such a group gets room, room is kept
for the groups that go first; or, in strict order, it is refused while there are any.
"""

from typing import Final

from extender.api.wellknown import Reason
from extender.gang import queue_sort
from extender.gang.verdicts import Refuse, about
from extender.server.group_memory import PLAN_SECONDS, GroupMemory
from extender.state.pod_groups import PodGroupInfo
from extender.state.pods import PodInfo
from extender.state.snapshot import Snapshot

AHEAD_SECONDS: Final = 0.02
"""How long one call of filter may plan for others, at most. To find that a gang does not fit on
thousands of nodes takes milliseconds, and kube-scheduler's loop waits."""
AHEAD_SHARE: Final = 0.1
"""And how much of the time that goes by may be spent in vain: while pods come and go, each call
would find that groups which had no room are worth another look."""


class Turns:
    """Sees to it that groups are served in their order."""

    def __init__(self, snapshot: Snapshot, memory: GroupMemory) -> None:
        self._snapshot = snapshot
        self._memory = memory
        self._credit = AHEAD_SECONDS
        self._last = memory.clock.monotonic()

    def refusal(self, pod: PodInfo, group: str) -> Refuse | None:
        """Return why it is not this pod's group's turn, after serving those that go first."""
        if group not in self._snapshot.queue or self._snapshot.planned_node(pod.uid) is not None:
            return None
        pod_group = self._snapshot.pod_group(group)
        if pod_group is None or self._memory.denied(group) is not None:
            return None
        never = self._memory.never_fits(group)
        if never is not None:
            return never
        if not self._memory.options.strict_order:
            if not self._is_last(pod_group) and not self._serve_first(pod_group):
                text = f"{about(group)}gangs that go first are being planned"
                return Refuse(Reason.PLANNING, text)
            return None
        return self._unless_first(pod_group)

    def _unless_first(self, pod_group: PodGroupInfo) -> Refuse | None:
        """Return why a group has to wait in strict order."""
        behind = self._is_behind(pod_group)
        if behind is None:
            text = f"{about(pod_group.key)}gangs that go first are being looked at"
            return Refuse(Reason.PLANNING, text)
        if behind:
            text = f"{about(pod_group.key)}another gang is ahead of it, and the order is strict"
            return Refuse(Reason.WAITING_FOR_TURN, text)
        return None

    def _serve_first(self, pod_group: PodGroupInfo) -> bool:
        """Plan the groups that go first; return whether all had their turn, as far as that pays.

        Without credit for plans that come to nothing others pass.
        """
        memory, snapshot = self._memory, self._snapshot
        began = memory.clock.monotonic()
        until = began + AHEAD_SECONDS
        self._credit = min(AHEAD_SECONDS, self._credit + AHEAD_SHARE * (began - self._last))
        self._last = began
        left, in_vain = self._credit > 0, True

        def is_passed(other: PodGroupInfo) -> bool:
            # To see whether a group is worth a plan takes time too, where many nodes have gained.
            return memory.clock.monotonic() < until and self._is_passed(other)

        for other in queue_sort.ahead_of(pod_group, snapshot=snapshot, skip=is_passed):
            now = memory.clock.monotonic()
            if not left or now >= until:
                self._credit -= now - began if left and in_vain else 0.0
                return not left
            in_vain = False
            seconds = min(PLAN_SECONDS, until - now)
            spent = memory.plan_ahead(other, schedulers=memory.schedulers, seconds=seconds)
            self._credit -= spent
            left = self._credit > 0
        return not memory.plans_before(pod_group)

    def _is_passed(self, pod_group: PodGroupInfo) -> bool:
        return self._is_last(pod_group) or self._memory.had_no_room(pod_group)

    def _is_last(self, pod_group: PodGroupInfo) -> bool:
        """Return whether one more pod makes the group complete: it comes as a plain pod does."""
        committed = self._snapshot.tally(pod_group.key).committed
        return self._snapshot.quorum(pod_group) - committed <= 1

    def _is_behind(self, pod_group: PodGroupInfo) -> bool | None:
        """Return whether any group goes first; None where there was no time to see."""
        clock, memory = self._memory.clock, self._memory
        until, in_time = clock.monotonic() + AHEAD_SECONDS, True

        def never_starts(other: PodGroupInfo) -> bool:
            nonlocal in_time
            if not self._is_ours(other) or memory.never_fits(other.key) is not None:
                return True
            in_time = clock.monotonic() < until
            return in_time and memory.is_oversized(other)

        behind = queue_sort.is_behind(pod_group, snapshot=self._snapshot, skip=never_starts)
        return behind if in_time else None

    def _is_ours(self, pod_group: PodGroupInfo) -> bool:
        """Return whether a scheduler that asks us places any pod of a group."""
        members = self._snapshot.members(pod_group.key)
        return any(pod.scheduler in self._memory.schedulers for pod in members)
