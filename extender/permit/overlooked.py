"""Tries pods again that wait and that nothing has woken: a net under everything that wakes pods.

Room comes, and with it the moment to try a refused pod again, in many ways, and kube-scheduler may
know of it before we do. What one of these ways misses would wait for the flush of kube-scheduler's
queue, which comes after five minutes. Here one group and one pod have a try every ten seconds.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from extender.gang.wake import Shares, missed_wakeups
from extender.permit.plans import Plans
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import in_turns
from extender.state.cluster.records import Refusal
from extender.state.cluster.store import Cluster
from extender.steps import Steps

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
        self._served: dict[tuple[bool, str], float] = {}
        """The same by namespace, of groups and of other pods."""
        self._shares = Shares()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            try:
                await in_turns(self.looking(), self._plans.clock)
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("overlooked", error)

    def looking(self) -> Steps[None]:
        """Have one group and one pod without a group tried again that wait since the last look."""
        steps = missed_wakeups(self._view, self._shares, has_no_room=self._has_no_room)
        before, self._before = self._before, (yield from steps)
        there = {(now.pod.group is not None, now.pod.namespace) for now in self._before.values()}
        self._served = {key: at for key, at in self._served.items() if key in there}
        self._tried = {key: at for key, at in self._tried.items() if key in self._before}
        still = [(key, now) for key, now in self._before.items() if before.get(key) is now]
        for in_group in (True, False):
            keys = [key for key, now in still if (now.pod.group is not None) is in_group]
            self._try_one(keys, in_group=in_group)

    def _try_one(self, keys: Sequence[str], *, in_group: bool) -> None:
        """Have the one tried again that had its last try longest ago, its namespace first."""
        now, never = self._plans.clock.monotonic(), float("-inf")

        def last(key: str) -> tuple[float, float]:
            namespace = self._before[key].pod.namespace
            return self._served.get((in_group, namespace), never), self._tried.get(key, never)

        due = [key for key in keys if now - self._tried.get(key, never) >= AGAIN_SECONDS]
        key = min(due, key=last, default=None)
        if key is None:
            return
        self._tried[key] = self._served[in_group, self._before[key].pod.namespace] = now
        _log.debug("a pod is tried again that nothing has woken", key=key)
        self._wake(self._before[key].pod.uid)

    def _has_no_room(self, group: str) -> bool:
        return self._plans.planner.is_busy(group) or self._plans.verdicts.has_no_room(group)
