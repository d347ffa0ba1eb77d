"""Whom to wake: pods that were refused are not tried again when the reason for it goes away.

kube-scheduler knows nothing of PodGroups or of our plans, so it does not retry a refused pod when a
sibling appears, the PodGroup is made, or a plan gives its room back. A patch of the pod's metadata
makes it try; taking our own scheduling gate away does too.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from extender.api.wellknown import Reason
from extender.gang import plan
from extender.gang.post_filter import is_ours
from extender.gang.pre_filter import KEPT_FOR_GANG, check_group
from extender.gang.queue_sort import sort_key
from extender.gang.verdicts import NOT_ADMITTED
from extender.gang.wake_for_room import Alone, Kind
from extender.state.pods import PodInfo
from extender.state.snapshot import Snapshot
from extender.steps import PIECE, Steps

_ROOM = frozenset((Reason.NOT_ENOUGH_RESOURCES, Reason.RESERVED, Reason.WAITING_FOR_TURN))


@dataclass(frozen=True, slots=True)
class Wake:
    """Pods to be tried again, and pods to take our gate from."""

    retry: tuple[PodInfo, ...] = ()
    ungate: tuple[PodInfo, ...] = ()
    looked: frozenset[Kind] = frozenset()
    """What the next decision about room is to be asked with."""


def decide_group(
    group: str,
    *,
    snapshot: Snapshot,
    hold_back: bool = False,
    resting: Collection[str] = (),
) -> Wake:
    """Return whom to wake after something about a group changed; `hold_back` as in `Options`.

    Pods that are `resting`, by UID, could not be patched lately and have a pause of their own.

    Those that a plan keeps room for: somebody waits for them. Beyond that, with members missing
    and nothing that speaks against a start, one pod is enough: the plan that it brings wakes the
    others, and if there is no room only one was tried in vain.
    """
    ungate = _to_ungate(group, snapshot, hold_back=hold_back)
    if ungate:
        return Wake(ungate=tuple(pod for pod in ungate if pod.uid not in resting))
    uids = (uid for uid in snapshot.refused_of(group) if uid not in resting)
    pods = (snapshot.pods.get(uid) for uid in uids)
    refused = [pod for pod in pods if pod is not None and pod.group == group]
    expected = tuple(pod for pod in refused if snapshot.planned_node(pod.uid) is not None)
    others = [pod for pod in refused if snapshot.refused[pod.uid].reason not in _ROOM]
    if snapshot.claims and snapshot.tally(group).bound:
        others = refused  # a gang that has begun may take what is claimed by others
    if not others or check_group(group, snapshot=snapshot) is not None:
        return Wake(retry=expected)
    waited_for = {pod.uid for pod in expected}
    others = [pod for pod in others if pod.uid not in waited_for]
    # Who was told already that the group never fits need not be the one that hears it again.
    others.sort(key=lambda pod: snapshot.refused[pod.uid].reason == Reason.NEVER_FITS)
    pod_group = snapshot.pod_group(group)
    assert pod_group is not None
    tally = snapshot.tally(group)
    quorum = snapshot.quorum(pod_group)
    if tally.assigned >= quorum:
        return Wake(retry=(*expected, *others))  # each of these is tried for itself
    if tally.committed >= quorum:
        return Wake(retry=expected)
    return Wake(retry=(*expected, *others[:1]))


def deciding_room(
    *,
    snapshot: Snapshot,
    strict: bool = False,
    resting: Collection[str] = (),
    looked: Collection[Kind] = (),
) -> Steps[Wake]:
    """Return whom to wake after a plan gave room back, in the order in which they are to be tried.

    Of each group the first that lacked room, in the order of the groups, or all of a group that
    has started; then of the pods without a group those that find room beside each other, and those
    whose Job may have pods now. In `strict` order only one group has its turn. Pods that are
    `resting`, by UID, could not be patched lately. `looked` is what the decision before returned.
    """
    lacking: dict[str, list[PodInfo]] = {}
    alone = Alone()
    free: list[PodInfo] = []
    for number, refusal in enumerate([*snapshot.refused.values()]):
        if number % PIECE == 0:
            yield
        pod = refusal.pod
        if pod.uid in resting:
            continue
        if pod.group is None and refusal.reason == Reason.NOT_ADMITTED:
            if snapshot.awaits_admission(pod) is None:
                free.append(pod)
        elif pod.group is None:
            alone.add(pod)
        elif refusal.reason in _ROOM or refusal.reason == Reason.NOT_ADMITTED:
            lacking.setdefault(pod.group, []).append(pod)
    found = yield from alone.with_room(snapshot, looked=looked)
    order = _in_order(lacking, snapshot, strict=strict)
    woken = (_for_room(group, lacking[group], snapshot) for group in order)
    retry = (*(pod for pods in woken for pod in pods), *free, *found.pods)
    return Wake(retry=retry, looked=found.looked)


def _in_order(groups: Iterable[str], snapshot: Snapshot, *, strict: bool) -> list[str]:
    """Return groups in their order; where that is `strict`, only the first one in the queue."""
    order = sorted(groups, key=lambda group: sort_key(group, snapshot=snapshot))
    if not strict:
        return order
    behind = {*[group for group in order if group in snapshot.queue][1:]}
    return [group for group in order if group not in behind]


def _for_room(group: str, pods: list[PodInfo], snapshot: Snapshot) -> list[PodInfo]:
    """Return one pod, whose plan wakes the others; all, where each is for itself by now."""
    pod_group = snapshot.pod_group(group)
    started = pod_group and snapshot.tally(group).assigned >= snapshot.quorum(pod_group)
    return pods if started else pods[:1]


def _to_ungate(group: str, snapshot: Snapshot, *, hold_back: bool) -> tuple[PodInfo, ...]:
    """Return the pods that only our gate holds back, once the group has enough of them.

    Where they are to be held back until there is room for them, those that a plan keeps it for;
    and everybody in a group that has started, or whose pods kube-scheduler alone can judge.
    """
    pod_group = snapshot.pod_group(group)
    if pod_group is None:
        return ()
    tally, quorum = snapshot.tally(group), snapshot.quorum(pod_group)
    if not tally.behind_ours or len(tally.members) - len(tally.gated) < quorum:
        return ()
    ours = tuple(snapshot.pods[uid] for uid in tally.behind_ours)
    if not hold_back or tally.assigned >= quorum or not plan.is_readable(group, snapshot=snapshot):
        return ours
    return tuple(pod for pod in ours if snapshot.planned_node(pod.uid) is not None)


def refused_before(pod: PodInfo) -> Reason | None:
    """Return the reason to take for a refusal that an earlier run of this process left behind.

    What was refused lives in memory; the pod's condition still says so after a restart.
    """
    if pod.node is not None or pod.gates or pod.unschedulable is None:
        return None
    if NOT_ADMITTED in pod.unschedulable:
        return Reason.NOT_ADMITTED
    if pod.group is None:
        return Reason.RESERVED if KEPT_FOR_GANG in pod.unschedulable else None
    return Reason.RECENTLY_DENIED if is_ours(pod.unschedulable, pod.group) else None
