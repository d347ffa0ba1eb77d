"""Runs admission cycles, the loop around `queueing.cycle`, and writes why each workload waits.

Quota counts as used from the moment of the decision, and is written once. A write that fails gives
the quota back and requeues the workload. The writes of reasons matter least, so they come last: one
at a time, at a pace, and only when the reason has changed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Final

import structlog

from extender.api.reasons import NotYetAdmitted, Unadmitted
from extender.api.wellknown import WorkloadCondition
from extender.controllers.timing import LATE, LOOK_AGAIN, SETTLE, WATCH_LAG
from extender.controllers.workload import AdmissionWriter, Workloads, event
from extender.kube.errors import LONGEST_NOTE, ApiError, RefusedError
from extender.kube.recorder import Event
from extender.queueing import lifecycle
from extender.queueing.cycle import (
    RELEASE_DELAY,
    ROOM_PERIOD,
    AdmissionCore,
    Admit,
    Broken,
    NotAdmitted,
    Outcome,
    Preempt,
)
from extender.queueing.pending import PendingQueues, Recalled, recall, recalled
from extender.queueing.preempt import Victim
from extender.queueing.rules import AdmissionRules
from extender.room.nodes import NodeRoom
from extender.runtime.clock import SLICE_SECONDS, Clock, Pacer
from extender.runtime.controller import WorkQueue
from extender.runtime.faults import FAULTS
from extender.state.queue import events
from extender.state.queue.events import QueueChange
from extender.state.queue.records import AdmissionInfo, WorkloadInfo
from extender.state.queue.store import Queues
from extender.state.queue.view import QueueView
from extender.telemetry.queue_metrics import QueueMetrics
from extender.telemetry.starts import AdmissionStarts

_log = structlog.get_logger(__name__)

CYCLE_PAUSE: Final = 0.005
"""Seconds to wait for more changes before a cycle begins."""
_NOT_STORED: Final = "The API server did not store its admission: it is tried again after a pause"
_NOT_PREEMPTED: Final = (
    "The API server did not store an eviction that it needs: it is tried again after a pause"
)


class AdmissionLoop:
    """Runs a cycle whenever workloads wait and something has changed."""

    def __init__(
        self,
        queues: Queues,
        workloads: Workloads,
        *,
        record: Callable[[Event], None],
        clock: Clock,
        rules: AdmissionRules,
        metrics: QueueMetrics,
    ) -> None:
        self._queues = queues
        self._view = view = queues.view()
        self._record, self._clock, self._metrics = record, clock, metrics
        self._rules = rules
        self._pacer = Pacer(clock)
        self._wakeup = asyncio.Event()
        self._core = AdmissionCore(
            view, rules, now=clock.wall, after=self._after, wake=self._wakeup.set
        )
        self.pending = self._core.pending
        self.starts = AdmissionStarts(queues, clock)
        self._writer = AdmissionWriter(
            workloads,
            view,
            record=record,
            clock=clock,
            options=rules.options,
            metrics=metrics,
        )
        self.reasons = PendingReasons(
            workloads,
            view,
            self.pending,
            record=record,
            clock=clock,
            pacer=self._pacer,
            room=rules.room if rules.options.aging else None,
            admissions_wait=self._writer.has_waiting,
        )
        self._room_retry = RoomRetry(self.pending, self._wakeup.set)
        self.before_cycle: Callable[[asyncio.TaskGroup], Awaitable[None]] | None = None
        """Decides what else is given of the nodes: no cycle is under way then."""
        self._requeue_all = False
        """True if to place and try all workloads before the next cycle."""
        self._holds = False
        """True if a workload waits for the pods of others; labels of jobs may change that."""
        self._failures: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def on_change(self, change: QueueChange) -> None:
        """Update the queues as the state changed; run a cycle if that may admit workloads."""
        for key in change.workloads:
            if key not in self._view.workloads:
                self.reasons.forget(key)
                self._failures.pop(key, None)
        self._requeue_all = self._requeue_all or change.structure
        for key in change.workloads - self.pending.aside:
            self._place(key)
        if change.released:
            self._core.retry_sharing(change.released)
            self.on_room()
        self.pending.requeue_namespaces(change.namespaces)
        exempt = change.jobs if self._holds else ()
        if any((change.structure, change.workloads, change.namespaces, exempt)):
            self._wakeup.set()

    def on_room(self) -> None:
        """Retry workloads that lack room soon: something about the nodes has changed."""
        self._room_retry.on_change()

    def retry_all(self) -> None:
        """Try all workloads again: how nodes can be asked for has changed."""
        self._requeue_all = True
        self._wakeup.set()

    def wake(self) -> None:
        """Run a cycle soon."""
        self._wakeup.set()

    def _place(self, key: str) -> None:
        """Place a workload in its queue; one that causes an error is in none."""
        try:
            self._core.place(key)
            if self.pending.cluster_queue_of(key) is None and self._view.admission(key) is None:
                # It says why it is in no queue, and is given a reason again when it comes back.
                self.reasons.forget(key)
        except Exception as error:  # noqa: BLE001 - the other workloads are still queued
            FAULTS.report("queues", error, key=key)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._begin()
        self._wakeup.set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reasons.run())
            while True:
                await self._wakeup.wait()
                await asyncio.sleep(CYCLE_PAUSE)
                # What is decided is written after the admissions before, which are sent first.
                await self._writer.catch_up(LOOK_AGAIN)
                self._wakeup.clear()
                await self._guarded_cycle(tasks)
                self._room_retry.try_within()
                self._wake_when_due()

    async def _begin(self) -> None:
        """Place all workloads, and recall which victims an earlier leader chose for them."""
        victims = list[Recalled]()
        for key in [*self._view.workloads]:
            self._place(key)
            workload = self._view.workloads.get(key)
            victim = recalled(workload, self._view) if workload is not None else None
            victims += [victim] if victim is not None else []
            if self._pacer.is_due:
                await self._pacer.rest()
        recall(victims, self.pending)

    def _wake_when_due(self) -> None:
        """Run a cycle when the next back-off of a workload ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.pending.next_backoff_end()
        if due is not None:
            pause = max(0.0, due - self._clock.wall())
            self._timer = asyncio.get_running_loop().call_later(pause, self._wakeup.set)

    # -- before a cycle

    async def _guarded_cycle(self, tasks: asyncio.TaskGroup) -> None:
        """Run a cycle; after an error that no single workload causes, pause and try again."""
        preparing = True
        try:
            while self._requeue_all:
                await self._place_all()
                await asyncio.sleep(0)
            preparing = False
            if self.before_cycle is not None:
                await self.before_cycle(tasks)
            await self._cycle(tasks)
        except Exception as error:  # noqa: BLE001 - admission must go on
            FAULTS.report("admission-cycle", error)
            # Decisions of the cycle may be lost, and their workloads are in no queue then. A
            # failed preparation is not repeated before the next cycle: it must not stop admission.
            self._requeue_all = self._requeue_all or not preparing
            self._wakeup.set()
            await asyncio.sleep(ROOM_PERIOD)

    async def _place_all(self) -> None:
        """Place all workloads anew, and requeue all of them."""
        self._requeue_all = False
        for key in self.pending.keys(self._view):
            self._place(key)
            if self._pacer.is_due:
                await self._pacer.rest()
        for key in self.pending.preemptors.all_victims():
            found = self._view.workloads.get(key)
            held = found is not None and self._view.admission(key) is not None
            if held and found is not None and not found.evicted:
                self.pending.drop_victim(key)  # its eviction was decided in a cycle that failed
        await self._pacer.go_through(self.pending.requeue_all(self._view, self._clock.wall()))
        for key in self.pending.aside:
            self.pending.remove(key)

    # -- a cycle

    async def _cycle(self, tasks: asyncio.TaskGroup) -> None:
        pending, seconds = self.pending, 0.0
        sweeping = pending.is_sweeping or not self._view.passed <= pending.lacking.keys()
        kept = self._kept_room()
        self.starts.cycle()
        work = self._core.cycle()
        preempting: list[Preempt] = []
        with closing(work.pieces()) as pieces:
            while True:
                decided, took, is_complete = self._slice(pieces)
                seconds += took
                preempting += self._act(decided, tasks)
                if is_complete:
                    break
                await asyncio.sleep(0)
        result = work.result()
        self.reasons.note_room(key for key, _ in kept ^ self._kept_room())
        self._holds = result.held
        self._core.end(result)
        if result.moved:
            self.on_room()
        if sweeping:
            self._room_retry.sweep_seconds += seconds
        self._metrics.cycle(seconds, result.outcomes)
        if preempting:
            await self._preempt(preempting)

    def _kept_room(self) -> set[tuple[str, tuple[int, int] | None]]:
        """Return the workloads for which room is kept, and how much."""
        room = self._rules.room
        return {(key, room.kept_for(key)) for key in room.reserved} if room is not None else set()

    def _slice(self, pieces: Iterator[Outcome | None]) -> tuple[list[Outcome], float, bool]:
        """Run a cycle for a short while, so that no other task waits longer.

        Returns what it decided, the seconds it took, and whether the cycle is complete.
        """
        began, decided = self._clock.monotonic(), list[Outcome]()
        for piece in pieces:
            if piece is not None:
                decided.append(piece)
            took = self._clock.monotonic() - began
            if took >= SLICE_SECONDS:
                return decided, took, False
        return decided, self._clock.monotonic() - began, True

    def _act(self, decided: Iterable[Outcome], tasks: asyncio.TaskGroup) -> list[Preempt]:
        """Apply the admissions, note why others wait, and return the preemptions."""
        preempting: list[Preempt] = []
        for outcome in decided:
            match outcome:
                case Admit():
                    decided_on = self._view.workloads[outcome.workload]
                    self.starts.decided(decided_on, outcome.admission.cluster_queue)
                    self._queues.apply(events.Assumed(outcome.workload, outcome.admission))
                    self.reasons.forget(outcome.workload)
                    tasks.create_task(self._admit(decided_on, outcome.admission))
                case Preempt():
                    preempting.append(outcome)
                case NotAdmitted():
                    self.reasons.note(outcome)
                case Broken():
                    self._set_aside(outcome.workload, outcome.error)
        return preempting

    def _after(self, seconds: float, work: Callable[[], None]) -> None:
        """Do some work of the core later; after an error in it all workloads are tried."""

        def guarded() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - as above
                FAULTS.report("admission", error)
                self._requeue_all = True
                self._wakeup.set()

        asyncio.get_running_loop().call_later(seconds, guarded)

    # -- after a decision

    async def _admit(self, decided_on: WorkloadInfo, admission: AdmissionInfo) -> None:
        key = decided_on.key
        why_not = await self._writer.admit(decided_on, admission)
        if not why_not:
            self._failures.pop(key, None)
            return
        self.starts.not_stored(key, why_not)
        if why_not == "failed":
            self._back_off(key)
            self.reasons.note(NotAdmitted(key, Unadmitted.ON_HOLD, _NOT_STORED))
        self._queues.apply(events.Forgotten(key, admission))

    def _back_off(self, key: str) -> None:
        """Keep a workload out of the queues for a while, longer after each failure."""
        failures = self._failures.pop(key, 0)
        self._failures[key] = min(failures + 1, 32)
        pause = min(LATE, RELEASE_DELAY * 2**failures)
        self.pending.aside.add(key)
        self.pending.remove(key)

        def end() -> None:
            self.pending.aside.discard(key)
            self._place(key)
            self._wakeup.set()

        asyncio.get_running_loop().call_later(pause, end)

    def _set_aside(self, key: str, error: Exception) -> None:
        """Back off from a workload that caused an internal error, and report it."""
        FAULTS.report("admission", error, key=key)
        self._back_off(key)
        workload = self._view.workloads.get(key)
        if workload is None:
            return
        message = f"It cannot be judged because of an internal error: {error!r}"[:LONGEST_NOTE]
        reason = Unadmitted.INTERNAL_ERROR
        self._record(event(workload, reason, message, warning=True, occasion=message))
        self.reasons.note(NotAdmitted(key, reason, message))

    async def _preempt(self, outcomes: list[Preempt]) -> None:
        """Evict all victims before the next cycle looks for more."""
        async with asyncio.TaskGroup() as tasks:
            for outcome in outcomes:
                key, message = outcome.workload, outcome.message
                if self.pending.preemptors.victims(key):
                    self.reasons.note(NotAdmitted(key, Unadmitted.WAITING_FOR_PREEMPTED, message))
                for victim in outcome.victims:
                    tasks.create_task(self._evict(victim, by=outcome.workload))

    async def make_room(self, victim: Victim) -> bool:
        """Evict a workload whose pods make room on nodes; return whether it leaves.

        No workload gets its quota for that: it is released as after any other eviction.
        """
        key = victim.workload
        before = self._view.workloads.get(key)
        if before is None or self._view.admission(key) is None:
            return False
        if before.evicted and not self._view.is_assumed(key):
            return True
        return await self._writer.evict(before, victim, cluster_queue="")

    async def _evict(self, victim: Victim, *, by: str) -> None:
        key = victim.workload
        before = self._core.still_evicts(key, preemptor=by)
        if before is None:
            return
        queue = self.pending.cluster_queue_of(by) or ""
        if not await self._writer.evict(before, victim, cluster_queue=queue):
            self.pending.drop_victim(key)
            if self._view.workloads.get(key) is before and by not in self.pending.aside:
                self._back_off(by)  # nothing has changed: it would be refused again at once
                self.reasons.note(NotAdmitted(by, Unadmitted.ON_HOLD, _NOT_PREEMPTED))
            self._wakeup.set()


