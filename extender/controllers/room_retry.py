"""When workloads with quota but without room on nodes are tried again."""

import asyncio
from collections.abc import Callable
from typing import Final

from extender.queueing.pending import PendingQueues
from extender.runtime.faults import FAULTS

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 2.0
PAUSE_PER_SWEEP: Final = 5
"""How many times the duration of the last sweep to pause, between these limits."""
PERIOD: Final = 10.0
"""Seconds after which they are tried in any case."""


class RoomRetry:
    """Requeues workloads that lack room, some time after the nodes have changed.

    A sweep is the cycles in which each of them is tried once. It may ask all nodes for each
    workload, so the pause before the next sweep grows with what the last one took.
    """

    def __init__(self, pending: PendingQueues, wake: Callable[[], object]) -> None:
        self._pending, self._wake = pending, wake
        self._timer: asyncio.TimerHandle | None = None
        self._sweep_seconds = 0.0

    def add_sweep_time(self, seconds: float) -> None:
        """Count the duration of a cycle that was part of a sweep."""
        self._sweep_seconds += seconds

    def on_change(self) -> None:
        """Try soon: something about the nodes has changed."""
        pause = min(LONGEST_PAUSE, PAUSE_PER_SWEEP * self._sweep_seconds)
        self.try_within(max(FIRST_PAUSE, pause))

    def try_within(self, seconds: float = PERIOD) -> None:
        """Try after so many seconds at the latest."""
        if not self._pending.lacks_capacity:
            return
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._try)

    def _try(self) -> None:
        self._timer = None
        try:
            if self._pending.sweep():
                self._sweep_seconds = 0.0
            else:
                self.on_change()
        except Exception as error:  # noqa: BLE001 - the cycle sets the next time to try
            FAULTS.report("room-retry", error)
        self._wake()
