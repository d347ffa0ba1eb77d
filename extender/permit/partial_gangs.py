"""Keeps room for partial gangs: the missing members of a gang that has begun are planned at once.

A gang is partial while some members are bound or being bound, but too few. A member may come late,
or its Binding was lost with the process that wrote it. The room that it needs may still be there,
and the first other pod that kube-scheduler brings must not take it.
"""

import asyncio
from collections.abc import Iterator

from extender.permit.plans import Plans
from extender.permit.timing import PARTIAL_REST, RECOVER_SECONDS
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.store import Cluster


class PartialGangs:
    """Plans partial gangs when the process starts, and whenever one of them changes."""

    def __init__(self, cluster: Cluster, plans: Plans, *, clock: Clock) -> None:
        self._view = cluster.view()
        self._plans = plans
        self._clock = clock
        self._touched: dict[str, None] = {}
        self._changed = asyncio.Event()
        cluster.subscribe(self.on_change)

    def on_change(self, change: ClusterChange) -> None:
        """Queue the partial gangs that a change touched."""
        self._touched.update(dict.fromkeys(filter(self._is_partial, change.groups)))
        if self._touched:
            self._changed.set()

    def recover(self) -> Iterator[None]:
        """Plan the partial gangs; `run` plans those for which there was no time."""
        until, groups = self._clock.monotonic() + RECOVER_SECONDS, iter([*self._view.groups])
        for group in groups:
            yield
            if self._clock.monotonic() >= until:
                self._touched.update(dict.fromkeys((group, *groups)))
                self._changed.set()
                return
            self._plan(group)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            touched, self._touched = self._touched, {}
            for group in touched:
                began = self._clock.monotonic()
                self._plan(group)
                await asyncio.sleep(PARTIAL_REST * (self._clock.monotonic() - began))

    def _is_partial(self, group: str) -> bool:
        tally = self._view.tally(group)
        return group in self._view.queue and bool(tally.bound or tally.binding)

    def _plan(self, group: str) -> None:
        """Keep room for the members that a group lacks, if it is partial and did not just fail."""
        try:
            self._plan_partial(group)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this group's alone
            FAULTS.report("partial-gangs", error, key=group)

    def _plan_partial(self, group: str) -> None:
        """Plan a group; until a scheduler asks us, those of bound members count as asking."""
        pod_group = self._view.pod_group(group)
        if pod_group is None or not self._is_partial(group):
            return
        bound = (self._view.pods[uid] for uid in self._view.tally(group).bound)
        schedulers = self._plans.schedulers or {pod.scheduler for pod in bound}
        if not self._plans.had_no_room(pod_group):
            self._plans.plan_ahead(pod_group, schedulers=schedulers)
