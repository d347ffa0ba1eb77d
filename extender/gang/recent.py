"""Memory of recent failures: a group that failed is refused for a while without another look.

The first failure starts the window and later ones do not extend it. A success, a change of the
group or room that may have appeared ends it at once. A group that merely lacks pods never gets
here, so a late sibling is not punished.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cachetools import TTLCache

from extender.gang.verdicts import Refuse

MAX_GROUPS = 100_000


@dataclass(frozen=True, slots=True)
class _Failure:
    verdict: Refuse
    capacity_version: int


class Denied:
    """Groups that failed within the last `window` seconds; a window of 0 remembers nothing."""

    def __init__(self, window: float, timer: Callable[[], float]) -> None:
        self.window = window
        self._failures: TTLCache[str, _Failure] | None = (
            TTLCache(MAX_GROUPS, window, timer) if window > 0 else None
        )

    def add(self, group: str, verdict: Refuse, *, capacity_version: int) -> None:
        """Remember that a group failed, unless an earlier failure still counts."""
        if self._failures is not None and group not in self._failures:
            self._failures[group] = _Failure(verdict, capacity_version)

    def get(self, group: str, *, capacity_version: int) -> Refuse | None:
        """Return the verdict of the failure that still counts, if any."""
        failure = self._failures.get(group) if self._failures is not None else None
        if failure is None:
            return None
        if failure.capacity_version != capacity_version:
            self.discard(group)
            return None
        return failure.verdict

    def recent(self, group: str) -> Refuse | None:
        """Return the verdict of a failure within the window, whatever has changed since."""
        failure = self._failures.get(group) if self._failures is not None else None
        return failure.verdict if failure is not None else None

    def discard(self, group: str) -> None:
        """Forget a group's failure."""
        if self._failures is not None:
            self._failures.pop(group, None)
