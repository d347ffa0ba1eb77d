"""Claims to room for groups that have waited long, so that a stream of small ones cannot pass them.

Nobody knows when running pods will end, so a claim names nodes: those that have least to give up
before the group fits. On them only higher priority gets room from now on, and whatever fits beside
the claim; everywhere else others go on (backfill). Should these nodes turn out to be taken for
long, the claim grows twice with further periods of waiting.

Claims are made in the order of waiting, not of failures. But for the time that a group was seen
behind somebody's gate they depend on the API's facts alone: a process that starts anew, or beside
this one, comes to the same ones. Only a group that lacks room has a claim.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from types import MappingProxyType

from extender.gang import plan
from extender.gang.feasibility import is_feasible
from extender.gang.fit import Packing, fit
from extender.gang.options import Options
from extender.gang.steps import at_once
from extender.resources.quantity import Resources, add, subtract
from extender.state.claims import Claim
from extender.state.nodes import NodeInfo
from extender.state.pod_groups import PodGroupInfo
from extender.state.pods import PodInfo
from extender.state.snapshot import Snapshot

MOST = 20
"""Groups that are looked at for claims; the others' turn comes when these have started."""
LARGEST = 3
"""How many times its own room a group may claim: pods of services never end, and new ones of theirs
must find room whatever a gang waits for."""
PATIENCE_SECONDS = 30.0
"""How long a group that could start may keep its claim without starting."""


@dataclass(frozen=True, slots=True)
class _Aged:
    pod_group: PodGroupInfo
    priority: int
    since: float
    periods: int
    pods: Sequence[PodInfo]
    """Those that are missing, `missing` of them at most."""
    missing: int


def decide(
    *,
    snapshot: Snapshot,
    now: float,
    options: Options,
    entered: Mapping[str, float] = MappingProxyType({}),
    schedulers: Collection[str] | None = None,
) -> Sequence[Claim]:
    """Return all claims that are due, first in turn first; times in seconds since the epoch.

    A claim that was made earlier stays on its nodes while it is as large as is due and no earlier
    one needs them. `entered` says when groups came into the queue, as far as that was seen, and
    `schedulers` who asks us: nobody else's pods are to be waited for.
    """
    if not options.aging or not snapshot.queue:
        return ()
    aged = sorted(
        _aged(snapshot, now, options.aging, entered=entered),
        key=lambda each: (
            -each.priority,
            each.since,
            each.pod_group.version,
            each.pod_group.key,
        ),
    )
    ours = (each for each in aged if _asks(each.pods, schedulers))
    claims: list[Claim] = []
    for each in islice(ours, MOST):
        claim = _claim(each, claims, now, snapshot=snapshot)
        if claim is not None:
            claims.append(claim)
    return tuple(claims)


def waits_since(pod_group: PodGroupInfo, *, snapshot: Snapshot) -> float:
    """Return when the group had the pods that it needs, in seconds since the epoch."""
    quorum = snapshot.quorum(pod_group)
    created = sorted(pod.created for pod in snapshot.members(pod_group.key))
    return max(pod_group.created, created[quorum - 1] if 0 < quorum <= len(created) else 0.0)


def _aged(
    snapshot: Snapshot, now: float, aging: float, *, entered: Mapping[str, float]
) -> Iterator[_Aged]:
    for key in snapshot.queue:
        pod_group = snapshot.pod_group(key)
        if pod_group is None or now - max(pod_group.created, entered.get(key, 0.0)) < aging:
            continue
        since = max(waits_since(pod_group, snapshot=snapshot), entered.get(key, 0.0))
        periods = min(int((now - since) / aging), LARGEST)
        if periods > 0:
            tally = snapshot.tally(key)
            missing = snapshot.quorum(pod_group) - tally.committed
            pods = plan.candidates(None, key, snapshot=snapshot)[:missing]
            if len(pods) == missing:
                yield _Aged(pod_group, tally.priority, since, periods, pods, missing)


def _asks(pods: Sequence[PodInfo], schedulers: Collection[str] | None) -> bool:
    return schedulers is None or all(p.scheduler in schedulers or p.is_held_back for p in pods)


