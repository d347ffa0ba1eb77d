"""How long our watch may be behind kube-scheduler's before the two are said to disagree."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cachetools import TTLCache

from extender.gang.recent import MAX_GROUPS

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 30.0
"""A watch that is behind catches up in milliseconds; what does not change is seldom asked again."""
PATIENCE_SECONDS: Final = 5.0
"""No watch that works is behind for so long."""
LEAST_TRIES: Final = 3
_FORGOTTEN_AFTER: Final = 600.0


@dataclass(slots=True)
class _Lag:
    since: float
    tries: int = 0
    disagrees: bool = False


class Lags:
    """Pods, by UID, for which kube-scheduler sees room that is not known here."""

    def __init__(self, timer: Callable[[], float]) -> None:
        self._timer = timer
        self._lags: TTLCache[str, _Lag] = TTLCache(MAX_GROUPS, _FORGOTTEN_AFTER, timer)

    @property
    def disagreements(self) -> int:
        """How many of them have lasted longer than a watch is behind."""
        self._lags.expire()
        return sum(lag.disagrees for lag in self._lags.values())

    def seen(self, key: str) -> float:
        """Take note that it is so once more; return after how many seconds to look again."""
        lag = self._lags.pop(key, None) or _Lag(self._timer())
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(lag.tries, 32))
        lag.tries += 1
        late = self._timer() - lag.since >= PATIENCE_SECONDS
        lag.disagrees = lag.disagrees or (late and lag.tries >= LEAST_TRIES)
        self._lags[key] = lag
        return pause

    def disagrees(self, key: str) -> bool:
        """Return whether it has been so for longer than a watch is behind."""
        lag = self._lags.get(key)
        return lag is not None and lag.disagrees

    def over(self, key: str) -> None:
        """Take note that it is so no more."""
        if self._lags.currsize:
            self._lags.pop(key, None)
