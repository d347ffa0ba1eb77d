"""Claims to room for groups that have waited long, so that a stream of small ones cannot pass them.

Nobody knows when running pods will end, so a claim names nodes: those that have least to give up
before the group fits. On them only higher priority gets room from now on, and whatever fits beside
the claim; everywhere else others go on (backfill). Should these nodes turn out to be taken for
long, the claim grows with each further period of waiting, in the end to every node that the group
could use.

Claims are made in the order of waiting, not of failures, and depend on nothing but the API's
facts and the time: another process comes to the same ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from extender.gang import plan
from extender.gang.feasibility import is_feasible
from extender.gang.fit import Packing
from extender.gang.options import Options
from extender.resources.quantity import Resources, add, subtract
from extender.state.claims import Claim
from extender.state.nodes import NodeInfo
from extender.state.pod_groups import PodGroupInfo
from extender.state.pods import PodInfo
from extender.state.snapshot import Snapshot

MOST = 20
"""Groups with a claim at the same time; the others' turn comes when these have started."""


@dataclass(frozen=True, slots=True)
class _Aged:
    pod_group: PodGroupInfo
    priority: int
    since: float
    periods: int


def decide(*, snapshot: Snapshot, now: float, options: Options) -> Sequence[Claim]:
    """Return all claims that are due, first in turn first; `now` in seconds since the epoch.

    A claim that was made earlier stays on its nodes while it is as large as is due and no earlier
    one needs them.
    """
    if not options.aging or not snapshot.queue:
        return ()
    aged = sorted(
        _aged(snapshot, now, options.aging),
        key=lambda each: (-each.priority, each.since, each.pod_group.key),
    )
    taken: dict[str, Resources] = {}
    barred: set[str] = set()
    claims: list[Claim] = []
    for each in aged:
        if len(claims) == MOST:
            break
        claim = _kept(each, taken, snapshot) or _new(each, taken, barred, snapshot=snapshot)
        if claim is not None:
            claims.append(claim)
            for node, amounts in claim.rooms.items():
                add(taken.setdefault(node, {}), amounts)
    return tuple(claims)


def waits_since(pod_group: PodGroupInfo, *, snapshot: Snapshot) -> float:
    """Return when the group had the pods that it needs, in seconds since the epoch."""
    quorum = snapshot.quorum(pod_group)
    created = sorted(pod.created for pod in snapshot.members(pod_group.key))
    return max(pod_group.created, created[quorum - 1] if 0 < quorum <= len(created) else 0.0)


def _aged(snapshot: Snapshot, now: float, aging: float) -> Iterator[_Aged]:
    for key in snapshot.queue:
        pod_group = snapshot.pod_group(key)
        if pod_group is None or now - pod_group.created < aging:
            continue
        since = waits_since(pod_group, snapshot=snapshot)
        periods = int((now - since) / aging)
        if periods > 0:
            yield _Aged(pod_group, snapshot.tally(key).priority, since, periods)


def _kept(aged: _Aged, taken: dict[str, Resources], snapshot: Snapshot) -> Claim | None:
    """Return the group's present claim, if nothing that it was based on has changed."""
    claim = snapshot.claims.get(aged.pod_group.key)
    if claim is None or claim.made_for != _made_for(aged, snapshot):
        return None
    for name, amounts in claim.rooms.items():
        left = _beside(snapshot.nodes[name], taken)
        if any(left.get(resource, 0) < value for resource, value in amounts.items()):
            return None
    return claim


def _new(
    aged: _Aged, taken: dict[str, Resources], barred: set[str], *, snapshot: Snapshot
) -> Claim | None:
    """Return a claim beside the earlier ones; None where there is no room for one.

    Then the nodes that the group could use are barred for those who come after it: it is their
    turn when it has had its own.
    """
    group = aged.pod_group.key
    pods, missing = _missing(aged.pod_group, snapshot)
    if len(pods) < missing:
        return None

    def room(node: NodeInfo) -> Resources:
        return {} if node.name in barred else _beside(node, taken)

    packing = Packing(snapshot, room, emptiest_first=True, beside_used=False)
    rooms: dict[str, Resources] = {}
    for count, pod in enumerate(pods * aged.periods):
        node = packing.take(pod)
        if node is not None:
            add(rooms.setdefault(node, {}), pod.shape.requests)
        elif count < missing:
            if plan.never_fits(aged.pod_group, snapshot=snapshot) is None:
                barred.update(_usable(pods, snapshot))
            return None
        else:
            break
    return Claim(group, aged.priority, rooms, _made_for(aged, snapshot))


def _missing(pod_group: PodGroupInfo, snapshot: Snapshot) -> tuple[list[PodInfo], int]:
    tally = snapshot.tally(pod_group.key)
    missing = snapshot.quorum(pod_group) - tally.committed
    return plan.candidates(None, pod_group.key, snapshot=snapshot)[:missing], missing


def _made_for(aged: _Aged, snapshot: Snapshot) -> tuple[object, ...]:
    pods, missing = _missing(aged.pod_group, snapshot)
    shapes = tuple(pod.shape for pod in pods)
    return missing, shapes, aged.priority, aged.periods, snapshot.nodes_version


def _beside(node: NodeInfo, taken: dict[str, Resources]) -> Resources:
    left = dict(node.allocatable)
    subtract(left, taken.get(node.name, {}))
    return left


def _usable(pods: Sequence[PodInfo], snapshot: Snapshot) -> Iterator[str]:
    for shape in dict.fromkeys(pod.shape for pod in pods):
        yield from (node.name for node in snapshot.nodes.values() if is_feasible(shape, node))
