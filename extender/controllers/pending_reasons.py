"""Writes to each waiting workload why it waits.

These writes matter least, so they come last: one at a time, at a pace, and only when the reason
has changed.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

import structlog

from extender.api.reasons import Unadmitted
from extender.api.wellknown import WorkloadCondition
from extender.controllers.timing import LATE, LOOK_AGAIN, SETTLE, WATCH_LAG
from extender.controllers.workload_writer import Workloads, event
from extender.kube.errors import ApiError, RefusedError
from extender.kube.recorder import Event
from extender.queueing import transitions
from extender.queueing.cycle import NotAdmitted
from extender.queueing.pending import PendingQueues
from extender.room.nodes import NodeRoom
from extender.runtime.clock import Clock
from extender.runtime.controller import WorkQueue
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import Pacer
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.view import QueueView

_log = structlog.get_logger(__name__)

FIRST_DELAY: Final = 0.5
"""Seconds that a workload waits before its reason is written: most are admitted by then."""
PAUSE: Final = 0.02
"""Seconds between two writes, where no admission waits to be written."""
_BEHIND: Final = "Another workload is before it, and its ClusterQueue is StrictFIFO"


class PendingReasons:
    """Knows why each workload waits, and writes it behind all other writes."""

    def __init__(
        self,
        workloads: Workloads,
        view: QueueView,
        pending: PendingQueues,
        *,
        record: Callable[[Event], None],
        clock: Clock,
        pacer: Pacer,
    ) -> None:
        self._workloads, self._view, self._pending = workloads, view, pending
        self._record, self._clock, self._pacer = record, clock, pacer
        self.admissions_wait: Callable[[], bool] = lambda: False
        """Tells whether admissions wait to be written."""
        self.room: NodeRoom | None = None
        """Keeps room for workloads that have waited long; None if no room is ever kept."""
        self._waits: dict[str, NotAdmitted] = {}
        self._unwritten: WorkQueue[str] = WorkQueue()

    def reason_of(self, key: str) -> tuple[str, str] | None:
        """Return the reason and message that the last cycle gave for a waiting workload."""
        wait = self._waits.get(key)
        return (wait.reason, self._message(wait)) if wait else None

    def all(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield the workloads that wait now, each with its `reason_of` at that time."""
        return (
            (key, found) for key in [*self._waits] if (found := self.reason_of(key)) is not None
        )

    def note(self, wait: NotAdmitted) -> None:
        """Keep why a workload waits, and write it after a delay."""
        self._waits[wait.workload] = wait
        workload = self._view.workloads.get(wait.workload)
        written = _is_written(workload, wait.reason)
        self._unwritten.add_after(wait.workload, WATCH_LAG if written else FIRST_DELAY)

    def note_room(self, keys: Iterable[str]) -> None:
        """Write soon of these workloads whether room is kept for them."""
        for key in keys:
            if key in self._waits:
                self._unwritten.add_after(key, FIRST_DELAY)

    def forget(self, key: str) -> None:
        """Forget a workload that is admitted or gone."""
        self._waits.pop(key, None)

    async def run(self) -> None:
        """Write reasons until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._write_all())
            tasks.create_task(self._note_all_followers())

    async def _write_all(self) -> None:
        while True:
            key, wrote = await self._unwritten.get(), True
            try:
                wrote = await self._write(key)
            except Exception as error:  # noqa: BLE001 - the other reasons are still written
                FAULTS.report("admission-reasons", error, key=key)
            if wrote:
                await asyncio.sleep(LOOK_AGAIN if self.admissions_wait() else PAUSE)

    async def _write(self, key: str) -> bool:
        """Write the reason of one workload; return whether a request was made."""
        wait, before = self._waits.get(key), self._view.workloads.get(key)
        if wait is None or before is None or self._view.admission(key) is not None:
            self.forget(key)
            return False
        now, message, written = (
            self._clock.wall(),
            self._message(wait),
            _is_written(before, wait.reason),
        )
        after = transitions.waiting(before, wait.reason, message, now=now)
        after = transitions.with_gates(after, wait.reason, message, blocked=wait.gated, now=now)
        kept, held = self._kept(key), before.holds(WorkloadCondition.ROOM_RESERVED)
        if self.room is None:
            after = transitions.without(after, WorkloadCondition.ROOM_RESERVED)
        elif kept is not None or held or wait.reason == Unadmitted.WAITING_FOR_ROOM:
            after = transitions.waiting_for_room(after, kept, now=now)
        if written and _says_all(before, after):
            return False
        try:
            await self._workloads.write_status(before, after)
        except ApiError as error:
            refused = isinstance(error, RefusedError)
            log = _log.warning if refused else _log.debug
            log("could not write why it waits", workload=key, error=str(error))
            self._unwritten.add_after(key, LATE if refused else LOOK_AGAIN)
            return True
        if not written:
            self._record(event(before, wait.reason, message, warning=True))
        if kept is not None and not held:
            self._record(
                event(before, WorkloadCondition.ROOM_RESERVED, transitions.kept_text(kept))
            )
        return True

    def _kept(self, key: str) -> tuple[int, int] | None:
        return self.room.kept_for(key) if self.room is not None else None

    def _message(self, wait: NotAdmitted) -> str:
        kept = self._kept(wait.workload)
        return wait.message if kept is None else f"{wait.message}; {transitions.kept_text(kept)}"

    async def _note_all_followers(self) -> None:
        """Repeat: give workloads that were not tried the reason of the equal one before them."""
        while True:
            await asyncio.sleep(SETTLE)
            try:
                await self._note_followers()
            except Exception as error:  # noqa: BLE001 - the next round begins anew
                FAULTS.report("admission-reasons", error)

    async def _note_followers(self) -> None:
        for queue, head in [*self._pending.blocking_heads()]:
            for *_, key in self._pending.queue(queue).orders():
                if key != head and key not in self._waits:
                    self.note(NotAdmitted(key, Unadmitted.PENDING_EVALUATION, _BEHIND))
                if self._pacer.is_due:
                    await self._pacer.rest()
        for key, tried in self._pending.followers():
            known = key in self._waits or tried not in self._waits
            if not known and self._pending.is_inadmissible(key):
                self.note(replace(self._waits[tried], workload=key))
            if self._pacer.is_due:
                await self._pacer.rest()


def _is_written(workload: WorkloadInfo | None, reason: str) -> bool:
    known = workload.condition(WorkloadCondition.QUOTA_RESERVED) if workload is not None else None
    return known is not None and (known.status, known.reason) == ("False", reason)


def _says_all(before: WorkloadInfo, after: WorkloadInfo) -> bool:
    """Return whether the conditions say nothing new.

    A change in the message alone counts only for reasons about room on nodes.
    """
    of_nodes = {Unadmitted.WAITING_FOR_ROOM, Unadmitted.TOPOLOGY_PLACEMENT_FAILED}
    one, other = (
        {
            (each.type, each.status, each.message if each.reason in of_nodes else each.reason)
            for each in workload.conditions
        }
        for workload in (before, after)
    )
    return one == other
