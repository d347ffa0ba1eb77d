"""The status of one group: its phase, conditions, Events and evictions, decided in one step."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from math import floor
from typing import Final, NamedTuple

from extender.api.reasons import TOO_LARGE, EventReason, Reason
from extender.api.wellknown import (
    DISRUPTION_BUDGET,
    ENDS,
    ON_PARTIAL_ANNOTATION,
    ConditionType,
    Phase,
)
from extender.fit.candidates import is_feasible
from extender.gang import budgets, gates, phase, preempt
from extender.gang.fit import Fit, beyond_requests, candidates, finds_no_node, listed
from extender.gang.gates import cannot_start
from extender.gang.phase import Progress, Statement, Watched, is_scheduled, runs
from extender.gang.release import MOST_TRIED, movable, tried_domains
from extender.gang.verdicts import GangOptions, OnPartial, Pending, Refuse, about, not_admitted
from extender.state.cluster.records import (
    ConditionInfo,
    PodGroupInfo,
    PodGroupStatusInfo,
    PodInfo,
)
from extender.state.cluster.reservations import Claim
from extender.state.cluster.view import ClusterView
from extender.steps import Steps, at_once

LOOK_AGAIN: Final = 10.0
"""The seconds after which a waiting group is looked at again: room changes without the group."""
LOOKS_A_SECOND: Final = 10
"""The number of looks per second at all waiting groups: each look fits a gang on all nodes."""

UNWATCHED: Final = Watched()
_BAD: Final = frozenset((
    Reason.NEVER_FITS, Reason.NOT_ENOUGH_RESOURCES, Reason.SCHEDULE_TIMEOUT,
    Reason.MEMBER_UNSCHEDULABLE, EventReason.PODS_FAILED,
))  # fmt: skip

_ACTED_ON: Final = frozenset((EventReason.PARTIAL_GANG, EventReason.EVICTED))
_ON_ITS_WAY: Final = frozenset((
    Reason.NOT_ENOUGH_PODS, Reason.WAITING_FOR_BIND, EventReason.PARTIALLY_SCHEDULED,
))  # fmt: skip
"""The reasons that every group passes before it starts: they are in conditions, not in Events."""

_CLAIMING: Final = frozenset((Reason.NOT_ENOUGH_RESOURCES, Reason.WAITING_FOR_TURN))
"""The reasons of a group that has a claim, or would have one but for a limit."""


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
    """The status of the group, the Events beside those of its `changes`, and the actions."""

    status: PodGroupStatusInfo
    notices: tuple[Notice, ...] = ()
    evict: tuple[PodInfo, ...] = ()
    move: tuple[PodInfo, ...] = ()
    """Pods that are to be made anew, for another domain, once the status says so."""
    readiness: "Readiness | None" = None
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
    said = said_permitted(pod_group.status)
    jobs = None
    if view.has_unfinished_jobs(group):
        jobs = phase.Jobs(need - view.quorum(pod_group), phase.replaced_pods(pods, view=view))
    status = phase.decide(
        pods,
        need=need,
        jobs=jobs,
        stored=stored,
        now=now,
        waiting=said is not None and said[0] == Reason.WAITING_FOR_BIND,
    )
    # Succeeded pods count though they may be gone: see `phase.decide`.
    done = max(status.succeeded - jobs.replaced, jobs.done) if jobs else status.succeeded
    have = replace(phase.progress(pods), done=done)
    split = phase.decide_partial(
        pod_group,
        pods,
        have,
        # In a later wave a waiting pod does not make the others useless, so none is evicted.
        quorum=need - max(status.succeeded, done),
        stored=stored,
        now=now,
        options=options,
        watched=watched,
    )
    places = {pod.node for pod in pods if pod.node is not None and pod.node in view.nodes}
    whole = phase.is_scheduled(have, need)
    why = None if whole else watched.why
    if not whole and why is None:
        why = pending_of(group, view=view, options=options)
    claim = view.claims.get(group) if why and why.reason in _CLAIMING else None
    statements = [
        scheduled(
            have,
            need,
            phase=status.phase,
            why=(
                why.reason,
                why.message + _aside(claim) + _room(pod_group, why) + _uncounted(pod_group, view),
            )
            if why
            else ("", ""),
            said=said,
        ),
        running(have, need, phase=status.phase),
        *([split.statement] if split.statement else []),
        *(() if whole else _tried(stored, watched.gives_up)),
    ]
    status = replace(
        status,
        conditions=dated(statements, stored=stored, generation=pod_group.generation, now=now),
    )
    look_again = max(LOOK_AGAIN, len(view.queue) / LOOKS_A_SECOND)
    if split.look_again is not None:
        look_again = min(look_again, split.look_again)
    waits = split.look_again is not None or (bool(pods) and not whole)
    return Report(
        status=status,
        notices=(
            *_mixed_priorities(pods),
            *_policy(pod_group.on_partial, watched),
            *_protection(pod_group.disruption_budget),
            *_in_order(watched, why),
            *_claim(claim),
            *_given_up(pod_group, watched.gives_up),
        ),
        evict=split.evict,
        move=movable(pod_group, view=view) if watched.gives_up is not None else (),
        readiness=readiness_of(
            pods,
            need=need,
            done=done,
            broken={name for name in places if not view.nodes[name].ready},
        ),
        look_again=look_again if waits else None,
    )


def may_wait(before: PodGroupStatusInfo, after: PodGroupStatusInfo) -> bool:
    """Return whether a status may be written later: a group is on its way, or its pods end.

    Its end is written at once, and so is what is done about it: a restart finds it there.
    """
    ends = after.phase in ENDS and after.phase != before.phase
    return not ends and _done_about(after) <= _done_about(before)


def only_counts(before: PodGroupStatusInfo, after: PodGroupStatusInfo) -> bool:
    """Return whether nothing but the counts of a running group has changed: nobody acts on them."""
    said = [[(each.type, each.reason) for each in status.conditions] for status in (before, after)]
    return before.phase == after.phase == Phase.RUNNING and said[0] == said[1]


def _done_about(status: PodGroupStatusInfo) -> set[str]:
    part, tried = map(status.condition, (ConditionType.PARTIAL, ConditionType.DOMAINS_TRIED))
    acted = {part.reason} & _ACTED_ON if part is not None else set()
    return acted | ({tried.message} if tried is not None else set())


def changes(before: PodGroupStatusInfo, after: PodGroupStatusInfo) -> Iterable[Notice]:
    """Yield an Event for each condition with a new reason that lasts; numbers are worth none."""
    for now in after.conditions:
        said = before.condition(now.type)
        if said is not None and said.reason == now.reason:
            continue
        if now.type == ConditionType.SCHEDULED and now.reason not in _ON_ITS_WAY:
            yield Notice(now.reason, now.message, "Scheduling", warning=now.reason in _BAD)
        elif now.type == ConditionType.PARTIAL and now.reason in _ACTED_ON:
            action = "Evicting" if now.reason == EventReason.EVICTED else "Keeping"
            yield Notice(EventReason.PARTIAL_GANG, now.message, action, warning=True)


def _mixed_priorities(pods: Iterable[PodInfo]) -> Iterable[Notice]:
    priorities = sorted({pod.priority for pod in pods if not pod.finished})
    if len(priorities) > 1:
        listed = ", ".join(map(str, priorities))
        note = f"its pods have the priorities {listed}; {priorities[0]} counts"
        yield Notice(EventReason.MIXED_PRIORITIES, note, "Comparing", warning=True, key=listed)


def _policy(asked: str | None, watched: Watched) -> Iterable[Notice]:
    """Yield an Event about an annotation that is not followed."""
    counts = phase.policy(asked, watched.default, watched.overrides)
    if asked is None or asked == counts:
        return
    if asked in set(OnPartial):
        reason = EventReason.POLICY_LIMITED
        note = f"{ON_PARTIAL_ANNOTATION}={asked} is not allowed by the settings; {counts} counts"
    else:
        reason = EventReason.UNKNOWN_POLICY
        note = f"{ON_PARTIAL_ANNOTATION} should be keep, evict or restart; {counts} counts"
    yield Notice(reason, note, "Reading", warning=True, key=f"policy {asked}")


def _protection(asked: str | None) -> Iterable[Notice]:
    """Yield an Event about an annotation for the disruption budget that has no such value."""
    if not budgets.is_known(asked):
        note = f"{DISRUPTION_BUDGET} should be true or false; true counts"
        key = f"budget {asked}"
        yield Notice(EventReason.UNKNOWN_POLICY, note, "Reading", warning=True, key=key)


def _in_order(watched: Watched, why: Pending | None) -> Iterable[Notice]:
    """Yield an Event about pods that are made only when others of the gang are ready."""
    if watched.in_order and why is not None:
        note = why.message
        yield Notice(EventReason.STARTS_IN_ORDER, note, "Waiting", warning=True, key="in order")


def _aside(claim: Claim | None) -> str:
    """Return why no nodes are set aside for a group that waits long, as the end of a sentence."""
    if claim is None or claim.limit is None:
        return ""
    nodes = f"{claim.limit} node{'s' * (claim.limit != 1)}"
    return f"; no nodes are set aside for it: the groups of a namespace may claim {nodes}"


def _room(pod_group: PodGroupInfo, why: Pending) -> str:
    """Return which victims make room for a group that preempts, as the end of a sentence."""
    chosen = pod_group.nomination
    return f"; {preempt.sentence(chosen)}" if chosen and why.reason in _CLAIMING else ""


def _tried(stored: PodGroupStatusInfo, more: str | None) -> Iterable[Statement]:
    """Yield the condition with the domains that were given up; the oldest are forgotten."""
    found = [*tried_domains(stored)]
    if more is not None:
        found = [*(each for each in found if each != more), more][-MOST_TRIED:]
    if found:
        kind, reason = ConditionType.DOMAINS_TRIED, EventReason.NO_NODES_IN_TIME
        yield Statement(kind, holds=True, reason=reason, message=", ".join(found))


def _given_up(pod_group: PodGroupInfo, domain: str | None) -> Iterable[Notice]:
    if domain is not None:
        text = f"no node came in time where '{pod_group.required_topology}' is '{domain}'"
        note = f"{text}: its pods are made anew, for another domain"
        yield Notice(EventReason.NO_NODES_IN_TIME, note, "Moving", warning=True)


def _uncounted(pod_group: PodGroupInfo, view: ClusterView) -> str:
    """Return which minResources do not count, as the end of a sentence."""
    if not (view.growing and pod_group.min_resources and view.tally(pod_group.key).members):
        return ""
    found = beyond_requests(pod_group, view=view)
    text = "; of its minResources, what its pods do not request does not count: "
    return text + listed(found) if found else ""


def _claim(claim: Claim | None) -> Iterable[Notice]:
    """Yield an Event if a group needs more nodes than may be set aside for its namespace."""
    if claim is None or claim.limit is None:
        return
    note = (
        f"it needs more nodes than are left of the {claim.limit} on which the groups of its "
        "namespace may have claims: gang.claimNodesPercentage is the administrator's limit"
    )
    yield Notice(
        EventReason.CLAIM_LIMITED, note, "Claiming", warning=True, key=f"claim {claim.limit}"
    )


# --- conditions --------------------------------------------------------------------------------


OURS: Final = frozenset((
    *(ConditionType.SCHEDULED, ConditionType.RUNNING, ConditionType.PARTIAL),
    ConditionType.DOMAINS_TRIED,
))  # fmt: skip
"""The conditions that the reconciler writes."""


def scheduled(
    have: Progress,
    need: int,
    *,
    phase: str,
    why: tuple[str, str],
    said: tuple[str, str] | None,
) -> Statement:
    """Return the condition Scheduled, which says whether the group has its nodes.

    `why` are the reason and message of what keeps the group waiting, as far as the cluster shows.
    If nothing does, the reason and message that the extender has `said` count.
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
    """Return the condition Running, which says whether the group runs."""
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
    """Return the conditions sorted by type, each with the time when its value last changed."""
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
    """Return a stored status without the conditions of other writers."""
    kept = (each for each in status.conditions if each.type in OURS)
    return replace(status, conditions=tuple(sorted(kept, key=lambda each: each.type)))


