"""Finds other hosts for admitted workloads whose hosts are gone.

`run` finds the workloads. What becomes of them is decided between two admission cycles, in
`replace`, on the same nodes: no cycle gives away what was chosen here, nor the other way around.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from extender.api.reasons import HostReason
from extender.api.wellknown import WorkloadCondition
from extender.controllers.workload_writer import Workloads, event
from extender.jobs.workload import pod_group_key
from extender.kube.errors import ApiError
from extender.kube.recorder import Event
from extender.queueing.admission import ROOM_PERIOD
from extender.queueing.lost_hosts import (
    HELD,
    HostRules,
    HostStep,
    LostAt,
    concerns,
    hosts_gone,
    is_fixed,
    lost_at,
    lost_of,
    stands,
    with_others,
    without_others,
)
from extender.room.nodes import NodeRoom
from extender.room.pods import members
from extender.room.replacing import are_on
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import Pacer
from extender.state.cluster.view import ClusterView
from extender.state.queue import events
from extender.state.queue.records import Assignment, WorkloadInfo
from extender.state.queue.store import Queues
from extender.steps import at_once

_log = structlog.get_logger(__name__)
_LACKS: Final = WorkloadCondition.HOSTS_LOST
PERIOD: Final = 1.0
"""Seconds between two looks at the nodes, and before a workload that lacks hosts is tried again
where something about the nodes has changed. Without a change that is `ROOM_PERIOD`."""


@dataclass(frozen=True, slots=True)
class _Tried:
    """The last search for other hosts, and the time of the next."""

    at: float
    again: float
    room: int
    """The version of the room that was there."""


class LostHosts:
    """Looks at hosts of all admitted workloads."""

    def __init__(  # noqa: PLR0913 - all that its decisions and writes need
        self,
        queues: Queues,
        cluster: ClusterView,
        *,
        workloads: Workloads,
        room: NodeRoom,
        record: Callable[[Event], None],
        clock: Clock,
        rules: HostRules,
    ) -> None:
        self._queues, self._view, self._cluster = queues, queues.view(), cluster
        self._workloads, self._room = workloads, room
        self._record, self._clock, self._rules = record, clock, rules
        self._pacer = Pacer(clock)
        self.wake: Callable[[], None] = lambda: None
        """Has `replace` called soon."""
        self._known: LostAt = {}
        self._version = -1
        self._waiting: dict[str, _Tried] = {}
        """Workloads that lack some."""
        self._due: set[str] = set()

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            try:
                await self._pacer.go_through(self.look())
            except Exception as error:  # noqa: BLE001 - the next look is a new one
                FAULTS.report("lost-hosts", error)
            if self._due:
                self.wake()
            await asyncio.sleep(PERIOD)

    def look(self) -> Iterator[None]:
        """Find the workloads that lack hosts, one at a step."""
        now = self._clock.wall()
        self._read_hosts()
        yield
        for key in [*self._view.holders()]:
            self._look_at(key, now)
            yield
        for key in [*self._waiting]:
            if self._view.admission(key) is None:
                del self._waiting[key]

    def _read_hosts(self) -> None:
        """Read which hosts there are, if any node has changed."""
        if self._version != self._cluster.nodes_version:
            self._version = self._cluster.nodes_version
            self._known = lost_at(self._cluster.nodes.values())

    def _look_at(self, key: str, now: float) -> None:
        workload = self._view.workloads.get(key)
        if workload is None or self._view.is_assumed(key) or not concerns(workload):
            return
        lost, lacks = lost_of(workload, self._known, now), workload.holds(_LACKS)
        if not lost and not lacks:
            self._waiting.pop(key, None)
            return
        tried = self._waiting.get(key)
        news = tried is not None and tried.room != self._cluster.capacity_version
        if (
            tried is None
            or not lost
            or now >= (tried.at + PERIOD if lacks and news else tried.again)
        ):
            self._due.add(key)

    async def replace(self, tasks: asyncio.TaskGroup) -> None:
        """Decide about the workloads that were found, and begin to write that."""
        due, self._due = self._due, set()
        if not due:
            return
        self._room.begin()
        await self._pacer.go_through(self._room.prepare())
        for key in sorted(due):
            try:
                self._room.look_again()
                self._replace(key, tasks)
            except Exception as error:  # noqa: BLE001 - the others are still looked at
                FAULTS.report("lost-hosts", error, key=key)
                self._wait(key, ROOM_PERIOD)
            if self._pacer.is_due:
                await self._pacer.rest()

    def _replace(self, key: str, tasks: asyncio.TaskGroup) -> None:
        workload, now = self._view.workloads.get(key), self._clock.wall()
        if workload is None or not concerns(workload) or self._view.is_assumed(key):
            return
        self._read_hosts()
        lost = lost_of(workload, self._known, now)
        step = self._step(workload, lost, now)
        pause = ROOM_PERIOD if step.again is None else max(PERIOD, min(ROOM_PERIOD, step.again))
        self._wait(key, pause)
        if step.after != workload:
            given = step.after.admission
            if given is not None and given != workload.admission:
                self._queues.apply(events.Assumed(key, given))
            tasks.create_task(self._write(workload, step))

    def _wait(self, key: str, seconds: float) -> None:
        now = self._clock.wall()
        self._waiting[key] = _Tried(now, now + seconds, self._cluster.capacity_version)

    def _step(self, workload: WorkloadInfo, lost: frozenset[str], now: float) -> HostStep:
        """Return what becomes of a workload; asked in one go, for a slow answer may be too old."""
        held = workload.admission
        assert held is not None
        concerned = [e for e in held.assignments if e.topology and are_on(e.topology, lost)]
        if any(is_fixed(workload, each, self._cluster) for each in concerned):
            found: Sequence[Assignment] | str = HELD
        else:
            found = at_once(self._room.replacing(workload, held.assignments, lost))
        if not isinstance(found, str):
            return with_others(workload, found, lost)
        there = members(workload, queues=self._view, cluster=self._cluster)
        return without_others(
            workload,
            f"{hosts_gone(lost)}, and {found}",
            begun=any(stands(pod, self._cluster) for pod in there),
            pod_group=self._cluster.pod_group(pod_group_key(workload)),
            now=now,
            rules=self._rules,
        )

    async def _write(self, before: WorkloadInfo, step: HostStep) -> None:
        given = step.after.admission
        try:
            await self._workloads.write_status(before, step.after)
        except ApiError as error:
            _log.info("hosts of a workload are not written", workload=before.key, error=str(error))
        except Exception as error:  # noqa: BLE001 - it harms this workload alone
            FAULTS.report("lost-hosts", error, key=before.key)
        else:
            if step.reason:
                warning = step.reason != HostReason.REPLACED
                self._record(event(before, step.reason, step.message, warning=warning))
            return
        self._wait(before.key, PERIOD)
        if given is not None:
            self._queues.apply(events.Forgotten(before.key, given))