FIRST_ROOM_PAUSE: Final = 0.1
"""The shortest pause before a sweep, in seconds."""
PAUSE_PER_SWEEP: Final = 5
"""The pause after a sweep, as a multiple of its duration."""


class RoomRetry:
    """Requeues workloads that lack room, some time after the nodes have changed.

    A sweep is the cycles in which each of them is tried once. It may ask all nodes for each
    workload, so the pause before the next sweep grows with what the last one took.
    """

    def __init__(self, pending: PendingQueues, wake: Callable[[], object]) -> None:
        self._pending, self._wake = pending, wake
        self._timer: asyncio.TimerHandle | None = None
        self.sweep_seconds = 0.0
        """The duration of the cycles of this sweep."""

    def on_change(self) -> None:
        """Try soon: something about the nodes has changed."""
        pause = max(FIRST_ROOM_PAUSE, PAUSE_PER_SWEEP * self.sweep_seconds)
        self.try_within(min(ROOM_PERIOD, pause))

    def try_within(self, seconds: float = ROOM_PERIOD) -> None:
        """Try after so many seconds at the latest."""
        if not self._pending.lacks_capacity:
            return
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._try)

    def _try(self) -> None:
        self._timer = None
        try:
            if self._pending.sweep():
                self.sweep_seconds = 0.0
            else:
                self.on_change()
        except Exception as error:  # noqa: BLE001 - the cycle sets the next time to try
            FAULTS.report("room-retry", error)
        self._wake()