def said_permitted(status: PodGroupStatusInfo) -> tuple[str, str] | None:
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


# --- the condition Permitted: the extender writes what only it knows about a group -------------


def permitted_condition(
    group: str, *, view: ClusterView, denied: Refuse | None, now: float, asked: bool = True
) -> ConditionInfo | None:
    """Return the condition to write, or None if the stored one is right.

    Nothing is written about a group that starts as it should: that would cost one write for each
    gang, and nobody reads it. `denied` is the group's last failure, which counts while the group
    lacks only room; `now` is since the epoch. An extender that was never `asked` about the group
    serves another kube-scheduler, and takes no condition back.
    """
    pod_group = view.pod_group(group)
    if pod_group is None:
        return None
    stored = pod_group.status.condition(ConditionType.PERMITTED)
    tally, quorum = view.tally(group), view.quorum(pod_group)
    if tally.assigned >= quorum:
        if stored is None or stored.status == "True":
            return None
        said = ("True", Reason.QUORUM_REACHED, "")
    elif tally.waiting:
        text = f"{tally.assigned}/{quorum} pods have a node and wait for the others"
        said = ("False", Reason.WAITING_FOR_BIND, text)
    elif denied is not None and cannot_start(group, view=view) is None:
        text = f"failed recently, {denied.message.removeprefix(about(group))}"
        refused = denied.reason is Reason.BINDING_REFUSED
        said = ("False", denied.reason if refused else Reason.RECENTLY_DENIED, text)
    elif asked and stored is not None and stored.status == "False":
        said = ("Unknown", Reason.NOT_TRIED, "no pod waits with a node now")
    else:
        return None
    if stored is not None and (stored.status, stored.reason, stored.message) == said:
        return None
    since = stored.transition if stored is not None and stored.status == said[0] else now
    return ConditionInfo(ConditionType.PERMITTED, *said, since, pod_group.generation)


