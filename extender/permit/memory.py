"""What this process remembers of groups, gathered for explanations: it is read and not changed."""

from collections.abc import Callable

from extender.gang.verdicts import Remembered
from extender.permit.hold import WaitingPods
from extender.permit.plans import Plans
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.view import ClusterView


class GroupMemory:
    """The verdicts about groups, the plans that are being made, and the time that groups have."""

    def __init__(
        self,
        view: ClusterView,
        plans: Plans,
        waiting: WaitingPods,
        *,
        stale: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`stale` returns a kind whose watch is stale."""
        self._view = view
        self._plans = plans
        self._waiting = waiting
        self._stale = stale

    def of(self, group: str) -> Remembered:
        """Return what is remembered of a group; times in seconds since the epoch."""
        verdicts, now = self._plans.verdicts, self._plans.clock.wall()
        denied, rest = verdicts.denied(group), verdicts.rest_left(group)
        left = self._waiting.time_left(group)
        return Remembered(
            denied=denied,
            denied_until=now + verdicts.denied_left(group) if denied is not None else None,
            last_failure=verdicts.last_failure(group),
            permitted=verdicts.is_permitted(group),
            is_being_planned=self._plans.planner.is_busy(group),
            rests_until=now + rest if rest else None,
            starts_by=now + left if left is not None else None,
            stale=self._stale(),
        )

    def never_starts(self, pod_group: PodGroupInfo) -> bool:
        """Return whether a group holds up no other one: it never fits, or its pods are not ours."""
        asks = self._plans.schedulers
        ours = any(pod.scheduler in asks for pod in self._view.members(pod_group.key))
        return not ours or self._plans.verdicts.never_fits(pod_group.key) is not None
