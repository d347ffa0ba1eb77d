"""Keeps room for groups before kube-scheduler asks for one of their members.

Groups behind our gate are planned as soon as there is room, in the order of their turns; the waker
then removes the gates. kube-scheduler never tries a group that does not fit, so a group that waits
for room costs it nothing.

A gang is partial while some members are bound or being bound, but too few. A member may come late,
or its Binding was lost with the process that wrote it. The room that it needs may still be there,
and the first other pod that kube-scheduler brings must not take it.
"""

import asyncio
from collections.abc import Collection, Iterator
from contextlib import suppress

from extender.permit.plans import Plans
from extender.permit.timing import LATE_SECONDS, LOOK_SECONDS, REST, SLICE_SECONDS
from extender.runtime.clock import in_turns
from extender.runtime.faults import FAULTS
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.store import Cluster
from extender.steps import Steps


class UnaskedPlans:
    """Plans partial gangs when they change, and the gated groups where gates wait for room."""

    def __init__(self, cluster: Cluster, plans: Plans) -> None:
        self._view = cluster.view()
        self._plans = plans
        self._options = plans.verdicts.options
        self._clock = plans.clock
        self._partial: dict[str, None] = {}
        """The partial gangs that have changed."""
        self._changed = asyncio.Event()
        self._in_vain = 0.0
        cluster.subscribe(self.on_change)

    def on_change(self, change: ClusterChange) -> None:
        """Look at the partial gangs that a change touched, and at the queue, soon."""
        self._partial.update(dict.fromkeys(filter(self._is_partial, change.groups)))
        if self._partial or self._options.gate_until_fit:  # any change may have made room
            self._changed.set()

    def recover(self) -> Iterator[None]:
        """Plan the partial gangs; `run` plans those for which there was no time."""
        until, groups = self._clock.monotonic() + LATE_SECONDS, iter([*self._view.groups])
        for group in groups:
            yield
            if self._clock.monotonic() >= until:
                self._partial.update(dict.fromkeys((group, *groups)))
                self._changed.set()
                return
            self._plan_partial(group)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS if self._options.gate_until_fit else None):
                    await self._changed.wait()
            self._changed.clear()
            self._in_vain = 0.0
            try:
                if await in_turns(self.looking(), self._clock, seconds=SLICE_SECONDS):
                    self._changed.set()
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("unasked-plans", error)
                await asyncio.sleep(LOOK_SECONDS)
            await asyncio.sleep(max(SLICE_SECONDS, self._in_vain * REST))

    def looking(self) -> Steps[bool]:
        """Plan the partial gangs, and the first gated groups; return whether there are more."""
        until = self._clock.monotonic() + SLICE_SECONDS
        while self._partial:
            group = next(iter(self._partial))
            del self._partial[group]
            self._plan_partial(group)
            yield
        for key in [*self._view.queue] if self._options.gate_until_fit else ():
            yield
            pod_group = self._view.pod_group(key)
            if pod_group is None or key not in self._view.queue:
                continue
            if self._view.tally(key).gated_by_us and not self._plans.had_no_room(pod_group):
                if self._clock.monotonic() >= until:
                    return True
                self._plan(pod_group, ())
            is_first = key in self._view.queue and self._plans.verdicts.never_fits(key) is None
            if self._options.strict_order and is_first:
                return False
        return False

    def _is_partial(self, group: str) -> bool:
        tally = self._view.tally(group)
        return group in self._view.queue and bool(tally.bound or tally.binding)

    def _plan_partial(self, group: str) -> None:
        """Keep room for the members that a group lacks, if it is partial and did not just fail.

        Until a scheduler asks us, those of bound members count as asking.
        """
        pod_group = self._view.pod_group(group)
        if pod_group is None or not self._is_partial(group):
            return
        bound = (self._view.pods[uid] for uid in self._view.tally(group).bound)
        schedulers = self._plans.schedulers or {pod.scheduler for pod in bound}
        if not self._plans.had_no_room(pod_group):
            self._plan(pod_group, schedulers)

    def _plan(self, pod_group: PodGroupInfo, schedulers: Collection[str]) -> None:
        try:
            self._in_vain += self._plans.plan_ahead(pod_group, schedulers=schedulers)
        except Exception as error:  # noqa: BLE001 - the groups behind it have their turn
            FAULTS.report("unasked-plans", error, key=pod_group.key)