# --- the readiness gate ------------------------------------------------------------------------
#
# No member receives requests before enough members are ready. Only pods that name the gate in their
# spec wait for it, and only their condition is set.


@dataclass(frozen=True, slots=True)
class Readiness:
    """The readiness condition, and the pods on which it is to be set."""

    ready: bool
    message: str
    pods: tuple[PodInfo, ...] = ()

    @property
    def reason(self) -> str:
        """The reason of the condition."""
        return EventReason.GANG_READY if self.ready else EventReason.GANG_NOT_READY


def readiness_of(
    pods: Iterable[PodInfo], *, need: int, done: int, broken: Collection[str] = ()
) -> Readiness:
    """Return the condition of the members with the gate, and those on which it is not set yet.

    `done` members have finished their work; they count as ready, as they do towards quorum. Members
    on `broken` nodes do not count: the kubelet, which reports readiness, does not answer.
    """
    live = [pod for pod in pods if not pod.finished and not pod.terminating]
    able = sum(pod.ready and pod.node not in broken for pod in live)
    ready = able + done >= need
    return Readiness(
        ready=ready,
        message=f"{able} of the {max(0, need - done)} pods that it needs are ready",
        pods=tuple(pod for pod in live if pod.readiness_gate and pod.gang_ready != ready),
    )


