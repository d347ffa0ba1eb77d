"""Decides about gangs that have started and are no longer whole.

Members may be evicted or lost with their node, or one binding may fail for good after quorum, while
there is no room for a replacement: the other members then hold their room and may be of no use.

A node that another scheduler has filled refuses a member that is bound to it (`OutOfcpu`). If that
happens at the start, the gang never was whole: it starts again as a whole, unless the replacement
of the member finds room in time.

An eviction cannot be taken back. The gang must therefore have started as a whole by this scheduler,
with its PodGroup as it is now. The process that evicts must itself have seen the gang partial with
the same pods for its time-out and, unless set otherwise, for the minute in which bindings are
retried. The condition `Partial` says since when the gang is partial, and by its reason whether that
has been dealt with: a restart repeats no Event, and waits anew before it evicts.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from extender.api.reasons import EventReason, Reason
from extender.api.wellknown import ConditionType
from extender.gang.phase import Progress, Statement
from extender.gang.verdicts import OnPartial, OnPartialOverrides, Pending
from extender.state.cluster.records import ConditionInfo, PodGroupStatusInfo, PodInfo


@dataclass(frozen=True, slots=True)
class Partial:
    """The condition of a gang, the pods to evict, and the seconds until the next look."""

    statement: Statement | None = None
    evict: tuple[PodInfo, ...] = ()
    look_again: float | None = None


def policy(
    annotation: str | None, default: OnPartial, overrides: OnPartialOverrides = "evict"
) -> OnPartial:
    """Return the policy of a PodGroup with this annotation; an unknown value is ignored."""
    asked = next((each for each in OnPartial if each == annotation), default)
    return asked if overrides in ("any", asked.value) else default


@dataclass(frozen=True, slots=True)
class Watched:
    """The settings for partial gangs, and the seconds for which one has been seen unchanged."""

    default: OnPartial = OnPartial.KEEP
    seconds: float = 0.0
    overrides: OnPartialOverrides = "evict"
    why: Pending | None = None
    """The answer to what the group waits for, if it was worked out before: that may take long."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The seconds for which a gang may be partial, and its fate after that."""

    patience: float
    then: OnPartial
    watched: float
    """The seconds for which this process has seen the same pods with nodes, and too few of them."""
    begun: bool
    """True if the gang has once started as a whole."""
    shows_whole: bool
    """True if the status alone shows that. The status is then kept while the gang lacks pods."""


def has_begun(pods: Iterable[PodInfo], *, stored: PodGroupStatusInfo, generation: int) -> bool:
    """Return whether a group that lacks nodes for some members has once started as a gang.

    Either it was whole with its PodGroup as it is now; or its PodGroup was never changed, and all
    members have the same scheduler, which binds none without quorum.
    """
    live = [pod for pod in pods if not pod.finished]
    return was_whole(stored, generation=generation) or (
        generation <= 1 and len({pod.scheduler for pod in live}) == 1
    )


def was_whole(stored: PodGroupStatusInfo, *, generation: int) -> bool:
    """Return whether a group was whole with its PodGroup as it is now, and has kept some nodes.

    Its conditions say that it is whole, or partial, or waits for pods to replace lost ones.
    """
    whole, part = (stored.condition(k) for k in (ConditionType.SCHEDULED, ConditionType.PARTIAL))
    if whole is not None and whole.generation == generation and whole.status == "True":
        return True
    return (
        part is not None
        and part.generation == generation
        and (part.status == "True" or part.reason == Reason.NOT_ENOUGH_PODS)
    )


def refused_at_start(pods: Iterable[PodInfo]) -> bool:
    """Return whether a node refused a pod in the start in which the bound pods got their nodes.

    The refused pod was created before they had nodes, so it does not replace a pod that ran with
    them. It was refused after they were created, so it is not of an earlier start. The API server's
    times are whole seconds.
    """
    pods = list(pods)
    bound = [pod for pod in pods if pod.node is not None and not pod.finished]
    if not bound:
        return False
    made, placed = min(pod.created for pod in bound), min(pod.bound_at for pod in bound)
    return any(
        pod.refused_at is not None and pod.created <= placed and pod.refused_at >= made
        for pod in pods
    )


def decide(
    pods: Iterable[PodInfo],
    have: Progress,
    *,
    quorum: int,
    before: ConditionInfo | None,
    now: float,
    rules: Rules,
) -> Partial:
    """Return what to do about a gang of which some live members have a node and others do not.

    `quorum` is the number of pods that it needs besides those that are done, `before` its condition
    so far. A gang that was whole and lacks pods gets a condition too: new pods may find no room.
    """
    text = f"{have.bound} of the {quorum} pods that it still needs have a node"
    if rules.shows_whole and 0 < have.bound < quorum and have.bound >= have.live:
        return Partial(
            Statement(
                ConditionType.PARTIAL,
                holds=False,
                reason=Reason.NOT_ENOUGH_PODS,
                message=f"{text}, and it has no others",
            )
        )
    if not rules.begun or not 0 < have.bound < min(quorum, have.live):
        if before is None:
            return Partial()
        reason = EventReason.WHOLE if 0 < have.bound >= quorum else EventReason.NOT_SCHEDULED
        return Partial(Statement(ConditionType.PARTIAL, holds=False, reason=reason, message=""))
    since = before.transition if before is not None and before.status == "True" else ceil(now)
    left = max(since + rules.patience - now, rules.patience - rules.watched)
    if left > 0:
        return Partial(_holds(EventReason.PARTIALLY_SCHEDULED, text), look_again=left)
    # A pod without an owner would be gone for good.
    on_nodes = (p for p in pods if p.node is not None and not p.terminating and not p.finished)
    evict = tuple(pod for pod in on_nodes if pod.owners)
    if rules.then is OnPartial.KEEP or not evict:
        return Partial(_holds(EventReason.PARTIAL_GANG, text))
    return Partial(_holds(EventReason.EVICTED, text), evict=evict)


def _holds(reason: EventReason, text: str) -> Statement:
    return Statement(ConditionType.PARTIAL, reason=reason, holds=True, message=text)
