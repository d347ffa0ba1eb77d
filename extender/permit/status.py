"""The status of groups: the condition in their PodGroup, and their state for explanations."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from cachetools import LRUCache

from extender.gang import status
from extender.gang.verdicts import Remembered
from extender.kube.errors import ApiError
from extender.permit.group_memory import GroupMemory
from extender.permit.hold import WaitingPods
from extender.permit.plans import Plans
from extender.permit.timing import BACK_OFF_SECONDS, CHECK_SECONDS, MOMENT_SECONDS, REMEMBERED
from extender.runtime.clock import Clock
from extender.runtime.controller import WorkQueue
from extender.runtime.faults import FAULTS
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import ConditionInfo, PodGroupInfo
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView

_log = structlog.get_logger(__name__)


class ConditionReporter:
    """Writes the condition of a group a moment after a change, and repeats while it waits."""

    def __init__(
        self,
        cluster: Cluster,
        write: Callable[[PodGroupInfo, ConditionInfo], Awaitable[None]],
        verdicts: GroupMemory,
        *,
        clock: Clock,
    ) -> None:
        self._view = cluster.view()
        self._write = write
        self._verdicts = verdicts
        self._clock = clock
        self._queue: WorkQueue[str] = WorkQueue()
        self._asked: LRUCache[str, None] = LRUCache(REMEMBERED)
        """The groups that kube-scheduler has asked this extender about, not another one."""
        cluster.subscribe(self.on_change)

    def on_change(self, change: ClusterChange) -> None:
        """Queue the groups that a change touched."""
        for group in change.groups:
            self._queue.add_after(group, CHECK_SECONDS)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            group = await self._queue.get()
            try:
                await self._report(group)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this group's alone
                FAULTS.report("permit-reporter", error, key=group)
                self._queue.add_after(group, BACK_OFF_SECONDS)

    async def _report(self, group: str) -> None:
        denied = self._verdicts.last_failure(group)
        if denied is not None or self._view.tally(group).waiting:
            self._asked[group] = None
        condition = status.permitted_condition(
            group,
            view=self._view,
            denied=denied,
            now=self._clock.wall(),
            asked=group in self._asked,
        )
        if self._view.tally(group).waiting:
            self._queue.add_after(group, BACK_OFF_SECONDS)
        pod_group = self._view.pod_group(group)
        if condition is None or pod_group is None:
            return
        try:
            await self._write(pod_group, condition)
        except ApiError as error:
            _log.warning("condition not written", group=group, error=str(error))
            self._queue.add_after(group, BACK_OFF_SECONDS)
        await asyncio.sleep(MOMENT_SECONDS)


class GroupState:
    """Answers what this process remembers of groups: verdicts, plans under way, deadlines."""

    def __init__(
        self,
        view: ClusterView,
        plans: Plans,
        waiting: WaitingPods,
        *,
        stale: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Take `stale`, which returns a kind whose watch is stale, or None."""
        self._view = view
        self._plans = plans
        self._waiting = waiting
        self._stale = stale

    def of(self, group: str) -> Remembered:
        """Return the memory of a group, with times in seconds since the epoch."""
        verdicts, now = self._plans.verdicts, self._plans.clock.wall()
        denied, rest = verdicts.denied(group), verdicts.rest_left(group)
        left = self._waiting.time_left(group)
        return Remembered(
            denied=denied,
            denied_until=now + verdicts.denied_left(group) if denied is not None else None,
            last_failure=verdicts.last_failure(group),
            permitted=verdicts.is_permitted(group),
            is_being_planned=self._plans.planner.is_busy(group),
            rests_until=now + rest if rest else None,
            starts_by=now + left if left is not None else None,
            stale=self._stale(),
        )