# --- how long a group waits --------------------------------------------------------------------


class Waiting(NamedTuple):
    """The wait of a group."""

    reason: str
    """The reason of its condition Scheduled."""
    since: float
    """The time when it began to wait, in seconds since the epoch."""


def waiting_of(status: PodGroupStatusInfo, members: Iterable[PodInfo]) -> Waiting | None:
    """Return the wait of a group with this status; None if it has no live pods or need not wait.

    The PodGroup and its condition may be older than the pods that wait now.
    """
    said = status.condition(ConditionType.SCHEDULED)
    if said is None or said.status != "False" or status.phase == Phase.FAILED:
        return None
    created = [pod.created for pod in members if not pod.terminating]
    return Waiting(said.reason, max(said.transition, min(created))) if created else None


# --- why a group is not scheduled yet, with numbers and with the groups ahead of it --------------
#
# The answer is based on API objects alone, so that a process beside the extender can give it. The
# extender itself writes what only it knows (which pods wait with a node for their siblings, which
# group was just denied) to the group's Permitted condition.


NAMED: Final = 3
"""The number of groups ahead that are named; the others are counted."""

_LACKS_ROOM: Final = frozenset((Reason.NOT_ENOUGH_RESOURCES, *TOO_LARGE, Reason.WAITING_FOR_TURN))


