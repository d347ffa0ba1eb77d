"""Keeps room for groups behind our gate as soon as there is some, in the order of their turns.

The waker then removes the gates. kube-scheduler never tries a group that does not fit, so a group
that waits for room costs it nothing.
"""

import asyncio
from contextlib import suppress

from extender.gang.options import GangOptions
from extender.permit.plans import Plans
from extender.permit.timing import (
    GATES_EVERY_SECONDS,
    GATES_SETTLE_SECONDS,
    GATES_SLICE_SECONDS,
    REST,
)
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import in_turns
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.store import Cluster
from extender.steps import Steps


class Gatekeeper:
    """Plans groups behind our gate; idle if gates are removed once a group is complete."""

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
        del change  # any change may have made room
        self._changed.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while self._options.gate_until_fit:
            with suppress(TimeoutError):
                async with asyncio.timeout(GATES_EVERY_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            self._in_vain = 0.0
            try:
                if await in_turns(self.looking(), self._clock, seconds=GATES_SLICE_SECONDS):
                    self._changed.set()
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("gatekeeper", error)
                await asyncio.sleep(GATES_EVERY_SECONDS)
            await asyncio.sleep(max(GATES_SETTLE_SECONDS, self._in_vain * REST))

    def looking(self) -> Steps[bool]:
        """Plan for the groups at the head of the queue; return whether there are more."""
        until, queue = self._clock.monotonic() + GATES_SLICE_SECONDS, self._view.queue
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
        """Return whether the groups behind this one may have their turn."""
        if pod_group.key not in self._view.queue:
            return True
        return self._plans.is_oversized(pod_group)
