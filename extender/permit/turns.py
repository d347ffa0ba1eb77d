"""The order between groups (QueueSort), imposed when a member of a group without a plan is tried.

kube-scheduler brings pods in an order of its own. So before the group of that member gets room,
room is kept for the groups that go first; in strict order it is refused while there are any.
"""

from extender.api.reasons import Reason
from extender.gang import plan
from extender.gang.verdicts import Refuse, about
from extender.permit.plans import Plans
from extender.permit.timing import PLAN_SECONDS, TURN_SECONDS, TURN_SHARE
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.view import ClusterView


class Turns:
    """Enforces the order in which groups are served."""

    def __init__(self, view: ClusterView, plans: Plans) -> None:
        self._view = view
        self._plans = plans
        self._verdicts = plans.verdicts
        self._clock = plans.clock
        self._credit = TURN_SECONDS
        self._last = self._clock.monotonic()

    def refusal(self, group: str) -> Refuse | None:
        """Return why it is not a group's turn, after serving those that go first."""
        pod_group = self._view.pod_group(group)
        if group not in self._view.queue or pod_group is None:
            return None
        if self._verdicts.options.strict_order:
            return self._verdicts.never_fits(group) or self._unless_first(pod_group)
        if self._is_last(pod_group) or self._serve_first(pod_group):
            return None
        text = f"{about(group)}gangs that go first are being planned"
        return Refuse(Reason.PLANNING, text)

    def _serve_first(self, pod_group: PodGroupInfo) -> bool:
        """Plan the groups that go first; return whether this group may have its turn.

        It may once they had theirs, or when no time is left for plans that come to nothing.
        """
        plans, clock = self._plans, self._clock
        began = clock.monotonic()
        until = began + TURN_SECONDS
        self._credit = min(TURN_SECONDS, self._credit + TURN_SHARE * (began - self._last))
        self._last = began
        left, in_vain = self._credit > 0, True

        def is_passed(other: PodGroupInfo) -> bool:
            # To see whether a group is worth a plan takes time too, if many nodes gained room.
            in_time = clock.monotonic() < until
            return in_time and (self._is_last(other) or plans.had_no_room(other))

        for other in plan.groups_ahead(pod_group, view=self._view, skip=is_passed):
            now = clock.monotonic()
            if not left or now >= until:
                self._credit -= now - began if left and in_vain else 0.0
                return not left
            in_vain = False
            seconds = min(PLAN_SECONDS, until - now)
            spent = plans.plan_ahead(other, schedulers=plans.schedulers, seconds=seconds)
            self._credit -= spent
            left = self._credit > 0
        return not plans.plans_before(pod_group)

    def _is_last(self, pod_group: PodGroupInfo) -> bool:
        """Return whether the group lacks a single pod, which is then scheduled like a plain pod."""
        committed = self._view.tally(pod_group.key).committed
        return self._view.quorum(pod_group) - committed <= 1

    def _unless_first(self, pod_group: PodGroupInfo) -> Refuse | None:
        """Return why a group has to wait in strict order."""
        clock = self._clock
        until, in_time = clock.monotonic() + TURN_SECONDS, True

        def never_starts(other: PodGroupInfo) -> bool:
            nonlocal in_time
            if not self._is_ours(other) or self._verdicts.never_fits(other.key) is not None:
                return True
            in_time = clock.monotonic() < until
            return in_time and self._plans.is_oversized(other)

        behind = plan.refusal_behind(pod_group, view=self._view, skip=never_starts)
        if in_time:
            return behind
        text = f"{about(pod_group.key)}gangs that go first are being looked at"
        return Refuse(Reason.PLANNING, text)

    def _is_ours(self, pod_group: PodGroupInfo) -> bool:
        """Return whether any pod of a group belongs to a scheduler that asks us."""
        members = self._view.members(pod_group.key)
        return any(pod.scheduler in self._plans.schedulers for pod in members)
