"""Tells a watch that is behind kube-scheduler's from one that disagrees with it.

`WatchLag` counts the two as disagreeing once kube-scheduler sees more room than we do for too long.
`PodsSeenOnlyInRequests` drops the pods that no watch has shown in time.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from cachetools import TTLCache

from extender.api.reasons import Reason
from extender.gang.filter import disagreement
from extender.gang.verdicts import FilterVerdict, Refuse, about
from extender.permit.timing import (
    CHECK_SECONDS,
    LAG_SECONDS,
    LONG_SECONDS,
    MOMENT_SECONDS,
    REMEMBERED,
    TRIES,
)
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView

_SAYS_NOTHING_OF_ROOM: Final = frozenset((Reason.PLANNING, Reason.CACHE_STALE))

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Lag:
    since: float
    tries: int = 0
    disagrees: bool = False


class WatchLag:
    """The pods, by UID, for which kube-scheduler sees room that is not known here."""

    def __init__(
        self,
        view: ClusterView,
        *,
        timer: Callable[[], float],
        wake_after: Callable[[str, float], None],
    ) -> None:
        self._view = view
        self._timer = timer
        self._wake_after = wake_after
        self._lags: TTLCache[str, _Lag] = TTLCache(REMEMBERED, LONG_SECONDS, timer)

    @property
    def disagreements(self) -> int:
        """Return the number of these pods for which that lasts longer than a watch is behind."""
        self._lags.expire()
        return sum(lag.disagrees for lag in self._lags.values())

    @property
    def is_behind(self) -> bool:
        """Return whether kube-scheduler sees room for some pod that our watch has yet to show."""
        pods = self._view.pods
        return any(uid in pods and not lag.disagrees for uid, lag in self._lags.items())

    def unless_it_lasts(
        self, verdict: FilterVerdict, pod: PodInfo, sent: Sequence[str]
    ) -> FilterVerdict:
        """Return the verdict, or the disagreement if it lasts longer than a watch is behind."""
        reason = verdict.reason if isinstance(verdict, Refuse) else None
        if reason is not Reason.CACHE_BEHIND:
            if reason not in _SAYS_NOTHING_OF_ROOM and self._lags.currsize:
                self._lags.pop(pod.uid, None)
            return verdict
        lag = self._lags.pop(pod.uid, None) or _Lag(self._timer())
        before, pause = lag.disagrees, self._count_try(lag)
        self._lags[pod.uid] = lag
        self._wake_after(pod.group or pod.uid, pause)
        found = disagreement(pod, sent, view=self._view) if lag.disagrees else None
        if found is None:
            return verdict
        if not before:
            _log.warning(
                "kube-scheduler and the extender disagree",
                pod=pod.key,
                group=pod.group,
                node=found.node,
                resources=found.resources,
            )
        return Refuse(Reason.SCHEDULER_DISAGREES, about(pod.group) + found.sentence())

    def _count_try(self, lag: _Lag) -> float:
        """Count one more try that shows the lag; return the seconds until the next one."""
        pause = min(LAG_SECONDS, MOMENT_SECONDS * 2.0 ** min(lag.tries, 32))
        lag.tries += 1
        late = self._timer() - lag.since >= CHECK_SECONDS
        lag.disagrees = lag.disagrees or (late and lag.tries >= TRIES)
        return pause


class PodsSeenOnlyInRequests:
    """Drops pods that only requests have shown, if our watch does not show them soon.

    A pod in a filter request is added to the state so that its gang can be planned at once. If no
    watch shows it in time it was invented, or is gone, and all that was kept for it is given back.
    """

    def __init__(self, cluster: Cluster, *, clock: Clock) -> None:
        self._cluster = cluster
        self._view = cluster.view()
        self._clock = clock
        self._since: dict[str, float] = {}
        """The time when this component first found each pod, by UID and the monotonic clock."""

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("pods-seen-only-in-requests", error)
            await asyncio.sleep(CHECK_SECONDS)

    def look(self) -> None:
        """Drop the pods that no watch has shown in time."""
        now, before = self._clock.monotonic(), self._since
        self._since = {uid: before.get(uid, now) for uid in self._view.seen}
        over = [uid for uid, since in self._since.items() if now - since >= LAG_SECONDS]
        if over:
            _log.warning("pods of requests never came into the watch", pods=len(over))
            self._cluster.apply(ev.SeenEnded(over))
