"""Keeps room for groups before kube-scheduler asks for one of their members.

`GatedGroups` plans the groups behind our gate as soon as there is room, in the order of their
turns; the waker then removes the gates. kube-scheduler never tries a group that does not fit, so a
group that waits for room costs it nothing.

`PartialGangs` plans the missing members of a gang that has begun. A gang is partial while some
members are bound or being bound, but too few. A member may come late, or its Binding was lost with
the process that wrote it. The room that it needs may still be there, and the first other pod that
kube-scheduler brings must not take it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from extender.permit.plans import Plans
from extender.permit.timing import LATE_SECONDS, LOOK_SECONDS, REST, SLICE_SECONDS, TRIES
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import in_turns
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.store import Cluster
from extender.steps import Steps


class GatedGroups:
    """Plans groups behind our gate; idle if gates are removed once a group is complete."""

    def __init__(self, cluster: Cluster, plans: Plans) -> None:
        self._view = cluster.view()
        self._plans = plans
        self._options = plans.verdicts.options
        self._clock = plans.clock
        self._changed = asyncio.Event()
        self._in_vain = 0.0
        if self._options.gate_until_fit:
            cluster.subscribe(self.on_change)

    def on_change(self, change: ClusterChange) -> None:
        """Look at the queue soon."""
        del change  # any change may have made room
        self._changed.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while self._options.gate_until_fit:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            self._in_vain = 0.0
            try:
                if await in_turns(self.looking(), self._clock, seconds=SLICE_SECONDS):
                    self._changed.set()
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("gated-groups", error)
                await asyncio.sleep(LOOK_SECONDS)
            await asyncio.sleep(max(SLICE_SECONDS, self._in_vain * REST))

    def looking(self) -> Steps[bool]:
        """Plan for the groups at the head of the queue; return whether there are more."""
        until, queue = self._clock.monotonic() + SLICE_SECONDS, self._view.queue
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
            FAULTS.report("gated-groups", error, key=pod_group.key)

    def _is_to_be_planned(self, pod_group: PodGroupInfo) -> bool:
        gated_by_us = self._view.tally(pod_group.key).gated_by_us
        return bool(gated_by_us) and not self._plans.had_no_room(pod_group)

    def _is_served(self, pod_group: PodGroupInfo) -> bool:
        """Return whether the groups behind this one may have their turn."""
        if pod_group.key not in self._view.queue:
            return True
        return self._plans.verdicts.never_fits(pod_group.key) is not None


class PartialGangs:
    """Plans partial gangs when the process starts, and whenever one of them changes."""

    def __init__(self, cluster: Cluster, plans: Plans) -> None:
        self._view = cluster.view()
        self._plans = plans
        self._clock = plans.clock
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
        until, groups = self._clock.monotonic() + LATE_SECONDS, iter([*self._view.groups])
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
                await asyncio.sleep(TRIES * (self._clock.monotonic() - began))

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
