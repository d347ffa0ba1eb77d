"""The status, Events and evictions of one group, decided in one step."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from extender.api.reasons import EventReason, Reason
from extender.api.wellknown import ON_PARTIAL_ANNOTATION, ConditionType
from extender.gang import conditions, partial, pending, phase, readiness, waves
from extender.gang.options import GangOptions
from extender.gang.partial import OnPartial, Rules, Watched
from extender.gang.preemption import nominating
from extender.gang.readiness import Readiness
from extender.gang.verdicts import Pending
from extender.state.cluster.records import (
    ConditionInfo,
    PodGroupInfo,
    PodGroupStatusInfo,
    PodInfo,
)
from extender.state.cluster.reservations import Claim
from extender.state.cluster.view import ClusterView

LOOK_AGAIN: Final = 10.0
"""Seconds. A group waits for room on any node; most of that changes without the group."""
LOOKS_A_SECOND: Final = 10
"""At groups that wait for room, all together: each look fits a gang on all nodes."""

UNWATCHED: Final = Watched()
_BAD: Final = frozenset((
    Reason.NEVER_FITS, Reason.NOT_ENOUGH_RESOURCES, Reason.SCHEDULE_TIMEOUT,
    Reason.MEMBER_UNSCHEDULABLE, EventReason.PODS_FAILED,
))  # fmt: skip

_CLAIMING: Final = frozenset((Reason.NOT_ENOUGH_RESOURCES, Reason.WAITING_FOR_TURN))
"""What a group waits for that has a claim, or would have one but for a limit."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One Event about the group; the same `key` is the same occasion, written once."""

    reason: str
    note: str
    action: str
    warning: bool = False
    key: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What the group's status is now, which Events to write, and what to do."""

    status: PodGroupStatusInfo
    notices: tuple[Notice, ...] = ()
    evict: tuple[PodInfo, ...] = ()
    readiness: Readiness | None = None
    look_again: float | None = None


def decide(
    pod_group: PodGroupInfo,
    *,
    view: ClusterView,
    stored: PodGroupStatusInfo,
    now: float,
    options: GangOptions,
    watched: Watched = UNWATCHED,
) -> Report:
    """Return the report on a group whose status so far is `stored`; `now` since the epoch."""
    group, need = pod_group.key, pod_group.min_member
    pods = [*view.members(group), *view.finished(group).values()]
    said = conditions.permitted(pod_group.status)
    jobs = _jobs(pod_group, pods, view)
    status = phase.decide(
        pods,
        need=need,
        jobs=jobs,
        stored=stored,
        now=now,
        waiting=said is not None and said[0] == Reason.WAITING_FOR_BIND,
    )
    # What has succeeded counts though the pods are gone: see `phase.decide`.
    done = max(status.succeeded - jobs.replaced, jobs.done) if jobs else status.succeeded
    have = replace(phase.progress(pods), done=done)
    begun = partial.has_begun(pods, stored=stored, generation=pod_group.generation)
    then = partial.policy(pod_group.on_partial, watched.default, watched.overrides)
    if pod_group.on_partial != OnPartial.KEEP and partial.refused_at_start(pods):
        then = then if then is OnPartial.EVICT else options.on_refused
    split = partial.decide(
        pods,
        have,
        # In a later wave a pod that waits does not make the others useless: none is evicted for it.
        quorum=need - max(status.succeeded, done),
        before=stored.condition(ConditionType.PARTIAL),
        now=now,
        rules=Rules(
            options.timeout(pod_group.schedule_timeout),
            then,
            options.evict_after,
            watched.seconds,
            begun,
            # Before its first change its pods alone show that it has begun.
            pod_group.generation > 1 and partial.was_whole(stored, generation=pod_group.generation),
        ),
    )
    whole = phase.is_scheduled(have, need)
    why = None if whole else watched.why
    if not whole and why is None:
        why = pending.decide(group, view=view, options=options)
    claim = view.claims.get(group) if why and why.reason in _CLAIMING else None
    statements = [
        conditions.scheduled(
            have,
            need,
            phase=status.phase,
            why=(why.reason, why.message + _aside(claim) + _room(pod_group, why))
            if why
            else ("", ""),
            said=said,
        ),
        conditions.running(have, need, phase=status.phase),
        *([split.statement] if split.statement else []),
    ]
    status = replace(
        status,
        conditions=conditions.dated(
            statements, stored=stored, generation=pod_group.generation, now=now
        ),
    )
    return Report(
        status=status,
        notices=(
            *_changes(stored, status),
            *_mixed_priorities(pods),
            *_policy(pod_group.on_partial, watched),
            *_claim(claim),
        ),
        evict=split.evict,
        readiness=readiness.decide(
            pods,
            need=need,
            done=done,
            broken={pod.node for pod in pods if pod.node and _is_broken(pod.node, view)},
        ),
        look_again=_look_again(
            waits=bool(pods) and not whole,
            partial=split.look_again,
            all_waiting=len(view.queue),
        ),
    )