def pending_of(group: str, *, view: ClusterView, options: GangOptions) -> Pending:
    """Return the answer of `deciding_pending`, however long it takes."""
    return at_once(deciding_pending(group, view=view, options=options))


def deciding_pending(group: str, *, view: ClusterView, options: GangOptions) -> Steps[Pending]:
    """Return what a group waits for; WaitingForBind if nothing keeps it from starting."""
    early = pending_before_plan(group, view=view)
    pod_group = view.pod_group(group)
    if early is not None or pod_group is None:
        return early or Pending(Reason.POD_GROUP_NOT_FOUND, "")
    pods = candidates(None, group, view=view)
    found = yield from gates.plan_gang(pods[0], pod_group, view=view)
    return pending_of_plan(found, pods, pod_group, view=view, options=options)


def pending_before_plan(group: str, *, view: ClusterView) -> Pending | None:
    """Return what a group waits for besides room; None if only a plan can tell."""
    refusal = cannot_start(group, view=view)
    pod_group = view.pod_group(group)
    if refusal is not None or pod_group is None:
        reason = refusal.reason if refusal else Reason.POD_GROUP_NOT_FOUND
        text = _bare(refusal.message if refusal else "", group)
        lacks = reason is Reason.NOT_ENOUGH_PODS
        return Pending(reason, text + (why_no_more_pods(view.members(group)) if lacks else ""))
    leaving = len(view.tally(group).leaving)
    if leaving and leaving == len(view.tally(group).members):
        return Pending(Reason.NOT_ENOUGH_PODS, f"all {leaving} pods are being deleted")
    has_room = view.tally(group).committed >= view.quorum(pod_group)
    if not has_room and candidates(None, group, view=view):
        return None
    waiting = (pod for pod in view.members(group) if pod.node is None and not has_room)
    held = next(filter(None, map(view.awaits_admission, waiting)), None)
    if held is not None:
        return Pending(Reason.NOT_ADMITTED, not_admitted(held).message)
    return Pending(Reason.WAITING_FOR_BIND, "its pods are on their way")


def pending_of_plan(
    found: Fit | Refuse,
    pods: list[PodInfo],
    pod_group: PodGroupInfo,
    *,
    view: ClusterView,
    options: GangOptions,
) -> Pending:
    """Return what a group waits for, given its plan or the refusal; `pods` could be placed."""
    if isinstance(found, Refuse):
        return _pending_refused(found, pods[0], pod_group, view=view)
    if options.strict_order and next(view.queue.ahead_of(view.turn(pod_group)), None):
        text = "it would fit, but the order is strict" + _groups_ahead(pod_group, view)
        return Pending(Reason.WAITING_FOR_TURN, text)
    text = f"{len(pods)} pods can start, {found.wanted} are needed and fit"
    text += _groups_ahead(pod_group, view)
    return _stuck(pods, pod_group) or Pending(Reason.WAITING_FOR_BIND, text)


def _pending_refused(
    refusal: Refuse, pod: PodInfo, pod_group: PodGroupInfo, *, view: ClusterView
) -> Pending:
    text = _bare(refusal.message, pod_group.key)
    if refusal.reason in _LACKS_ROOM:
        usable = sum(is_feasible(pod.shape, node) for node in view.nodes.values())
        exist = len(view.tally(pod_group.key).members)
        text = f"{exist} pods exist, {text}, on {usable} usable of {len(view.nodes)} nodes"
    if refusal.reason not in TOO_LARGE:
        text += _groups_ahead(pod_group, view)
    return Pending(refusal.reason, text)


