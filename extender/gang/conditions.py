"""What is said of a group besides its phase: is it scheduled, does it run, and why not."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import floor
from typing import Final

from extender.api.wellknown import Aspect, Phase, Reason, Told
from extender.gang.phase import Progress, is_scheduled, runs
from extender.state.group_status import Condition, GroupStatus

OURS: Final = frozenset((Aspect.SCHEDULED, Aspect.RUNNING, Aspect.PARTIAL))
"""The conditions that the reconciler answers for."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A condition before it is known since when it holds."""

    type: Aspect
    holds: bool
    reason: str
    message: str


def scheduled(
    have: Progress,
    need: int,
    *,
    phase: str,
    why: tuple[str, str],
    permitted: tuple[str, str] | None,
) -> Statement:
    """Return whether the group has its nodes.

    `why` are reason and message of what keeps it from that as far as the cluster shows; where
    nothing does, what the extender last said counts.
    """
    if is_scheduled(have, need):
        text = f"{have.bound + have.done} of the {need} pods that it needs have a node or are done"
        return Statement(Aspect.SCHEDULED, True, Told.SCHEDULED, text)
    if phase == Phase.FAILED:
        return Statement(Aspect.SCHEDULED, False, Told.PODS_FAILED, _failed(have, need))
    if why[0] == Reason.WAITING_FOR_BIND:
        if permitted is not None and permitted[0] != Reason.QUORUM_REACHED:
            why = permitted
        elif have.bound:
            text = f"{have.bound} of the {need - have.done} pods that it still needs have a node"
            why = (Told.PARTIALLY_SCHEDULED, text)
    return Statement(Aspect.SCHEDULED, False, *why)


def running(have: Progress, need: int, *, phase: str) -> Statement:
    """Return whether the group runs."""
    text = f"{have.running} of {need} pods run, {have.done} have succeeded"
    if phase == Phase.FINISHED:
        return Statement(Aspect.RUNNING, False, Told.FINISHED, "")
    if phase == Phase.FAILED:
        return Statement(Aspect.RUNNING, False, Told.PODS_FAILED, _failed(have, need))
    if runs(have, need):
        return Statement(Aspect.RUNNING, True, Told.RUNNING, text)
    reason = Told.NOT_RUNNING if is_scheduled(have, need) else Told.NOT_SCHEDULED
    return Statement(Aspect.RUNNING, False, reason, text)


def dated(
    statements: Iterable[Statement], *, stored: GroupStatus, generation: int, now: float
) -> tuple[Condition, ...]:
    """Return conditions by type, each since its value last changed."""
    before: Mapping[str, Condition] = {each.type: each for each in stored.conditions}
    return tuple(
        Condition(
            type=each.type,
            holds=each.holds,
            reason=each.reason,
            message=each.message,
            since=_since(before.get(each.type), each, now),
            generation=generation,
        )
        for each in sorted(statements, key=lambda each: each.type)
    )


def _since(before: Condition | None, each: Statement, now: float) -> float:
    same = before is not None and before.holds == each.holds
    return before.since if same and before is not None else float(floor(now))


def _failed(have: Progress, need: int) -> str:
    return f"{have.failed} failed, and {have.there} of the {need} pods that it needs are left"
