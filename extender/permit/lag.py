"""How long our watch may be behind kube-scheduler's before the two count as disagreeing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from cachetools import TTLCache

from extender.api.reasons import Reason
from extender.gang.filter import disagreement
from extender.gang.verdicts import FilterVerdict, Refuse, about
from extender.permit.verdicts import MAX_GROUPS
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView

_log = structlog.get_logger(__name__)

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 30.0
"""A watch that is behind catches up in milliseconds; what does not change is seldom asked again."""
PATIENCE_SECONDS: Final = 5.0
"""No watch that works is behind for so long."""
LEAST_TRIES: Final = 3
_FORGOTTEN_AFTER: Final = 600.0
_SAYS_NOTHING_OF_ROOM: Final = frozenset((Reason.PLANNING, Reason.CACHE_STALE))


@dataclass(slots=True)
class _Lag:
    since: float
    tries: int = 0
    disagrees: bool = False


class Lags:
    """Pods, by UID, for which kube-scheduler sees room that is not known here."""

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
        self._lags: TTLCache[str, _Lag] = TTLCache(MAX_GROUPS, _FORGOTTEN_AFTER, timer)

    @property
    def disagreements(self) -> int:
        """How many of them have lasted longer than a watch is behind."""
        self._lags.expire()
        return sum(lag.disagrees for lag in self._lags.values())

    @property
    def is_behind(self) -> bool:
        """Whether kube-scheduler sees room for some pod that our watch has yet to show."""
        pods = self._view.pods
        return any(uid in pods and not lag.disagrees for uid, lag in self._lags.items())

    def unless_it_lasts(
        self, verdict: FilterVerdict, pod: PodInfo, sent: Sequence[str]
    ) -> FilterVerdict:
        """Return what the two disagree on where they have for longer than a watch is behind."""
        reason = verdict.reason if isinstance(verdict, Refuse) else None
        if reason is not Reason.CACHE_BEHIND:
            if reason not in _SAYS_NOTHING_OF_ROOM and self._lags.currsize:
                self._lags.pop(pod.uid, None)
            return verdict
        lag = self._lags.pop(pod.uid, None) or _Lag(self._timer())
        before, pause = lag.disagrees, self._again(lag)
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

    def _again(self, lag: _Lag) -> float:
        """Count that it is so once more; return after how many seconds to look again."""
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(lag.tries, 32))
        lag.tries += 1
        late = self._timer() - lag.since >= PATIENCE_SECONDS
        lag.disagrees = lag.disagrees or (late and lag.tries >= LEAST_TRIES)
        return pause