FIRST_DELAY: Final = 0.5
"""Seconds that a workload waits before its reason is written: most are admitted by then."""
PAUSE: Final = 0.02
"""Seconds between two writes, where no admission waits to be written."""
_BEHIND: Final = "Another workload is before it, and its ClusterQueue is StrictFIFO"


class PendingReasons:
    """Knows why each workload waits, and writes it behind all other writes."""

    def __init__(  # noqa: PLR0913 - all that its decisions and writes need
        self,
        workloads: Workloads,
        view: QueueView,
        pending: PendingQueues,
        *,
        record: Callable[[Event], None],
        clock: Clock,
        pacer: Pacer,
        room: NodeRoom | None,
        admissions_wait: Callable[[], bool],
    ) -> None:
        """`room` is None if no room is ever kept for workloads that have waited long."""
        self._workloads, self._view, self._pending = workloads, view, pending
        self._record, self._clock, self._pacer = record, clock, pacer
        self._room, self._admissions_wait = room, admissions_wait
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
        written = _is_written(workload, wait.reason) or _is_said(workload, wait)
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
                await asyncio.sleep(LOOK_AGAIN if self._admissions_wait() else PAUSE)

    async def _write(self, key: str) -> bool:
        """Write the reason of one workload; return whether a request was made."""
        wait, before = self._waits.get(key), self._view.workloads.get(key)
        if wait is not None and before is not None and key in self._view.reserved_only:
            return await self._write_not_admitted(wait, before)
        lost = wait is not None and isinstance(wait.reason, NotYetAdmitted)
        if wait is None or before is None or lost or self._view.admission(key) is not None:
            self.forget(key)
            return False
        now, message = self._clock.wall(), self._message(wait)
        written = _is_written(before, wait.reason)
        after = lifecycle.waiting(before, wait.reason, message, now=now)
        after = lifecycle.with_gates(after, wait.reason, message, blocked=wait.gated, now=now)
        kept, held = self._kept(key), before.holds(WorkloadCondition.ROOM_RESERVED)
        if self._room is None:
            after = lifecycle.without(after, WorkloadCondition.ROOM_RESERVED)
        elif kept is not None or held or wait.reason == Unadmitted.WAITING_FOR_ROOM:
            after = lifecycle.waiting_for_room(after, kept, now=now)
        if written and _says_all(before, after):
            return False
        if not await self._stored(before, after):
            return True
        if not written:
            self._record(event(before, wait.reason, message, warning=True))
        if kept is not None and not held:
            self._record(event(before, WorkloadCondition.ROOM_RESERVED, lifecycle.kept_text(kept)))
        return True

    async def _write_not_admitted(self, wait: NotAdmitted, before: WorkloadInfo) -> bool:
        """Write why a workload that holds quota is not admitted; return whether it was written."""
        passed = before.key in self._view.passed
        if before.evicted or not passed or self._view.is_assumed(before.key):
            return False
        known = before.condition(WorkloadCondition.ADMITTED)
        new = "False", wait.reason, wait.message
        if known is not None and (known.status, known.reason, known.message) == new:
            return False
        now = self._clock.wall()
        after = lifecycle.not_yet_admitted(before, wait.reason, wait.message, now=now)
        is_news = known is None or known.reason != wait.reason
        if await self._stored(before, after) and is_news:
            self._record(event(before, wait.reason, wait.message))
        return True

    async def _stored(self, before: WorkloadInfo, after: WorkloadInfo) -> bool:
        """Write a status and return whether it is stored; otherwise it is written later."""
        try:
            await self._workloads.write_status(before, after)
        except ApiError as error:
            refused = isinstance(error, RefusedError)
            log = _log.warning if refused else _log.debug
            log("could not write why it waits", workload=before.key, error=str(error))
            self._unwritten.add_after(before.key, LATE if refused else LOOK_AGAIN)
            return False
        return True

    def _kept(self, key: str) -> tuple[int, int] | None:
        return self._room.kept_for(key) if self._room is not None else None

    def _message(self, wait: NotAdmitted) -> str:
        kept = self._kept(wait.workload)
        return wait.message if kept is None else f"{wait.message}; {lifecycle.kept_text(kept)}"

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


def _is_said(workload: WorkloadInfo | None, wait: NotAdmitted) -> bool:
    """Return whether a workload that holds quota says already why it is not admitted."""
    known = workload.condition(WorkloadCondition.ADMITTED) if workload is not None else None
    if known is None or known.message == lifecycle.NO_NODES:
        return False
    return (known.status, known.reason) == ("False", wait.reason)


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
