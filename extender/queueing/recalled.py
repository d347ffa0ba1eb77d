"""Which victims each preemptor waits for, as the victims' conditions say: for a new leader."""

from collections.abc import Iterable

from extender.api.wellknown import WorkloadCondition
from extender.queueing.pending import PendingQueues
from extender.queueing.preemption import preemptor_named_in
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.view import QueueView

Recalled = tuple[float, str, str]
"""Since when a victim is preempted, in seconds since the epoch; its preemptor; the victim."""


def recalled(victim: WorkloadInfo, view: QueueView) -> Recalled | None:
    """Return for which workload one was preempted that has not been admitted since."""
    said = victim.condition(WorkloadCondition.PREEMPTED)
    if said is None or said.status != "True" or victim.finished:
        return None
    named = preemptor_named_in(said.message)
    if named is None:
        return None
    key, uid = named
    found = view.workloads.get(key)
    return (said.transition, key, victim.key) if found and found.meta.uid == uid else None


def recall(found: Iterable[Recalled], pending: PendingQueues) -> None:
    """Have the preemptors that still wait expect their victims, in the order of these."""
    for _, key, victim in sorted(found):
        if pending.cluster_queue_of(key) is not None:
            victims = pending.preemptors.victims(key)
            pending.preemptors.expect(key, victims | {victim}, chosen=True)
