"""Tries pods again that wait and that nothing has woken: a net under everything that wakes pods.

Room comes, and with it the moment to try a refused pod again, in many ways, and kube-scheduler may
know of it before we do. What one of these ways misses would wait for the flush of kube-scheduler's
queue, which comes after five minutes. Here one group and one pod have a try every ten seconds.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from extender.gang import overlooked
from extender.permit.plans import Plans
from extender.runtime.faults import FAULTS
from extender.state.cluster.records import Refusal
from extender.state.cluster.store import Cluster

EVERY_SECONDS: Final = 10.0
"""Between two looks. What is found by two of them, unchanged, is tried again."""
AGAIN_SECONDS: Final = 60.0
"""Until one has another try, at least: the others have theirs before."""

_log = structlog.get_logger(__name__)


class Overlooked:
    """Looks every ten seconds; `wake` has a pod tried again, by its UID."""

    def __init__(self, cluster: Cluster, plans: Plans, *, wake: Callable[[str], None]) -> None:
        self._view = cluster.view()
        self._plans = plans
        self._wake = wake
        self._before: dict[str, Refusal] = {}
        """What the last look found."""
        self._tried: dict[str, float] = {}
        """When each of these had its last try from here."""

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("overlooked", error)

    def look(self) -> None:
        """Have one group and one pod without a group tried again that wait since the last look."""
        before, self._before = self._before, self._find()
        self._tried = {key: at for key, at in self._tried.items() if key in self._before}
        still = [(key, now) for key, now in self._before.items() if before.get(key) is now]
        for in_group in (True, False):
            keys = [key for key, now in still if (now.pod.group is not None) is in_group]
            self._try_one(keys)

    def _try_one(self, keys: Sequence[str]) -> None:
        """Have the one tried again that had its last try longest ago."""
        now, never = self._plans.clock.monotonic(), float("-inf")
        key = min(keys, key=lambda key: self._tried.get(key, never), default=None)
        if key is None or now - self._tried.get(key, never) < AGAIN_SECONDS:
            return
        self._tried[key] = now
        _log.debug("a pod is tried again that nothing has woken", key=key)
        self._wake(self._before[key].pod.uid)

    def _find(self) -> dict[str, Refusal]:
        return overlooked.find(self._view, has_no_room=self._has_no_room)

    def _has_no_room(self, group: str) -> bool:
        return self._plans.planner.is_busy(group) or self._plans.verdicts.has_no_room(group)
