"""Keeps room for groups behind our gate as soon as there is some, in the order of their turns.

The waker then takes the gates away. A group that does not fit is never tried by kube-scheduler, and
costs nobody anything.
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Final, Protocol

from extender.gang.options import Options
from extender.runtime.budget import in_turns
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.state.cluster import Cluster
from extender.state.events import Change
from extender.state.pod_groups import PodGroupInfo
from extender.steps import Steps, at_once

SETTLE_SECONDS: Final = 0.02
EVERY_SECONDS: Final = 1.0
"""Room appears without an event of a group's own: a node, or the end of a window."""
AT_ONCE_SECONDS: Final = 0.02
"""How long one step may take: filter waits meanwhile."""
PAUSE: Final = 9
"""How much longer a pause is than what was spent in vain before it: while pods come and go, groups
that had no room are always worth another look."""


class Memory(Protocol):
    """Remembers which groups fit."""

    def had_no_room(self, pod_group: PodGroupInfo) -> bool:
        """Return whether planning a group is not worth another look yet."""
        ...

    def is_oversized(self, pod_group: PodGroupInfo) -> bool:
        """Return whether no node is large enough for a group."""
        ...

    def plan_ahead(self, pod_group: PodGroupInfo, *, schedulers: Collection[str]) -> float:
        """Keep room for a group if there is some; return how many seconds were spent in vain."""
        ...


class Gatekeeper:
    """Plans what is held back; idle where gates go as soon as a group is complete."""

    def __init__(self, cluster: Cluster, memory: Memory, *, options: Options, clock: Clock) -> None:
        self._snapshot = cluster.snapshot()
        self._memory = memory
        self._options = options
        self._clock = clock
        self._changed = asyncio.Event()
        self._in_vain = 0.0
        if options.hold_back:
            cluster.subscribe(self.on_change)

    def on_change(self, change: Change) -> None:
        """Have the queue looked at soon."""
        del change  # whatever it is, it may have made room
        self._changed.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while self._options.hold_back:
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            self._in_vain = 0.0
            try:
                if await in_turns(self.looking(), self._clock, seconds=AT_ONCE_SECONDS):
                    self._changed.set()
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("gatekeeper", error)
                await asyncio.sleep(EVERY_SECONDS)
            await asyncio.sleep(max(SETTLE_SECONDS, self._in_vain * PAUSE))

    def look(self) -> bool:
        """Do all steps of `looking` at once."""
        return at_once(self.looking())

    def looking(self) -> Steps[bool]:
        """Plan for the groups at the head of the queue; return whether there are more."""
        until, queue = self._clock.monotonic() + AT_ONCE_SECONDS, self._snapshot.queue
        for key in list(queue):
            yield
            pod_group = self._snapshot.pod_group(key)
            if pod_group is None or key not in queue:
                continue
            if self._is_to_be_planned(pod_group):
                if self._clock.monotonic() >= until:
                    return True
                self._plan_ahead(pod_group)
            if self._options.strict_order and not self._is_served(pod_group):
                return False
        return False

    def _plan_ahead(self, pod_group: PodGroupInfo) -> None:
        try:
            self._in_vain += self._memory.plan_ahead(pod_group, schedulers=())
        except Exception as error:  # noqa: BLE001 - the groups behind it have their turn
            FAULTS.report("gatekeeper", error, key=pod_group.key)

    def _is_to_be_planned(self, pod_group: PodGroupInfo) -> bool:
        held_back = self._snapshot.tally(pod_group.key).held_back
        return bool(held_back) and not self._memory.had_no_room(pod_group)

    def _is_served(self, pod_group: PodGroupInfo) -> bool:
        """Return whether others may have their turn after a group."""
        if pod_group.key not in self._snapshot.queue:
            return True
        return self._memory.is_oversized(pod_group)
