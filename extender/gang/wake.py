"""Which pods to wake: a refused pod is not tried again when the reason for it goes away.

kube-scheduler watches neither PodGroups nor our plans, so it does not retry a refused pod when a
sibling appears, the PodGroup is made, or a plan gives its room back. A patch of the pod's metadata
makes it try; taking our own scheduling gate away does too.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from extender.api.reasons import Reason
from extender.gang import dry_round
from extender.gang.filter import KEPT_FOR_GANG, NOT_SEEN
from extender.gang.fit import is_readable
from extender.gang.gates import cannot_start
from extender.gang.plan import sort_key
from extender.gang.verdicts import NOT_ADMITTED, is_ours
from extender.gang.wake_for_room import PodKind, UngroupedPods
from extender.gang.wakers import Occasion, is_woken_by
from extender.state.cluster.records import PodInfo, Refusal
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, Steps


@dataclass(frozen=True, slots=True)
class Wake:
    """Pods to be tried again, and pods to take our gate from."""

    retry: tuple[PodInfo, ...] = ()
    ungate: tuple[PodInfo, ...] = ()
    looked: frozenset[PodKind] = frozenset()
    """What the next decision about room is to be asked with."""


def decide_group(
    group: str,
    *,
    view: ClusterView,
    gate_until_fit: bool = False,
    resting: Collection[str] = (),
) -> Wake:
    """Return the pods to wake after a group changed; `gate_until_fit` as in `Options`.

    Pods that are `resting`, by UID, could not be patched lately and have a pause of their own. No
    pod is woken that is bound or being bound.

    Those that a plan keeps room for: their siblings wait for them. Beyond that, with members
    missing and nothing that speaks against a start, one pod is enough: the plan that it brings
    wakes the others, and if there is no room only one was tried in vain.
    """
    ungate = _natives_to_ungate(group, view)
    ungate = ungate or _to_ungate(group, view, gate_until_fit=gate_until_fit)
    if ungate:
        return Wake(ungate=tuple(pod for pod in ungate if pod.uid not in resting))
    uids = (uid for uid in view.refused_of(group) if uid not in resting)
    pods = (view.pods.get(uid) for uid in uids)
    refused = [pod for pod in pods if pod is not None and _waits_for_node(pod, group, view)]
    planned = [pod for pod in refused if view.planned_node(pod.uid) is not None]
    expected = tuple(p for p in planned if view.refused[p.uid].reason not in dry_round.REASONS)
    others = [
        pod
        for pod in refused
        if is_woken_by(Occasion.GROUP, view.refused[pod.uid].reason)
        and not _is_held(view.refused[pod.uid], view)
    ]
    if view.claims and view.tally(group).bound:
        others = refused  # a gang that has begun may take what is claimed by others
    if not others or cannot_start(group, view=view) is not None:
        return Wake(retry=expected)
    waited_for = {pod.uid for pod in planned}
    others = [pod for pod in others if pod.uid not in waited_for]
    # A pod that was refused because the group never fits need not be tried again first.
    # Nor does a patch bring one that kube-scheduler's own filters rejected since.
    others.sort(
        key=lambda pod: (
            view.refused[pod.uid].reason == Reason.NEVER_FITS,
            pod.unschedulable is not None and not is_ours(pod.unschedulable, group),
        )
    )
    pod_group = view.pod_group(group)
    assert pod_group is not None
    tally = view.tally(group)
    quorum = view.quorum(pod_group)
    if tally.assigned >= quorum:
        return Wake(retry=(*expected, *others))  # each of these is tried for itself
    if tally.committed >= quorum:
        return Wake(retry=expected)
    return Wake(retry=(*expected, *others[:1]))


def not_spared(
    group: str, pods: Sequence[PodInfo], *, view: ClusterView, coming: Collection[str]
) -> Sequence[PodInfo]:
    """Return which pods to wake of members that may be bound together with another one.

    Those that need a look of kube-scheduler's; one pod where there are none and no bind request of
    a member waits or is about to come. `coming` are the UIDs of pods whose bind requests are due.
    """
    needy = [pod for pod in pods if not _is_good(pod, view.planned_node(pod.uid), view)]
    tally = view.tally(group)
    comes = tally.waiting or not tally.planned.isdisjoint(coming)
    return needy or ([] if comes else pods[:1])


def deciding_room(
    *,
    view: ClusterView,
    strict: bool = False,
    resting: Collection[str] = (),
    looked: Collection[PodKind] = (),
) -> Steps[Wake]:
    """Return the pods to wake after a plan gave room back, in the order of their turns.

    Of each group the first that lacked room, in the order of the groups, or all of a group that
    has started; then of the pods without a group those that find room beside each other, and those
    whose Job may have pods now. In `strict` order only one group has its turn. Pods that are
    `resting`, by UID, could not be patched lately. `looked` is what the decision before returned.
    """
    lacking: dict[str, list[PodInfo]] = {}
    ungrouped = UngroupedPods()
    free: list[PodInfo] = []
    for number, refusal in enumerate([*view.refused.values()]):
        if number % PIECE == 0:
            yield
        pod = refusal.pod
        if pod.uid in resting or view.bound_node(pod) is not None:
            continue
        if _is_held(refusal, view):
            continue
        if pod.group is None and refusal.reason == Reason.NOT_ADMITTED:
            free.append(pod)
        elif pod.group is None:
            ungrouped.add(pod)
        elif is_woken_by(Occasion.ROOM, refusal.reason):
            lacking.setdefault(pod.group, []).append(pod)
    found = yield from ungrouped.with_room(view, looked=looked)
    order = _in_order(lacking, view, strict=strict)
    woken = (_for_room(group, lacking[group], view) for group in order)
    retry = (*(pod for pods in woken for pod in pods), *view.admitted_of(free), *found.pods)
    return Wake(retry=retry, looked=found.looked)


def _is_held(refusal: Refusal, view: ClusterView) -> bool:
    """Return whether a refused pod still waits for its job to be admitted."""
    held = refusal.reason == Reason.NOT_ADMITTED
    return held and view.awaits_admission(refusal.pod) is not None


def _waits_for_node(pod: PodInfo, group: str, view: ClusterView) -> bool:
    return pod.group == group and view.bound_node(pod) is None


def _is_good(pod: PodInfo, node: str | None, view: ClusterView) -> bool:
    """Return whether kube-scheduler has found a node good for a pod's equal, as it is now."""
    if pod.pattern is None or node is None or pod.uid not in view.pods:
        return False
    return view.is_good(pod.pattern, node)