def counts_alone(before: PodGroupStatusInfo, after: PodGroupStatusInfo) -> bool:
    """Return whether nothing differs but counts, and texts of conditions, which have counts."""
    return _without_counts(before) == _without_counts(after)


def _without_counts(status: PodGroupStatusInfo) -> PodGroupStatusInfo:
    silent = tuple(replace(each, message="") for each in status.conditions)
    return replace(status, scheduled=0, running=0, succeeded=0, failed=0, conditions=silent)


def _jobs(pod_group: PodGroupInfo, pods: Iterable[PodInfo], view: ClusterView) -> phase.Jobs | None:
    if not view.has_unfinished_jobs(pod_group.key):
        return None
    done = pod_group.min_member - view.quorum(pod_group)
    return phase.Jobs(done, waves.replaced(pods, view=view))


def _is_broken(name: str, view: ClusterView) -> bool:
    node = view.nodes.get(name)
    return node is not None and not node.ready


def _look_again(*, waits: bool, partial: float | None, all_waiting: int) -> float | None:
    regular = max(LOOK_AGAIN, all_waiting / LOOKS_A_SECOND)
    if partial is not None:
        return min(partial, regular)
    return regular if waits else None


def _changes(stored: PodGroupStatusInfo, status: PodGroupStatusInfo) -> Iterable[Notice]:
    """Yield what is worth an Event: another reason, not another number."""
    for now in status.conditions:
        before = stored.condition(now.type)
        if before is not None and before.reason == now.reason:
            continue
        if now.type == ConditionType.SCHEDULED:
            yield _notice(now, now.reason, "Scheduling", warning=now.reason in _BAD)
        elif now.type == ConditionType.PARTIAL and now.reason in {
            EventReason.PARTIAL_GANG,
            EventReason.EVICTED,
        }:
            action = "Evicting" if now.reason == EventReason.EVICTED else "Keeping"
            yield _notice(now, EventReason.PARTIAL_GANG, action, warning=True)


def _notice(condition: ConditionInfo, reason: str, action: str, *, warning: bool) -> Notice:
    return Notice(reason, condition.message, action, warning)


def _mixed_priorities(pods: Iterable[PodInfo]) -> Iterable[Notice]:
    priorities = sorted({pod.priority for pod in pods if not pod.finished})
    if len(priorities) > 1:
        listed = ", ".join(map(str, priorities))
        note = f"its pods have the priorities {listed}; {priorities[0]} counts"
        yield Notice(EventReason.MIXED_PRIORITIES, note, "Comparing", warning=True, key=listed)


def _policy(asked: str | None, watched: Watched) -> Iterable[Notice]:
    """Yield an Event about an annotation that does not count."""
    counts = partial.policy(asked, watched.default, watched.overrides)
    if asked is None or asked == counts:
        return
    if asked in set(OnPartial):
        reason = EventReason.POLICY_LIMITED
        note = f"{ON_PARTIAL_ANNOTATION}={asked} is not allowed by the settings; {counts} counts"
    else:
        reason = EventReason.UNKNOWN_POLICY
        note = f"{ON_PARTIAL_ANNOTATION} should be keep or evict; {counts} counts"
    yield Notice(reason, note, "Reading", warning=True, key=f"policy {asked}")


def _aside(claim: Claim | None) -> str:
    """Return why no nodes are set aside for a group that waits long, as the end of a sentence."""
    if claim is None or claim.limit is None:
        return ""
    nodes = f"{claim.limit} node{'s' * (claim.limit != 1)}"
    return f"; no nodes are set aside for it: the groups of a namespace may claim {nodes}"


def _room(pod_group: PodGroupInfo, why: Pending) -> str:
    """Return what makes room for a group that preempts, as the end of a sentence."""
    chosen = pod_group.nomination
    return f"; {nominating.sentence(chosen)}" if chosen and why.reason in _CLAIMING else ""


def _claim(claim: Claim | None) -> Iterable[Notice]:
    """Yield that a group needs more nodes than may be set aside for its namespace."""
    if claim is None or claim.limit is None:
        return
    note = (
        f"it needs more nodes than are left of the {claim.limit} on which the groups of its "
        "namespace may have claims: gang.claimNodesPercentage is the administrator's limit"
    )
    yield Notice(
        EventReason.CLAIM_LIMITED, note, "Claiming", warning=True, key=f"claim {claim.limit}"
    )
