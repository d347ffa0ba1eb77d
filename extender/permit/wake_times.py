"""When a pod is woken that filter refused, and for which nothing will change that is watched.

That is when a window ends, another sample is drawn, or another group was planned or had its turn.
"""

from collections.abc import Callable
from typing import Final

from cachetools import LRUCache

from extender.api.reasons import Reason
from extender.gang import dry_round
from extender.gang.verdicts import Refuse
from extender.permit.plans import Plans
from extender.permit.verdicts import MAX_GROUPS
from extender.permit.wake import ROOM
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView

RESAMPLE_SECONDS: Final = 0.05
"""On big clusters the next attempt sees other nodes; no need to wait for anything."""
PLANNED_FIRST_SECONDS: Final = 1.0
"""When a gang is tried again at the latest that waits for the plan of another one: the end of that
plan wakes it."""
STALE_SECONDS: Final = 10.0
"""How often a gang is tried while nothing is heard of the API server."""

_HAVE_TIMES: Final = dry_round.REASONS | {Reason.RECENTLY_DENIED, Reason.NOT_SEEN_YET}
"""Reasons for which a planned member is not tried at once: `ahead/scheduler_lag.py` has the time of
the last, and `claims.py` that of dry rounds."""


class WakeTimes:
    """Sets when groups are woken; `wake_after` takes a key of the waker, and seconds."""

    def __init__(
        self, view: ClusterView, plans: Plans, *, wake_after: Callable[[str, float], None]
    ) -> None:
        self._view = view
        self._plans = plans
        self._verdicts = plans.verdicts
        self._wake_after = wake_after
        self._behind_plans: set[str] = set()
        """Groups that wait for the plan of a group that goes first."""
        self._mixed: LRUCache[str, None] = LRUCache(MAX_GROUPS)
        """Groups that never fit, some of whose members were refused for another reason before."""
        plans.planner.on_end(self._plan_ended)

    def set(self, pod: PodInfo, group: str, refusal: Refuse) -> None:
        """Set when a group is woken for a member that was refused."""
        reason = refusal.reason
        rest = self._verdicts.rest_left(group)
        if rest:
            self._wake_after(group, rest)
        if self._view.planned_node(pod.uid) is not None and reason not in _HAVE_TIMES:
            self._wake_after(group, RESAMPLE_SECONDS)
        match reason:
            case Reason.PLANNING if not rest:
                self._when_planned(group)
            case Reason.OUTSIDE_TOPOLOGY:
                self._wake_after(group, RESAMPLE_SECONDS)
            case Reason.CACHE_STALE:
                self._wake_after(group, STALE_SECONDS)
            case Reason.RECENTLY_DENIED:
                denied = max(self._verdicts.options.denied, self._verdicts.denied_left(group))
                self._wake_after(group, denied)
            case Reason.NEVER_FITS if not refusal.again or group in self._mixed:
                self._pass_on(group)
            case _:
                pass

    def _when_planned(self, group: str) -> None:
        """Wake a group when those that go first are planned."""
        if self._plans.planner.is_busy(group):
            return  # the end of its own plan wakes it
        pod_group = self._view.pod_group(group)
        if pod_group is not None and self._plans.plans_before(pod_group):
            self._behind_plans.add(group)
            self._wake_after(group, PLANNED_FIRST_SECONDS)
        else:
            self._wake_after(group, RESAMPLE_SECONDS)

    def _plan_ended(self, _: str, seconds: float) -> None:
        if not seconds:
            waiting, self._behind_plans = self._behind_plans, set()
            for group in waiting:
                self._wake_after(group, 0.0)

    def _pass_on(self, group: str) -> None:
        """Wake the siblings of a gang that never fits; in strict order also the next gang."""
        refused = self._view.refused
        if any(refused[uid].reason != Reason.NEVER_FITS for uid in self._view.refused_of(group)):
            self._mixed[group] = None
            self._wake_after(group, RESAMPLE_SECONDS)
        else:
            self._mixed.pop(group, None)
        if self._verdicts.options.strict_order:
            self._wake_after(ROOM, RESAMPLE_SECONDS)
