"""Gangs that have started and then lost so many pods that they are no gang any more.

Members that had their nodes may be evicted or lost with their node, while the room for those that
replace them is gone: then the rest holds its room and may be of no use. Nothing of the kind happens
while a gang starts; that is Permit's work.

Since when a gang is partial is told by its own condition `Partial` in the API, and that it has been
dealt with by that condition's reason. So a restart forgets neither.
"""

from dataclasses import dataclass
from enum import StrEnum

from extender.api.wellknown import Aspect, Told
from extender.gang.conditions import Statement
from extender.gang.phase import Progress
from extender.state.group_status import GroupStatus
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
    known = annotation is not None and annotation in set(OnPartial)
    return OnPartial(annotation) if known else default


def decide(
    pods: list[PodInfo],
    have: Progress,
    *,
    need: int,
    stored: GroupStatus,
    now: float,
    patience: float,
    on_partial: OnPartial,
) -> Partial:
    """Return what becomes of a gang of which some live members have a node and others do not.

    `patience` is its schedule time-out in seconds. Pods that have ended count as there.
    """
    before = stored.condition(Aspect.PARTIAL)
    quorum = need - have.done
    if not 0 < have.bound < min(quorum, have.live):
        return Partial(_over(have, before is not None))
    text = f"{have.bound} of the {quorum} pods that it still needs have a node"
    since = before.since if before is not None and before.holds else now
    left = since + patience - now
    if left > 0:
        statement = Statement(Aspect.PARTIAL, True, Told.PARTIALLY_SCHEDULED, text)
        return Partial(statement, look_again=left)
    if on_partial is OnPartial.KEEP:
        return Partial(Statement(Aspect.PARTIAL, True, Told.PARTIAL_GANG, text))
    evict = tuple(pod for pod in pods if _holds_room(pod))
    return Partial(Statement(Aspect.PARTIAL, True, Told.EVICTED, text), evict=evict)


def _over(have: Progress, was_told: bool) -> Statement | None:  # noqa: FBT001 - two readings of one fact
    if not was_told:
        return None
    return Statement(Aspect.PARTIAL, False, Told.WHOLE if have.bound else Told.NOT_SCHEDULED, "")


def _holds_room(pod: PodInfo) -> bool:
    return pod.node is not None and not pod.terminating and not pod.finished
