"""Gives quota to workloads: the loop around `queueing.cycle`.

Quota counts as taken from the moment of the decision, and is written once. Many writes are on
their way at the same time; one that fails gives the quota back and queues the workload again.
What only tells a person why a workload waits is written behind the rest, at a pace, and only when
the reason is another one.

A write that nobody answered may have been done. Its quota counts as taken until the API server says
yes or no: the write holds for one version only, so that it can be sent again.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog

from extender.api.queue_reasons import Unadmitted
from extender.controllers.workload_writer import Workloads, event
from extender.kube.errors import ApiError, ConflictError, UnavailableError
from extender.kube.recorder import Event
from extender.queueing import cycle, readiness
from extender.queueing import transitions as to
from extender.queueing.cycle import Admit, Broken, Outcome, Preempt, Wait
from extender.queueing.options import Options
from extender.queueing.pending import PendingQueues
from extender.queueing.preemption import Victim
from extender.queueing.quota import QuotaTree
from extender.queueing.room import Room
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import Pacer
from extender.runtime.workqueue import WorkQueue
from extender.state.queues import events as ev
from extender.state.queues.events import Change
from extender.state.queues.records import Admission, WorkloadInfo
from extender.state.queues.store import Queues

_log = structlog.get_logger(__name__)

SLICE: Final = 0.01
"""Seconds that a cycle works before everything else of the process has its turn."""
SETTLE: Final = 0.005
"""Seconds in which what comes together becomes one cycle."""
WRITES: Final = 32
TELL_AFTER: Final = 0.5
"""Seconds that a workload waits before it is told why."""
SWEEP: Final = 2.0
"""Seconds between two looks for workloads that nobody has told anything."""
TELL_PAUSE: Final = 0.01
LONGEST_TELL_PAUSE: Final = 1.0
AGAIN: Final = 1.0
"""Seconds until a reason that could not be written is tried again."""
ROOM_PAUSE: Final = 0.1
ROOM_SHARE: Final = 5
LONGEST_ROOM_PAUSE: Final = 2.0
"""Who lacks room is tried again after a pause of so many times what it took to try all of them."""
ROOM_ROUND: Final = 10.0
"""Seconds after which it is in any case."""
RETELL: Final = 10.0
"""Seconds after which other numbers of the same reason are told."""
_LONGEST_MESSAGE: Final = 500
REST: Final = 0.5
LONGEST_REST: Final = 60.0
"""Seconds for which a workload is left alone whose admission could not be written."""
FREED_PAUSE: Final = 0.5
"""Seconds until those are tried again from whom quota was kept by one who waits, and is no more."""
FAULT_PAUSE: Final = 5.0
"""Seconds until the next cycle after one that failed as a whole."""
_STILL_ON_ITS_WAY: Final = frozenset((0, 502, 504))
"""Statuses of a write that may be carried out after the answer; 0 is none."""
LONGEST_DOUBT: Final = 5.0
"""Seconds after which a write that nobody answered is sent again, at most."""


@dataclass(frozen=True, slots=True)
class _Slice:
    """A part of a cycle that was done without a pause."""

    decided: list[Outcome]
    seconds: float
    last: bool
    """Whether the cycle is done."""


class Metrics(Protocol):
    """Is told what became of workloads."""

    def cycle(self, seconds: float, outcomes: tuple[Outcome, ...]) -> None:
        """Take one cycle."""
        ...

    def admitted(self, workload: WorkloadInfo, cluster_queue: str, *, waited: float) -> None:
        """Take an admission that is written; `waited` in seconds since it was queued."""
        ...

    def preempted(self, preempting_cluster_queue: str, reason: str) -> None:
        """Take a preemption that is written."""
        ...


class Admitter:
    """Runs cycles while somebody waits and something has changed."""

    def __init__(
        self,
        queues: Queues,
        workloads: Workloads,
        *,
        record: Callable[[Event], None],
        clock: Clock,
        options: Options,
        metrics: Metrics,
    ) -> None:
        self._queues = queues
        self._snapshot = queues.snapshot()
        self._workloads = workloads
        self._record = record
        self._clock = clock
        self._options = options
        self._metrics = metrics
        self._pacer = Pacer(clock)
        self.room: Room | None = None
        """Who knows the nodes; without it quota is all it takes."""
        self._room_timer: asyncio.TimerHandle | None = None
        self._freed: set[str] = set()
        """ClusterQueues with quota that somebody who waits keeps no more, until they are tried."""
        self._sweep_seconds = 0.0
        """For how long those have been tried who lacked room, since the last time they were let."""
        self._anew = False
        """Whether all workloads are to be looked at before the next cycle."""
        self.pending = PendingQueues(options)
        self.tree = QuotaTree(self._snapshot)
        self._holds = False
        """Whether anybody is held, which the labels of jobs may change."""
        self._wakeup = asyncio.Event()
        self._writes = asyncio.Semaphore(WRITES)
        self._waits: dict[str, Wait] = {}
        self._to_tell: WorkQueue[str] = WorkQueue()
        self._failures: dict[str, int] = {}
        self._resting: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def on_change(self, change: Change) -> None:
        """Take a change of the state."""
        now = self._clock.wall()
        self._forget(change.workloads)
        self._anew = self._anew or change.structure
        for key in change.workloads - self._resting:
            self._update(key, now)
        if change.released:
            self.pending.release(change.released, self._snapshot, now)
            self.on_room()
        self.pending.release_namespaces(change.namespaces)
        exempt = change.jobs if self._holds else ()
        news = change.structure or change.workloads or change.released or change.namespaces
        if news or exempt:
            self._wakeup.set()

    def _update(self, key: str, now: float) -> None:
        """Have a workload stand where it belongs; one that cannot be placed stands nowhere."""
        try:
            self.pending.update(key, self._snapshot, now)
        except Exception as error:  # noqa: BLE001 - the other workloads are queued all the same
            FAULTS.report("queues", error, key=key)

    def _forget(self, workloads: Collection[str]) -> None:
        """Forget those that are gone."""
        for key in workloads:
            if key not in self._snapshot.workloads:
                self._waits.pop(key, None)
                self._failures.pop(key, None)

    def _release_later(self, cluster_queues: Collection[str]) -> None:
        if cluster_queues and not self._freed:
            asyncio.get_running_loop().call_later(FREED_PAUSE, self._release_freed)
        self._freed.update(cluster_queues)

    def _release_freed(self) -> None:
        self.pending.release(self._freed, self._snapshot, self._clock.wall())
        self._freed.clear()
        self._wakeup.set()

    def on_room(self) -> None:
        """Try again soon who has quota and lacks room: something about the nodes has changed."""
        pause = min(LONGEST_ROOM_PAUSE, ROOM_SHARE * self._sweep_seconds)
        self._try_room_after(max(ROOM_PAUSE, pause))

    def _try_room_after(self, seconds: float) -> None:
        if not self.pending.lacks_room:
            return
        loop = asyncio.get_running_loop()
        if self._room_timer is not None:
            if self._room_timer.when() <= loop.time() + seconds:
                return
            self._room_timer.cancel()
        self._room_timer = loop.call_later(seconds, self._try_room)

    def _try_room(self) -> None:
        self._room_timer = None
        if self.pending.release_roomless():
            self._sweep_seconds = 0.0
        else:
            self.on_room()
        self._wakeup.set()

    def why(self, key: str) -> tuple[str, str] | None:
        """Return the reason and the words with which a cycle left a workload waiting last."""
        wait = self._waits.get(key)
        return (wait.reason, wait.message) if wait else None

    async def run(self) -> None:
        """Work until cancelled."""
        now = self._clock.wall()
        for key in [*self._snapshot.workloads]:
            self._update(key, now)
            if self._pacer.is_due:
                await self._pacer.rest()
        self._wakeup.set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell())
            tasks.create_task(self._tell_followers())
            while True:
                await self._wakeup.wait()
                await asyncio.sleep(SETTLE)
                self._wakeup.clear()
                await self._guarded_cycle(tasks)
                self._wake_when_due()

    async def _guarded_cycle(self, tasks: asyncio.TaskGroup) -> None:
        """Run a cycle; after an error that no workload alone can cause, pause and try again."""
        looking = True
        try:
            while self._anew or self.tree.version != self._snapshot.structure_version:
                if self._anew:
                    await self._look_at_all()
                await self._look_at_structure()
                await asyncio.sleep(0)
            looking = False
            await self._cycle(tasks)
        except Exception as error:  # noqa: BLE001 - quota must go on being given
            FAULTS.report("admission-cycle", error)
            # Decisions of the cycle may be lost, and their workloads are in no queue then. A look
            # that fails is not repeated before the next cycle: it must not stop all admissions.
            self._anew = self._anew or not looking
            self._wakeup.set()
            await asyncio.sleep(FAULT_PAUSE)

    async def _look_at_all(self) -> None:
        """Give all workloads the places that they should have now, and have them all tried."""
        self._anew = False
        now = self._clock.wall()
        for key in self.pending.keys(self._snapshot):
            self._update(key, now)
            if self._pacer.is_due:
                await self._pacer.rest()
        self._spare_the_unevicted()
        await self._pacer.go_through(self.pending.release_all(self._snapshot, now))
        for key in self._resting:
            self.pending.remove(key)

    def _spare_the_unevicted(self) -> None:
        """Have victims chosen again whose eviction was decided in a cycle that failed."""
        pending, snapshot = self.pending, self._snapshot
        for key in {each for name in pending.preempting() for each in pending.victims(name)}:
            found = snapshot.workloads.get(key)
            if found is not None and snapshot.admission(key) is not None and not found.evicted:
                pending.spared(key)

    async def _look_at_structure(self) -> None:
        """Have the tree of quota as ClusterQueues and cohorts are now, unless they change again."""
        if self.tree.version != self._snapshot.structure_version:
            tree = QuotaTree(self._snapshot, whole=False)
            await self._pacer.go_through(tree.pieces())
            if tree.version == self._snapshot.structure_version:
                self.tree = tree

    async def _cycle(self, tasks: asyncio.TaskGroup) -> None:
        sweeping, seconds = self.pending.sweeping, 0.0
        now = self._clock.wall()
        work = cycle.Cycle(
            self._snapshot,
            self.pending,
            tree=self.tree,
            options=self._options,
            now=now,
            room=self.room,
        )
        preempting: list[Preempt] = []
        with closing(work.pieces()) as pieces:
            while True:
                part = self._slice(pieces)
                seconds += part.seconds
                preempting += self._act(part.decided, tasks)
                if part.last:
                    break
                await asyncio.sleep(0)
        result = work.result()
        self._holds = result.held
        self._release_later(result.freed)
        if result.moved:
            self.on_room()
        self._sweep_seconds += seconds if sweeping else 0.0
        self._metrics.cycle(seconds, result.outcomes)
        if preempting:
            await self._preempt(preempting)
        if result.more:
            self._wakeup.set()

    def _slice(self, pieces: Iterator[Outcome | None]) -> _Slice:
        """Work for a short while, so that nothing else of the process waits longer."""
        began, decided = self._clock.monotonic(), list[Outcome]()
        for piece in pieces:
            if piece is not None:
                decided.append(piece)
            took = self._clock.monotonic() - began
            if took >= SLICE:
                return _Slice(decided, took, last=False)
        return _Slice(decided, self._clock.monotonic() - began, last=True)

    def _act(self, decided: Iterable[Outcome], tasks: asyncio.TaskGroup) -> list[Preempt]:
        """Apply the admissions, keep the reasons to wait, and return the preemptions."""
        preempting: list[Preempt] = []
        for outcome in decided:
            match outcome:
                case Admit():
                    decided_on = self._snapshot.workloads[outcome.workload]
                    self._queues.apply(ev.Assumed(outcome.workload, outcome.admission))
                    self._waits.pop(outcome.workload, None)
                    tasks.create_task(self._admit(decided_on, outcome.admission))
                case Preempt():
                    preempting.append(outcome)
                case Wait():
                    self._note(outcome)
                case Broken():
                    self._put_aside(outcome.workload, outcome.error)
        return preempting

    async def _admit(self, before: WorkloadInfo, admission: Admission) -> None:
        now = self._clock.wall()
        try:
            await self._insist(before, self._admitted(before, admission, now))
        except ApiError as error:
            if not self._has(before, admission):
                _told(error, "could not admit", before.key)
                self._give_back(before.key, admission, rest=not isinstance(error, ConflictError))
                return
        except Exception as error:  # noqa: BLE001 - data nobody thought of: it harms itself alone
            FAULTS.report("admission", error, key=before.key)
            self._give_back(before.key, admission, rest=True)
            return
        self._failures.pop(before.key, None)
        if not self._has(before, admission):
            return  # it is gone
        queue = admission.cluster_queue
        waited = max(0.0, now - to.queued_since(before))
        self._metrics.admitted(before, queue, waited=waited)
        self._record(
            event(
                before,
                "Admitted",
                f"Admitted by ClusterQueue {queue}, wait time since queued was {waited:.0f}s",
                occasion=str(now),
            )
        )

    def _admitted(self, before: WorkloadInfo, admission: Admission, now: float) -> WorkloadInfo:
        policy = readiness.policy_of(before, self._snapshot, self._options)
        return to.reserved(before, admission, now, pods_ready=policy.enabled)

    async def _insist(self, before: WorkloadInfo, after: WorkloadInfo) -> None:
        """Write until the API server says yes or no. Raises ApiError where it says no.

        A no to a second try, such as of a server that does not know our rights yet, says nothing
        of the first one.
        """
        pause, in_doubt = REST, False
        while True:
            try:
                async with self._writes:
                    await self._workloads.write_status(before, after)
            except ConflictError:
                raise  # what is stored instead is known
            except ApiError as error:
                in_doubt = in_doubt or isinstance(error, UnavailableError)
                if not in_doubt or await self._is_no(error, before):
                    raise
            else:
                return
            await asyncio.sleep(pause)
            pause = min(LONGEST_DOUBT, 2 * pause)

    async def _is_no(self, error: ApiError, workload: WorkloadInfo) -> bool:
        """Return whether it is known now what became of a write that failed.

        A read does not tell it of a write that may still be on its way to the storage: that of a
        proxy's 502, or of a 504. The next try of the same write tells it.
        """
        if error.status in _STILL_ON_ITS_WAY:
            return False
        try:
            await self._workloads.read_again(workload)
        except ApiError:
            return False
        return True

    def _has(self, workload: WorkloadInfo, admission: Admission) -> bool:
        """Return whether a workload is known to have been given just this."""
        found = self._snapshot.workloads.get(workload.key)
        same = found is not None and found.meta.uid == workload.meta.uid
        return same and found is not None and found.admission == admission

    def _give_back(self, key: str, admission: Admission, *, rest: bool) -> None:
        """Take quota back that could not be written; after trouble leave the workload alone."""
        if rest:
            self._rest(key)
        self._queues.apply(ev.Forgotten(key, admission))

    def _rest(self, key: str) -> None:
        """Leave a workload alone for a while, longer each time."""
        failures = self._failures.pop(key, 0)
        self._failures[key] = min(failures + 1, 32)
        pause = min(LONGEST_REST, REST * 2**failures)
        self._resting.add(key)
        self.pending.remove(key)
        asyncio.get_running_loop().call_later(pause, self._rested, key)

    def _put_aside(self, key: str, error: Exception) -> None:
        """Leave a workload alone that cannot be judged, and say so."""
        FAULTS.report("admission", error, key=key)
        self._rest(key)
        workload = self._snapshot.workloads.get(key)
        if workload is None:
            return
        message = f"It cannot be judged because of an internal error: {error!r}"[:_LONGEST_MESSAGE]
        reason = Unadmitted.INTERNAL_ERROR
        self._record(event(workload, reason, message, warning=True, occasion=message))
        self._note(Wait(key, reason, message))

    def _rested(self, key: str) -> None:
        self._resting.discard(key)
        self._update(key, self._clock.wall())
        self._wakeup.set()

    async def _preempt(self, outcomes: list[Preempt]) -> None:
        """Evict all victims before the next cycle looks for more."""
        async with asyncio.TaskGroup() as tasks:
            for outcome in outcomes:
                key, message = outcome.workload, outcome.message
                if self.pending.victims(key):
                    self._note(Wait(key, "WaitingForPreemptedWorkloads", message))
                for victim in outcome.victims:
                    tasks.create_task(self._evict(victim, by=outcome.workload))

    async def _evict(self, victim: Victim, *, by: str) -> None:
        key, reason, message = victim.workload, victim.reason, victim.message
        before, queue = self._snapshot.workloads.get(key), self.pending.cluster_queue_of(by)
        if before is None or self._snapshot.admission(key) is None or before.evicted:
            return
        if key not in self.pending.victims(by):
            # Later in the cycle the preemptor got quota without it, was deleted, or had to give up.
            self.pending.spared(key)  # others may count on its leaving
            self._wakeup.set()
            return
        try:
            async with self._writes:
                await self._workloads.write_status(
                    before, to.preempted(before, reason, message, now=self._clock.wall())
                )
        except Exception as error:  # noqa: BLE001 - the other victims are evicted all the same
            if isinstance(error, ApiError):
                _told(error, "could not preempt", key)
            else:
                FAULTS.report("preemption", error, key=key)
            self.pending.spared(key)
            self._wakeup.set()
            return
        self._metrics.preempted(queue or "", reason)
        self._record(event(before, to.PREEMPTED, message))

    def _note(self, wait: Wait) -> None:
        self._waits[wait.workload] = wait
        workload = self._snapshot.workloads.get(wait.workload)
        told = _told_already(workload, wait.reason)
        self._to_tell.add_after(wait.workload, RETELL if told else TELL_AFTER)

    async def _tell(self) -> None:
        """Tell workloads why they wait, one after the other."""
        while True:
            key = await self._to_tell.get()
            began = self._clock.monotonic()
            if await self._guarded_tell(key):
                # An API server that takes its time has more important things to write.
                took = self._clock.monotonic() - began
                await asyncio.sleep(min(LONGEST_TELL_PAUSE, max(TELL_PAUSE, 4 * took)))

    async def _guarded_tell(self, key: str) -> bool:
        try:
            return await self._tell_one(key)
        except Exception as error:  # noqa: BLE001 - the others are told all the same
            FAULTS.report("admission-tell", error, key=key)
            return True

    async def _tell_followers(self) -> None:
        """Have those told too who were not tried, because an equal one was before them."""
        while True:
            await asyncio.sleep(SWEEP)
            try:
                await self._note_followers()
            except Exception as error:  # noqa: BLE001 - the next sweep begins anew
                FAULTS.report("admission-tell", error)

    async def _note_followers(self) -> None:
        for key, tried in self.pending.followers():
            if key not in self._waits and tried in self._waits and self.pending.is_parked(key):
                self._note(replace(self._waits[tried], workload=key))
            if self._pacer.is_due:
                await self._pacer.rest()

    async def _tell_one(self, key: str) -> bool:
        wait, before = self._waits.get(key), self._snapshot.workloads.get(key)
        if wait is None or before is None or self._snapshot.admission(key) is not None:
            self._waits.pop(key, None)
            return False
        known, again = before.condition(to.QUOTA_RESERVED), _told_already(before, wait.reason)
        numbers = wait.reason == Unadmitted.WAITING_FOR_ROOM  # of nodes: they are other ones soon
        if again and not (numbers and known and known.message != wait.message):
            return False
        after = to.waiting(before, wait.reason, wait.message, now=self._clock.wall())
        try:
            await self._workloads.write_status(before, after)
        except ApiError as error:
            _log.debug("could not say why it waits", workload=key, error=str(error))
            self._to_tell.add_after(key, AGAIN)
            return True
        if not again:
            self._record(event(before, wait.reason, wait.message, warning=True))
        return True

    def _wake_when_due(self) -> None:
        self._try_room_after(ROOM_ROUND)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.pending.next_due()
        if due is not None:
            pause = max(0.0, due - self._clock.wall())
            self._timer = asyncio.get_running_loop().call_later(pause, self._wakeup.set)


def _told(error: ApiError, what: str, workload: str) -> None:
    """Log what could not be written; that somebody else was quicker is no trouble."""
    log = _log.debug if isinstance(error, ConflictError) else _log.warning
    log(what, workload=workload, error=str(error))


def _told_already(workload: WorkloadInfo | None, reason: str) -> bool:
    known = workload.condition(to.QUOTA_RESERVED) if workload is not None else None
    return known is not None and (known.status, known.reason) == ("False", reason)
