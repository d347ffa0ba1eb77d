"""Why a group is not scheduled yet."""

from dataclasses import dataclass

from extender.api.wellknown import Reason
from extender.gang.fit import fit
from extender.gang.options import Options
from extender.gang.pre_filter import candidates_for_plan, check_group
from extender.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Pending:
    """What a group waits for."""

    reason: Reason
    message: str


def decide(group: str, *, snapshot: Snapshot, now: float, options: Options) -> Pending:
    """Return what a group waits for."""
    refusal = check_group(group, snapshot=snapshot)
    if refusal is not None:
        return Pending(refusal.reason, refusal.message.partition(": ")[2])
    pod_group = snapshot.pod_group(group)
    assert pod_group is not None
    missing = snapshot.quorum(pod_group) - snapshot.tally(group).committed
    first = next((pod for pod in snapshot.members(group) if pod.node is None), None)
    if first is not None and missing > 0:
        candidates = [first, *candidates_for_plan(first, group, snapshot=snapshot)]
        found = fit(candidates, missing, snapshot=snapshot, sent=(), complete=False)
        if not found.complete:
            return Pending(Reason.NOT_ENOUGH_RESOURCES, found.sentence())
    return Pending(Reason.WAITING_FOR_BIND, "its pods are on their way")
