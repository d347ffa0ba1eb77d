"""Keeps room for groups behind our gate as soon as there is some, in the order of their turns.

The waker then takes the gates away. kube-scheduler never tries a group that does not fit,
so that such a group costs nothing.
"""

import asyncio
from contextlib import suppress
from typing import Final

from extender.gang.options import GangOptions
from extender.permit.plans import Plans
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import in_turns
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.store import Cluster
from extender.steps import Steps

SETTLE_SECONDS: Final = 0.02
EVERY_SECONDS: Final = 1.0
"""Room appears without an event of a group's own: a node, or the end of a window."""
AT_ONCE_SECONDS: Final = 0.02
"""How long one step may take: filter waits meanwhile."""
PAUSE: Final = 9
"""How much longer a pause is than what was spent in vain before it: while pods come and go, groups
that had no room are always worth another look."""


class Gatekeeper:
    """Plans what is held back; idle where gates go as soon as a group is complete."""

    def __init__(
        self, cluster: Cluster, plans: Plans, *, options: GangOptions, clock: Clock
    ) -> None:
        self._view = cluster.view()
        self._plans = plans
        self._options = options
        self._clock = clock
        self._changed = asyncio.Event()
        self._in_vain = 0.0
        if options.gate_until_fit:
            cluster.subscribe(self.on_change)

    def on_change(self, change: ClusterChange) -> None:
        """Look at the queue soon."""
        del change  # whatever it is, it may have made room
        self._changed.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while self._options.gate_until_fit:
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

    def looking(self) -> Steps[bool]:
        """Plan for the groups at the head of the queue; return whether there are more."""
        until, queue = self._clock.monotonic() + AT_ONCE_SECONDS, self._view.queue
        for key in list(queue):
            yield
            pod_group = self._view.pod_group(key)
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
            self._in_vain += self._plans.plan_ahead(pod_group, schedulers=())
        except Exception as error:  # noqa: BLE001 - the groups behind it have their turn
            FAULTS.report("gatekeeper", error, key=pod_group.key)

    def _is_to_be_planned(self, pod_group: PodGroupInfo) -> bool:
        gated_by_us = self._view.tally(pod_group.key).gated_by_us
        return bool(gated_by_us) and not self._plans.had_no_room(pod_group)

    def _is_served(self, pod_group: PodGroupInfo) -> bool:
        """Return whether others may have their turn after a group."""
        if pod_group.key not in self._view.queue:
            return True
        return self._plans.is_oversized(pod_group)
