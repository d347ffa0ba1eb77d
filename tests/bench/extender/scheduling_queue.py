"""The scheduling queue of kube-scheduler: pods that are tried now, later, or after an event.

A pod that an extender refused is moved by every event of the cluster. It waits for its backoff, but
only while there are others to try: since 1.33 (`SchedulerPopFromBackoffQ`) kube-scheduler takes it
at once where no other waits. A pod whose cycle failed waits for its backoff in any case, and no
event moves it.
"""

import heapq
from collections import Counter
from collections.abc import Callable
from typing import Final

FIRST_BACKOFF: Final = 1.0
LONGEST_BACKOFF: Final = 10.0

_Waiting = tuple[float, float, int]
"""What orders pods, since when each waits, and its number."""


class SchedulingQueue:
    """Pods by number; the one that waits longest goes first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._active: list[_Waiting] = []
        self._backoff: list[_Waiting] = []
        """When each may be tried, and since when it waits."""
        self._failed: list[_Waiting] = []
        """The same of pods whose cycle failed."""
        self._unschedulable: dict[int, float] = {}
        """Since when each waits for an event."""
        self._attempts: Counter[int] = Counter()
        self._gone: set[int] = set()
        self._events = 0
        self._seen: dict[int, int] = {}
        """The events that there were when a pod was tried."""

    def add(self, number: int) -> None:
        """Add a pod that is new."""
        heapq.heappush(self._active, (self._clock(), 0.0, number))

    def remove(self, number: int) -> None:
        """Forget a pod for good: it has a node."""
        self._gone.add(number)
        self._unschedulable.pop(number, None)

    def has(self, number: int) -> bool:
        """Return whether a pod may still be tried."""
        return number not in self._gone

    def pop(self) -> int | None:
        """Return the pod to try now, if there is one."""
        now = self._clock()
        for waiting in (self._backoff, self._failed):
            while waiting and waiting[0][0] <= now:
                _, since, number = heapq.heappop(waiting)
                heapq.heappush(self._active, (since, 0.0, number))
        while self._active or self._backoff:
            _, _, number = heapq.heappop(self._active or self._backoff)
            if number not in self._gone:
                self._attempts[number] += 1
                self._seen[number] = self._events
                return number
        return None

    def seconds(self) -> float | None:
        """Return when the next pod may be tried, None where that takes an event."""
        if self._active or self._backoff:
            return 0.0
        return max(0.0, self._failed[0][0] - self._clock()) if self._failed else None

    def refuse(self, number: int) -> None:
        """Put a pod back that was tried in vain."""
        now = self._clock()
        if self._seen[number] != self._events:
            self._back_off(self._backoff, number, now)
        else:
            self._unschedulable[number] = now

    def fail(self, number: int) -> None:
        """Put a pod back whose cycle failed."""
        self._back_off(self._failed, number, self._clock())

    def move(self) -> None:
        """Note an event of the cluster: every refused pod is tried again."""
        self._events += 1
        moved, self._unschedulable = self._unschedulable, {}
        for number, since in moved.items():
            self._back_off(self._backoff, number, since)

    def wake(self, number: int) -> None:
        """Note that a pod itself has changed."""
        since = self._unschedulable.pop(number, None)
        if since is not None:
            self._back_off(self._backoff, number, since)

    def _back_off(self, waiting: list[_Waiting], number: int, since: float) -> None:
        pause = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2 ** (self._attempts[number] - 1))
        heapq.heappush(waiting, (since + pause, since, number))