def _stuck(pods: list[PodInfo], pod_group: PodGroupInfo) -> Pending | None:
    """Return that kube-scheduler finds no node for some pods, for a reason that no plan sees."""
    stuck = [pod for pod in pods if finds_no_node(pod, pod_group.key)]
    if not stuck:
        return None
    said = stuck[0].unschedulable or ""
    text = f"kube-scheduler finds no node for {len(stuck)} of its pods: {said}"
    return Pending(Reason.MEMBER_UNSCHEDULABLE, text)


def _groups_ahead(pod_group: PodGroupInfo, view: ClusterView) -> str:
    """Return the groups that go first, as the end of a sentence; those of other namespaces unnamed.

    A user who may read the groups of one namespace may not be allowed to read the others.
    """
    turn = view.turn(pod_group)
    position = view.queue.position(turn)
    if not position:
        return ""
    own = pod_group.namespace + "/"
    first = islice(view.queue.ahead_of(turn), gates.AHEAD)
    named = [key for key in first if key.startswith(own)][:NAMED]
    if not named:
        return f"; ahead of it: {position} of other namespaces"
    rest = f" and {position - len(named)} more" if position > len(named) else ""
    return f"; ahead of it: {', '.join(named)}{rest}"


def _bare(message: str, group: str) -> str:
    return message.removeprefix(about(group))


# --- controllers that make a pod only when others are ready: their pods cannot be one gang -----


_WAYS: Final = {
    "leaderworkerset.sigs.k8s.io/name": (
        "a LeaderWorkerSet makes workers when their leader is ready, unless its startupPolicy is "
        "LeaderCreated; all its groups are one gang"
    ),
    "jobset.sigs.k8s.io/jobset-name": (
        "a JobSet makes pods when others are ready where it has dependsOn, or the "
        "startupPolicyOrder InOrder"
    ),
    "spark-role": "a Spark driver makes its executors when it runs",
    "statefulset.kubernetes.io/pod-name": (
        "a StatefulSet makes a pod when the one before is ready, unless its podManagementPolicy is "
        "Parallel"
    ),
}
"""The reasons why a controller may make no more pods, by a label of its pods; the first counts."""


def why_no_more_pods(pods: Iterable[PodInfo]) -> str:
    """Return why more pods of a gang may not come, as the end of a sentence."""
    labels = {label for pod in pods for label in pod.labels}
    return next((f"; {text}" for label, text in _WAYS.items() if label in labels), "")


class Maker(NamedTuple):
    """An object that makes pods, in an order that one of its fields says."""

    path: str
    """Its path in the API."""
    field: str
    in_order: str
    """The value of `spec.FIELD` with which it makes a pod only when another one is ready."""
    remedy: str
    """The end of a sentence about a gang that it never completes."""


def maker_of(pods: Iterable[PodInfo]) -> Maker | None:
    """Return the StatefulSet or LeaderWorkerSet that makes the pods of a gang, if one does."""
    for pod in pods:
        if name := pod.labels.get("leaderworkerset.sigs.k8s.io/name"):
            return Maker(
                f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{pod.namespace}/leaderworkersets/{name}",
                *("startupPolicy", "LeaderReady"),
                f"; LeaderWorkerSet {name} makes workers only when their leader is ready: "
                "create it again with startupPolicy: LeaderCreated",
            )
        member = pod.labels.get("statefulset.kubernetes.io/pod-name", "")
        if name := member.rpartition("-")[0]:  # any user may have written the label
            return Maker(
                f"/apis/apps/v1/namespaces/{pod.namespace}/statefulsets/{name}",
                *("podManagementPolicy", "OrderedReady"),
                f"; StatefulSet {name} makes a pod only when the one before is ready: "
                "create it again with podManagementPolicy: Parallel",
            )
    return None