def _claim(
    aged: _Aged, earlier: Sequence[Claim], now: float, *, snapshot: Snapshot
) -> Claim | None:
    """Return a group's claim; None for one that lacks no room, or does not come although it fits.

    What else it waits for, a volume say, no claim would bring about.
    """
    present = snapshot.claims.get(aged.pod_group.key)
    fits_since = None
    if fit(aged.pods, aged.missing, group=aged.pod_group.key, snapshot=snapshot).complete:
        if present is None or not present.rooms:
            return None
        fits_since = now if present.fits_since is None else present.fits_since
        if now - fits_since > PATIENCE_SECONDS:
            return None
    if present is None or not _still_stands(present, aged, earlier, snapshot=snapshot):
        present = _new(aged, earlier, snapshot)
    return replace(present, fits_since=fits_since)


def _still_stands(
    claim: Claim, aged: _Aged, earlier: Sequence[Claim], *, snapshot: Snapshot
) -> bool:
    """Return whether nothing that a claim was based on has changed."""
    if not claim.rooms:
        return claim.made_for == (*_made_for(aged, snapshot), _places(earlier))
    if claim.made_for != _made_for(aged, snapshot):
        return False
    taken = _taken(earlier)
    return all(
        left.get(resource, 0) >= value
        for name, amounts in claim.rooms.items()
        for left in (_beside(snapshot.nodes[name], taken),)
        for resource, value in amounts.items()
    )


def _new(aged: _Aged, earlier: Sequence[Claim], snapshot: Snapshot) -> Claim:
    """Return a claim beside the earlier ones; one without rooms where there is no place for it.

    Then the nodes that the group could use are barred for those who come after it: it is their
    turn when it has had its own.
    """
    group, taken = aged.pod_group.key, _taken(earlier)
    barred = frozenset[str]().union(*(claim.barred for claim in earlier))

    def room(node: NodeInfo) -> Resources:
        return {} if node.name in barred else _beside(node, taken)

    packing = Packing(snapshot, room, emptiest_first=True, beside_used=False)
    rooms: dict[str, Resources] = {}
    for count, pod in enumerate(chain.from_iterable(repeat(aged.pods, aged.periods))):
        node = at_once(packing.taking(pod))
        if node is not None:
            add(rooms.setdefault(node, {}), pod.shape.requests)
        elif count < aged.missing:
            return _in_vain(aged, earlier, snapshot)
        else:
            break
    return Claim(group, aged.priority, rooms, _made_for(aged, snapshot))


def _in_vain(aged: _Aged, earlier: Sequence[Claim], snapshot: Snapshot) -> Claim:
    never = plan.never_fits(aged.pod_group, snapshot=snapshot) is not None
    return Claim(
        aged.pod_group.key,
        aged.priority,
        {},
        (*_made_for(aged, snapshot), _places(earlier)),
        barred=frozenset() if never else frozenset(_usable(aged.pods, snapshot)),
    )


def _made_for(aged: _Aged, snapshot: Snapshot) -> tuple[object, ...]:
    shapes = tuple(pod.shape for pod in aged.pods)
    return aged.missing, shapes, aged.priority, aged.periods, snapshot.nodes_version


def _places(claims: Sequence[Claim]) -> tuple[object, ...]:
    return tuple((claim.group, tuple(claim.rooms), claim.barred) for claim in claims)


def _taken(claims: Sequence[Claim]) -> dict[str, Resources]:
    taken: dict[str, Resources] = {}
    for claim in claims:
        for node, amounts in claim.rooms.items():
            add(taken.setdefault(node, {}), amounts)
    return taken


def _beside(node: NodeInfo, taken: dict[str, Resources]) -> Resources:
    left = dict(node.allocatable)
    subtract(left, taken.get(node.name, {}))
    return left


def _usable(pods: Sequence[PodInfo], snapshot: Snapshot) -> Iterator[str]:
    for shape in dict.fromkeys(pod.shape for pod in pods):
        yield from (node.name for node in snapshot.nodes.values() if is_feasible(shape, node))
