"""Notices another writer that keeps undoing what the queue writes into the `suspend` of a job.

Two controllers that both go on would start and stop the job several times a second. The queue
stands back from a job that belongs to a controller it does not know. From any other writer it only
takes its time: a user who unsuspends a job again and again must not get round the queue.
"""

from typing import Final

WRITES: Final = 4
"""Equal writes of `suspend` in a row before another writer is noticed. One is enough where the job
belongs to a controller that the queue does not know."""
WITHIN_SECONDS: Final = 60.0
STAND_BACK_SECONDS: Final = 600.0
DAMPED_SECONDS: Final = 10.0

Key = tuple[str, str]


class Contests:
    """The last writes of `suspend`, by job."""

    def __init__(self) -> None:
        self._writes: dict[Key, tuple[bool, list[float]]] = {}
        """By job: what was written, and when it was stored in a row, without another value."""

    def wrote(self, key: Key, now: float, *, suspend: bool) -> None:
        """Note a write that was stored."""
        value, before = self._writes.get(key, (suspend, []))
        self._writes[key] = suspend, [*(before[1 - WRITES :] if value == suspend else ()), now]

    def pause(self, key: Key, now: float, *, suspend: bool, is_foreign: bool) -> float:
        """Return for how many seconds a write is left out because others undo it."""
        value, at = self._writes.get(key, (not suspend, []))
        if value != suspend:
            return 0.0
        recent = [each for each in at if at[-1] - each <= WITHIN_SECONDS]
        contested = len(recent) >= (1 if is_foreign else WRITES)
        pause = STAND_BACK_SECONDS if is_foreign else DAMPED_SECONDS
        return max(0.0, at[-1] + pause - now) if contested else 0.0

    def forget(self, key: Key) -> None:
        """Forget a job that is gone."""
        self._writes.pop(key, None)
