"""Admission cycles in virtual time: what the reconciler's loop does, without its writes and rests.

A write arrives at once here, so that nothing is assumed meanwhile. Why a workload waits is written
only where a decision reads it: of those that lack room on nodes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from extender.api.reasons import PodsReadyReason, Unadmitted
from extender.api.wellknown import WorkloadCondition
from extender.queueing import lifecycle, rules
from extender.queueing.cycle import (
    ROOM_PERIOD,
    AdmissionCore,
    Admit,
    Broken,
    NotAdmitted,
    Outcome,
    Preempt,
)
from extender.queueing.lifecycle import LifecycleRules
from extender.queueing.preempt import Victim
from extender.queueing.rules import AdmissionOptions, AdmissionRules, PodsReady, requires_room
from extender.queueing.status import Absent, standing
from extender.room.nodes import NodeRoom
from extender.state.cluster.view import ClusterView
from extender.state.queue import events
from extender.state.queue.events import QueueChange
from extender.state.queue.records import AdmissionInfo, WorkloadInfo
from extender.state.queue.store import Queues
from gang_tools.snapshot.file import StoppedClock

MOST_CYCLES: Final = 1000
"""The most cycles or rounds in one moment: with more, something decides in circles."""


class CircularError(Exception):
    """Decisions of one moment led to others without end."""


@dataclass(frozen=True, slots=True)
class QueueOutlet:
    """The functions that carry out decisions."""

    start: Callable[[str, AdmissionInfo], None]
    """Starts the job of a workload."""
    stop: Callable[[str], None]
    """Stops it: it has to go."""
    after: Callable[[float, Callable[[], None]], None]
    """Calls a function after so many seconds."""
    is_ready: Callable[[WorkloadInfo], bool]
    """Returns whether the pods of its job are ready."""


class AdmissionModel:
    """Admits workloads, one cycle after the other, until nothing is left to be decided."""

    def __init__(
        self,
        queues: Queues,
        cluster: ClusterView,
        clock: StoppedClock,
        *,
        options: AdmissionOptions,
        outlet: QueueOutlet,
    ) -> None:
        self._queues, self._view, self._cluster = queues, queues.view(), cluster
        self._clock, self._options, self._outlet = clock, options, outlet
        self._core = AdmissionCore(
            self._view,
            AdmissionRules(options, None, self._view.flavors),
            now=clock.wall,
            after=outlet.after,
            wake=self._wake_up,
        )
        self.pending = self._core.pending
        self.room = NodeRoom(self._view, cluster)
        self._changed = {*self._view.workloads}  # a cluster's may wait from the start
        self._released: set[str] = set()
        self._structure = True
        self._wake = False
        self._retries = False
        """True if there is a time at which workloads that lack room are tried."""
        self._gained = (-1, -1)
        self.waits: dict[str, NotAdmitted] = {}
        """The last decision about each workload that waits."""
        self._kept: frozenset[str] = frozenset()
        queues.subscribe(self._note)

    def _note(self, change: QueueChange) -> None:
        self._changed |= change.workloads
        self._released |= change.released
        self._structure = self._structure or change.structure

    def _wake_up(self) -> None:
        self._wake = True

    def absent(self, key: str) -> str:
        """Return why a workload is in no queue, or nothing where it is, or has quota."""
        workload = self._view.workloads.get(key)
        found = standing(workload, self._view, now=self._clock.wall()) if workload else None
        return found.message if isinstance(found, Absent) else ""

    # --- cycles --------------------------------------------------------------------------------

    def run(self) -> bool:
        """Run cycles until none is due; return whether any decided something."""
        self._look_at_room()
        found = False
        for _ in range(MOST_CYCLES):
            self._take_changes()
            if not self._wake:
                self._retry_later()
                return found
            self._wake = False
            found = self._cycle() or found
        raise CircularError(f"more than {MOST_CYCLES} cycles of admission in one moment")

    def _take_changes(self) -> None:
        pending = self.pending
        changed, self._changed = self._changed, set()
        for key in changed:
            self._core.place(key)
            waits = pending.cluster_queue_of(key) is not None
            tried = (waits and not pending.is_inadmissible(key)) or key in self._view.passed
            self._wake = self._wake or tried
            if key not in self._view.workloads:
                self.waits.pop(key, None)
        released, self._released = self._released, set()
        if released:
            self._core.retry_sharing(released)
        if self._structure:
            self._structure, self._wake = False, True
            self._look_at_rules()
            for _ in pending.requeue_all(self._view, self._clock.wall()):
                pass

    def _look_at_rules(self) -> None:
        """Ask for room only where some ClusterQueue does: the answers are the same, and quicker."""
        view, options = self._view, self._options
        queues = view.cluster_queues.values()
        by_room = any(requires_room(each, options, view.flavors) for each in queues)
        room = self.room if by_room else None
        self._core.rules = AdmissionRules(options, room, view.flavors)

    def _look_at_room(self) -> None:
        gained = (self._cluster.capacity_version, self._cluster.nodes_version)
        if gained != self._gained and self.pending.lacks_capacity:
            self._gained = gained
            self._sweep()

    def _sweep(self) -> None:
        self.pending.sweep()
        self._wake = True

    def _retry_later(self) -> None:
        """Try again what lacks room: that it has waited long changes what it may have."""
        if self._retries or not self.pending.lacks_capacity:
            return
        self._retries = True

        def retry() -> None:
            self._retries = False
            self._note_followers()
            if self.pending.lacks_capacity:
                self._sweep()

        self._outlet.after(ROOM_PERIOD, retry)

    def _cycle(self) -> bool:
        work = self._core.cycle()
        begun: list[Admit] = []
        victims: list[tuple[str, Victim]] = []
        for outcome in work.pieces():
            if outcome is not None:
                self._take(outcome, begun, victims)
        for admit in begun:
            self._outlet.start(admit.workload, admit.admission)
        for preemptor, victim in victims:
            if self._core.still_evicts(victim.workload, preemptor=preemptor) is not None:
                self.evict(victim)
        self._note_kept()
        self._core.end(work.result())
        return bool(begun or victims)

    def _take(
        self, outcome: Outcome, begun: list[Admit], victims: list[tuple[str, Victim]]
    ) -> None:
        match outcome:
            case Admit(key, admission):
                self._admit(key, admission)
                if not admission.reserved_only:
                    begun.append(outcome)
            case Preempt(key, chosen, message):
                victims += [(key, victim) for victim in chosen]
                self._note_reason(NotAdmitted(key, Unadmitted.WAITING_FOR_PREEMPTED, message))
            case NotAdmitted():
                self._note_reason(outcome)
            case Broken(_, error):
                raise error

    def _admit(self, key: str, admission: AdmissionInfo) -> None:
        workload, now = self._view.workloads[key], self._clock.wall()
        self.waits.pop(key, None)
        pods_ready = self._policy(workload).enabled
        after = lifecycle.reserved(workload, admission, now, pods_ready=pods_ready)
        if workload.admission is not None:
            after = lifecycle.admitted(workload, admission, now)
        self._queues.apply(events.Applied(after))

    def _policy(self, workload: WorkloadInfo) -> PodsReady:
        """Return how long pods may take to be ready."""
        return rules.policy_of(workload, self._view, self._options)

    def await_pods(self, key: str) -> None:
        """Look at an admitted workload, whose pods have no nodes yet, when they are due."""
        workload = self._view.workloads.get(key)
        until = rules.deadline(workload, self._policy(workload)) if workload else None
        if until is not None:
            self._outlet.after(until.at - self._clock.wall(), lambda: self._look_at(key))

    def evict(self, victim: Victim) -> None:
        """Evict a workload that has quota, for another one."""
        before, now = self._view.workloads[victim.workload], self._clock.wall()
        self._queues.apply(
            events.Applied(lifecycle.preempted(before, victim.reason, victim.message, now=now))
        )
        self._outlet.stop(victim.workload)

    def release(self, key: str) -> None:
        """Take the quota back of an evicted workload whose job has stopped."""
        before = self._view.workloads.get(key)
        if before is not None and before.evicted and before.admission is not None:
            self._queues.apply(events.Applied(lifecycle.released(before, self._clock.wall())))
            self._look_at(key)

    # --- the course of a workload --------------------------------------------------------------

    def ready(self, key: str) -> None:
        """Take note that the pods of a workload are ready, where others wait for that."""
        workload = self._view.workloads.get(key)
        if workload is None:
            return
        if self._policy(workload).block_admission:
            new = lifecycle.condition(
                WorkloadCondition.PODS_READY, PodsReadyReason.STARTED, "All pods are ready"
            )
            self._queues.apply(
                events.Applied(lifecycle.with_conditions(workload, self._clock.wall(), new))
            )
            self._wake = True

    def _look_at(self, key: str) -> None:
        """Do what is due for a workload: pods that came too late, the end of a back-off."""
        for _ in range(MOST_CYCLES):
            workload, now = self._view.workloads.get(key), self._clock.wall()
            if workload is None or (workload.admitted and self._outlet.is_ready(workload)):
                return
            rules = LifecycleRules(self._options, self._outlet.is_ready)
            step = lifecycle.decide(workload, self._view, now, orphaned=False, rules=rules)
            if step.deactivate:
                self._queues.apply(events.Applied(replace(workload, active=False)))
            elif step.after is not None:
                self._queues.apply(events.Applied(step.after))
                if step.after.evicted and not workload.evicted:
                    self._outlet.stop(key)
                    return
            else:
                if step.again is not None:
                    self._outlet.after(step.again, lambda: self._look_at(key))
                return
        raise CircularError(f"more than {MOST_CYCLES} steps of {key} in one moment")

    # --- why workloads wait, as far as decisions read it ---------------------------------------

    def _note_reason(self, wait: NotAdmitted) -> None:
        self.waits[wait.workload] = wait
        workload = self._view.workloads.get(wait.workload)
        name = self.pending.cluster_queue_of(wait.workload)
        queue = self._view.cluster_queues.get(name or "")
        if workload is None or not self._options.aging or self._core.rules.room_for(queue) is None:
            return
        if workload.admission is not None:
            return  # it awaits admission checks, or the room that they bring
        written = workload.condition(WorkloadCondition.QUOTA_RESERVED)
        if written is not None and (written.status, written.reason) == ("False", wait.reason):
            return
        after = lifecycle.waiting(workload, wait.reason, wait.message, now=self._clock.wall())
        self._write_room(after, lacks=wait.reason == Unadmitted.WAITING_FOR_ROOM)

    def _write_room(self, workload: WorkloadInfo, *, lacks: bool) -> None:
        kept = self.room.kept_for(workload.key)
        if lacks or kept is not None or workload.holds(WorkloadCondition.ROOM_RESERVED):
            workload = lifecycle.waiting_for_room(workload, kept, now=self._clock.wall())
        self._queues.apply(events.Applied(workload))

    def _note_followers(self) -> None:
        """Give those that were not tried the reason of the equal one before them."""
        for key, tried in [*self.pending.followers()]:
            if key not in self.waits and tried in self.waits:
                self._note_reason(replace(self.waits[tried], workload=key))

    def _note_kept(self) -> None:
        """Write for which workloads room is kept since this cycle, and for which no more."""
        kept = frozenset(self.room.reserved)
        for key in sorted(kept ^ self._kept):
            workload = self._view.workloads.get(key)
            if workload is not None and workload.admission is None and key in self.waits:
                self._write_room(workload, lacks=True)
        self._kept = kept