def _in_order(groups: Iterable[str], view: ClusterView, *, strict: bool) -> list[str]:
    """Return groups in their order; where that is `strict`, only the first one in the queue."""
    order = sorted(groups, key=lambda group: sort_key(group, view=view))
    if not strict:
        return order
    behind = {*[group for group in order if group in view.queue][1:]}
    return [group for group in order if group not in behind]


def _for_room(group: str, pods: list[PodInfo], view: ClusterView) -> list[PodInfo]:
    """Return one pod, whose plan wakes the others; all, where each is for itself by now."""
    pod_group = view.pod_group(group)
    started = pod_group and view.tally(group).assigned >= view.quorum(pod_group)
    return pods if started else pods[:1]


def _natives_to_ungate(group: str, view: ClusterView) -> tuple[PodInfo, ...]:
    """Return the pods of a native group that our gate holds back though their start is not ours.

    kube-scheduler tries no gated pod: what starts native gangs would not be found out either.
    """
    pods = (view.pods.get(uid) for uid in view.naming(group))
    ours = view.natives_are_ours
    return tuple(pod for pod in pods if pod and pod.is_gated_by_us and not (ours and pod.group))


def _to_ungate(group: str, view: ClusterView, *, gate_until_fit: bool) -> tuple[PodInfo, ...]:
    """Return the pods that only our gate holds back, once the group has enough of them.

    Where they are to be held back until there is room for them, those that a plan keeps it for;
    and all pods of a group that has started, or whose pods kube-scheduler alone can judge.
    """
    pod_group = view.pod_group(group)
    if pod_group is None:
        return ()
    tally, quorum = view.tally(group), view.quorum(pod_group)
    if not tally.all_gated_by_us or len(tally.members) - len(tally.gated) < quorum:
        return ()
    ours = tuple(view.pods[uid] for uid in tally.all_gated_by_us)
    if not gate_until_fit or tally.assigned >= quorum or not is_readable(group, view=view):
        return ours
    return tuple(pod for pod in ours if view.planned_node(pod.uid) is not None)


def refused_before(pod: PodInfo) -> Reason | None:
    """Return the reason to take for a refusal that an earlier run of this process left behind.

    Refusals live in memory; the pod's condition repeats one after a restart.
    """
    if pod.node is not None or pod.gates or pod.unschedulable is None:
        return None
    if NOT_ADMITTED in pod.unschedulable:
        return Reason.NOT_ADMITTED
    if NOT_SEEN in pod.unschedulable:
        return Reason.NOT_SEEN_YET
    if pod.group is None:
        return Reason.RESERVED if KEPT_FOR_GANG in pod.unschedulable else None
    return Reason.RECENTLY_DENIED if is_ours(pod.unschedulable, pod.group) else None
