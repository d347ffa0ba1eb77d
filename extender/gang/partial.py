"""Gangs that have started and then lost so many pods that they are no gang any more.

Members that had their nodes may be evicted or lost with their node, while the room for those that
replace them is gone: then the rest holds its room and may be of no use. Nothing of the kind happens
while a gang starts; that is Permit's work.

Since when a gang is partial is told by its own condition `Partial` in the API, and that it has been
dealt with by that condition's reason. So a restart forgets neither.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import floor

from extender.api.wellknown import Aspect, Told
from extender.gang.conditions import Statement
from extender.gang.phase import Progress
from extender.state.pod_groups import ConditionInfo
from extender.state.pods import PodInfo


class OnPartial(StrEnum):
    """What becomes of a gang that has been partial for longer than its schedule time-out."""

    KEEP = "keep"
    """Its pods stay where they are, and an Event tells."""
    EVICT = "evict"
    """Its pods are evicted, so that the gang starts anew as a whole."""


@dataclass(frozen=True, slots=True)
class Partial:
    """What is said of a gang, whom to evict, and in how many seconds to look again."""

    statement: Statement | None = None
    evict: tuple[PodInfo, ...] = ()
    look_again: float | None = None


def policy(annotation: str | None, default: OnPartial) -> OnPartial:
    """Return what the annotation of a PodGroup asks for; a word that there is not says nothing."""
    return next((each for each in OnPartial if each == annotation), default)


@dataclass(frozen=True, slots=True)
class Rules:
    """How long a gang may be partial, in seconds, and what becomes of it then."""

    patience: float
    then: OnPartial


def decide(
    pods: Iterable[PodInfo],
    have: Progress,
    *,
    quorum: int,
    before: ConditionInfo | None,
    now: float,
    rules: Rules,
) -> Partial:
    """Return what becomes of a gang of which some live members have a node and others do not.

    `quorum` is what it needs besides the pods that are done, `before` its condition so far.
    """
    if not 0 < have.bound < min(quorum, have.live):
        return Partial(_over(have) if before is not None else None)
    text = f"{have.bound} of the {quorum} pods that it still needs have a node"
    since = before.transition if before is not None and before.status == "True" else floor(now)
    left = since + rules.patience - now
    if left > 0:
        statement = Statement(
            Aspect.PARTIAL, reason=Told.PARTIALLY_SCHEDULED, holds=True, message=text
        )
        return Partial(statement, look_again=left)
    if rules.then is OnPartial.KEEP:
        return Partial(
            Statement(Aspect.PARTIAL, reason=Told.PARTIAL_GANG, holds=True, message=text)
        )
    evict = tuple(pod for pod in pods if _holds_room(pod))
    return Partial(
        Statement(Aspect.PARTIAL, reason=Told.EVICTED, holds=True, message=text), evict=evict
    )


def _over(have: Progress) -> Statement:
    return Statement(
        Aspect.PARTIAL,
        reason=Told.WHOLE if have.bound else Told.NOT_SCHEDULED,
        holds=False,
        message="",
    )


def _holds_room(pod: PodInfo) -> bool:
    return pod.node is not None and not pod.terminating and not pod.finished
