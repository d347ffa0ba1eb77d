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
        elif self._is_behind(pod_group):
            text = f"{about(group)}another gang is ahead of it, and the order is strict"
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
        left = self._credit > 0
        for other in queue_sort.ahead_of(pod_group, snapshot=snapshot, skip=self._is_passed):
            now = memory.clock.monotonic()
            if not left or now >= until:
                return not left
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

    def _is_behind(self, pod_group: PodGroupInfo) -> bool:
        return queue_sort.is_behind(pod_group, snapshot=self._snapshot, skip=self._never_starts)

    def _never_starts(self, pod_group: PodGroupInfo) -> bool:
        """Return whether a group holds nobody up: no node is large enough, or it is not ours."""
        members = self._snapshot.members(pod_group.key)
        if all(pod.scheduler not in self._memory.schedulers for pod in members):
            return True
        return self._memory.is_oversized(pod_group)
