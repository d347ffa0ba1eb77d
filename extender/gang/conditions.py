"""The conditions of a group: is it scheduled, does it run, and why not."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import floor
from typing import Final

from extender.api.reasons import EventReason, Reason
from extender.api.wellknown import ConditionType, Phase
from extender.gang.phase import Progress, is_scheduled, runs
from extender.state.cluster.records import ConditionInfo, PodGroupStatusInfo

OURS: Final = frozenset((ConditionType.SCHEDULED, ConditionType.RUNNING, ConditionType.PARTIAL))
"""The conditions that the reconciler answers for."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A condition before it is known since when it holds."""

    type: ConditionType
    holds: bool
    reason: str
    message: str


def scheduled(
    have: Progress,
    need: int,
    *,
    phase: str,
    why: tuple[str, str],
    said: tuple[str, str] | None,
) -> Statement:
    """Return whether the group has its nodes.

    `why` are reason and message of what keeps it from that as far as the cluster shows; where
    nothing does, what the extender has `said` counts.
    """
    kind = ConditionType.SCHEDULED
    if is_scheduled(have, need):
        text = f"{have.bound + have.done} of the {need} pods that it needs have a node or are done"
        return Statement(kind, reason=EventReason.SCHEDULED, holds=True, message=text)
    if phase == Phase.FAILED:
        return Statement(
            kind, reason=EventReason.PODS_FAILED, holds=False, message=_failed(have, need)
        )
    if why[0] == Reason.WAITING_FOR_BIND:
        if said is not None:
            why = said
        elif have.bound:
            text = f"{have.bound} of the {need - have.done} pods that it still needs have a node"
            why = (EventReason.PARTIALLY_SCHEDULED, text)
    return Statement(kind, holds=False, reason=why[0], message=why[1])


def running(have: Progress, need: int, *, phase: str) -> Statement:
    """Return whether the group runs."""
    kind = ConditionType.RUNNING
    text = f"{have.running} of {need} pods run, {have.done} are done"
    if phase == Phase.FINISHED:
        return Statement(kind, reason=EventReason.FINISHED, holds=False, message="")
    if phase == Phase.FAILED:
        return Statement(
            kind, reason=EventReason.PODS_FAILED, holds=False, message=_failed(have, need)
        )
    if runs(have, need):
        return Statement(kind, reason=EventReason.RUNNING, holds=True, message=text)
    reason = EventReason.NOT_RUNNING if is_scheduled(have, need) else EventReason.NOT_SCHEDULED
    return Statement(ConditionType.RUNNING, reason=reason, holds=False, message=text)


def dated(
    statements: Iterable[Statement], *, stored: PodGroupStatusInfo, generation: int, now: float
) -> tuple[ConditionInfo, ...]:
    """Return conditions by type, each with the time when its value last changed."""
    return tuple(
        ConditionInfo(
            type=each.type,
            status=str(each.holds),
            reason=each.reason,
            message=each.message,
            transition=_since(stored.condition(each.type), each, now),
            generation=generation,
        )
        for each in sorted(statements, key=lambda each: each.type)
    )


def ours(status: PodGroupStatusInfo) -> PodGroupStatusInfo:
    """Return a stored status without the fields of other writers."""
    kept = (each for each in status.conditions if each.type in OURS)
    return replace(status, conditions=tuple(sorted(kept, key=lambda each: each.type)))


def permitted(status: PodGroupStatusInfo) -> tuple[str, str] | None:
    """Return reason and message of the Permitted condition of a group that waits."""
    said = status.condition(ConditionType.PERMITTED)
    if said is None or said.status != "False":
        return None
    return said.reason, said.message


def _since(before: ConditionInfo | None, each: Statement, now: float) -> float:
    if before is not None and before.status == str(each.holds):
        return before.transition
    return float(floor(now))


def _failed(have: Progress, need: int) -> str:
    return f"{have.failed} failed, and {have.there} of the {need} pods that it needs are left"
