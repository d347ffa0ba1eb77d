"""Claims to room for groups that have waited long, so that a stream of small ones cannot pass them.

Nobody knows when running pods will end, so a claim names nodes: those that have least to give up
before the group fits. On them only higher priority gets room from now on, and whatever fits beside
the claim; everywhere else others go on (backfill). Should these nodes turn out to be taken for
long, the claim grows twice with further periods of waiting.

Claims are made in the order of waiting, not of failures. But for the time that a group was seen
behind somebody's gate they depend on the API's facts alone: a process that starts anew, or beside
this one, comes to the same ones. Only a group that lacks room has a claim.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, repeat
from types import MappingProxyType

from extender.api.wellknown import Reason
from extender.gang import plan
from extender.gang.feasibility import is_feasible
from extender.gang.fit import Packing, fitting
from extender.gang.lack import Lack
from extender.gang.options import Options
from extender.gang.recent import HadNoRoom, versions_of
from extender.gang.room import Room
from extender.gang.verdicts import Refuse
from extender.resources.quantity import Resources, add, subtract
from extender.state.claims import Claim
from extender.state.nodes import NodeInfo
from extender.state.pod_groups import PodGroupInfo
from extender.state.pods import PodInfo, Shape
from extender.state.snapshot import Snapshot
from extender.steps import PIECE, Steps, at_once

MOST = 20
"""Groups that are looked at for claims; the others' turn comes when these have started."""
SHAPES = 16
"""Shapes of a group's pods by which nodes are told apart that it can use."""
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
    shapes: Sequence[Shape]
    """Theirs, some of them where they are many: enough to tell which nodes they may use."""

    @property
    def asks(self) -> tuple[object, ...]:
        """What a claim is made for; it does not outlive a change of this."""
        shapes = tuple(pod.shape for pod in self.pods)
        return self.missing, shapes, self.priority, self.periods


@dataclass(slots=True)
class Memory:
    """What one look leaves for the next, so that it looks only at what has changed since."""

    lacking: HadNoRoom = field(default_factory=HadNoRoom)
    """Groups that do not fit, until enough nodes have gained room."""
    asked: dict[str, tuple[object, ...]] = field(default_factory=dict)
    """By group: what it asked for then."""
    nodes: dict[str, NodeInfo] = field(default_factory=dict)
    """As they were in the last look."""
    version: int = 0

    def forget_others(self, snapshot: Snapshot) -> None:
        """Drop what groups asked for that wait no more."""
        queue = snapshot.queue
        self.asked = {group: asks for group, asks in self.asked.items() if group in queue}

    def look(self, snapshot: Snapshot) -> "Nodes":
        """Return what has changed about nodes since the last look."""
        changed, resized = set(snapshot.changed_since(self.version)), set[str]()
        self.version = snapshot.nodes_version
        for name in changed:
            before, now = self.nodes.pop(name, None), snapshot.nodes.get(name)
            if now is not None:
                self.nodes[name] = now
            if before is None or now is None or before.allocatable != now.allocatable:
                resized.add(name)
        return Nodes(changed, resized)


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes that changed, and those of them that came, went or have other amounts."""

    changed: Collection[str]
    resized: Collection[str]


@dataclass(slots=True)
class _Earlier:
    """The claims that are due and go before the next one."""

    claims: list[Claim] = field(default_factory=list)
    taken: dict[str, Resources] = field(default_factory=dict)
    barred: frozenset[str] = frozenset()
    places: tuple[object, ...] = ()
    groups: Counter[str] = field(default_factory=Counter)
    """By namespace, how many have a claim."""
    nodes: dict[str, set[str]] = field(default_factory=dict)
    """By namespace, the nodes that are claimed."""

    def put(self, namespace: str, claim: Claim) -> None:
        self.claims.append(claim)
        if claim.limit is not None:
            return  # it takes nothing from the others of its namespace
        for node, amounts in claim.rooms.items():
            add(self.taken.setdefault(node, {}), amounts)
        self.barred |= claim.barred
        self.places += ((claim.group, tuple(claim.rooms), claim.barred),)
        self.groups[namespace] += 1
        self.nodes.setdefault(namespace, set()).update(claim.rooms)

    def left(self, node: NodeInfo) -> Resources:
        left = dict(node.allocatable)
        subtract(left, self.taken.get(node.name, {}))
        return left


def decide(
    *,
    snapshot: Snapshot,
    now: float,
    options: Options,
    entered: Mapping[str, float] = MappingProxyType({}),
    schedulers: Collection[str] | None = None,
) -> Sequence[Claim]:
    """Return the answer of `deciding` without a memory, however long it takes."""
    return at_once(
        deciding(
            Memory(),
            snapshot=snapshot,
            now=now,
            options=options,
            entered=entered,
            schedulers=schedulers,
        )
    )


def deciding(
    memory: Memory,
    *,
    snapshot: Snapshot,
    now: float,
    options: Options,
    entered: Mapping[str, float] = MappingProxyType({}),
    schedulers: Collection[str] | None = None,
) -> Steps[Sequence[Claim]]:
    """Return all claims that are due, first in turn first; times in seconds since the epoch.

    A claim that was made earlier stays on its nodes while it is as large as is due and no earlier
    one needs them. `entered` says when groups came into the queue, as far as that was seen, and
    `schedulers` who asks us: nobody else's pods are to be waited for. A namespace has so many
    claims, and on so many nodes, as the options say.
    """
    memory.forget_others(snapshot)
    if not options.aging or not snapshot.queue:
        return ()
    nodes, earlier, looked_at = memory.look(snapshot), _Earlier(), 0
    most_nodes = max(1, len(snapshot.nodes) * options.claim_nodes_percentage // 100)
    turns = yield from _turns(snapshot, now, options.aging, entered=entered)
    for since, group in turns:
        yield
        namespace = group.partition("/")[0]
        if looked_at >= MOST or earlier.groups[namespace] >= options.claims_per_namespace:
            continue
        aged = _aged(group, since, snapshot=snapshot, now=now, aging=options.aging)
        if aged is None or not _asks(aged.pods, schedulers):
            continue
        looked_at += 1
        taken = len(earlier.nodes.get(namespace, ()))
        look = _Look(aged, earlier, nodes, memory, snapshot, most_nodes, most_nodes - taken)
        claim = yield from look.claim(now)
        if claim is not None:
            earlier.put(namespace, claim)
    return tuple(earlier.claims)


def waits_since(pod_group: PodGroupInfo, *, snapshot: Snapshot) -> float:
    """Return when the group had the pods that it needs, in seconds since the epoch."""
    quorum = snapshot.quorum(pod_group)
    created = sorted(pod.created for pod in snapshot.members(pod_group.key))
    return max(pod_group.created, created[quorum - 1] if 0 < quorum <= len(created) else 0.0)


def _turns(
    snapshot: Snapshot, now: float, aging: float, *, entered: Mapping[str, float]
) -> Steps[list[tuple[float, str]]]:
    """Return since when groups have waited that have waited long, in the order of their claims."""
    found = []
    for key in list(snapshot.queue):
        yield
        pod_group = snapshot.pod_group(key)
        if pod_group is None or now - max(pod_group.created, entered.get(key, 0.0)) < aging:
            continue
        since = max(waits_since(pod_group, snapshot=snapshot), entered.get(key, 0.0))
        if now - since >= aging:
            found.append((-snapshot.tally(key).priority, since, pod_group.version, key))
    return [(since, key) for _, since, _, key in sorted(found)]


def _aged(key: str, since: float, *, snapshot: Snapshot, now: float, aging: float) -> _Aged | None:
    pod_group, tally = snapshot.pod_group(key), snapshot.tally(key)
    if pod_group is None:
        return None
    missing = snapshot.quorum(pod_group) - tally.committed
    pods = plan.candidates(None, key, snapshot=snapshot)[: max(0, missing)]
    if missing <= 0 or len(pods) < missing:
        return None
    periods = min(int((now - since) / aging), LARGEST)
    shapes = tuple(islice(dict.fromkeys(pod.shape for pod in pods), SHAPES))
    return _Aged(pod_group, tally.priority, since, periods, pods, missing, shapes)


def _asks(pods: Sequence[PodInfo], schedulers: Collection[str] | None) -> bool:
    return schedulers is None or all(p.scheduler in schedulers or p.is_held_back for p in pods)


@dataclass(frozen=True, slots=True)
class _Look:
    """One group's claim, beside the earlier ones."""

    aged: _Aged
    earlier: _Earlier
    nodes: Nodes
    memory: Memory
    snapshot: Snapshot
    limit: int
    """On how many nodes a namespace may have claims."""
    allowed: int
    """How many more nodes its namespace may claim."""

    def claim(self, now: float) -> Steps[Claim | None]:
        """Return a group's claim; None for one that lacks no room, or does not come though it fits.

        What else it waits for, a volume say, no claim would bring about.
        """
        present = self.snapshot.claims.get(self.aged.pod_group.key)
        fits_since = None
        if (yield from self._fits()):
            if present is None or not present.rooms:
                return None
            fits_since = now if present.fits_since is None else present.fits_since
            if now - fits_since > PATIENCE_SECONDS:
                return None
        if present is None or not self._still_stands(present):
            present = yield from self._new()
        return replace(present, fits_since=fits_since)

    def _fits(self) -> Steps[bool]:
        aged, memory, snapshot = self.aged, self.memory, self.snapshot
        group, asks = aged.pod_group.key, aged.asks[:3]
        if memory.asked.get(group) == asks and memory.lacking.get(group, snapshot=snapshot):
            return False
        began = versions_of(snapshot)
        found = yield from fitting(aged.pods, aged.missing, group=group, snapshot=snapshot)
        if found.complete:
            return True
        shapes = tuple(dict.fromkeys(pod.shape for pod in aged.pods))
        missing = aged.missing - len(found.placements) if len(shapes) == 1 else 1
        lack = Lack(group, aged.priority, shapes, missing, Room.FREE)
        memory.asked[group] = asks
        memory.lacking.add(
            group, Refuse(Reason.NOT_ENOUGH_RESOURCES, "", lack=lack), versions=began
        )
        return False

    def _still_stands(self, claim: Claim) -> bool:
        """Return whether nothing that a claim was based on has changed."""
        if not claim.rooms:
            same = claim.made_for == (*self.aged.asks, self.earlier.places)
            return same and not self.nodes.resized and self._bars_the_same(claim)
        if claim.made_for != self.aged.asks or len(claim.rooms) > self.allowed:
            return False
        changed = claim.rooms.keys() & self.nodes.changed
        return all(map(self._is_open, changed)) and all(
            self._has_left(name, amounts) for name, amounts in claim.rooms.items()
        )

    def _has_left(self, name: str, amounts: Resources) -> bool:
        """Return whether earlier claims leave so much; nothing, of a node that has just gone."""
        node = self.snapshot.nodes.get(name)
        if node is None:
            return False
        left = self.earlier.left(node)
        return all(left.get(resource, 0) >= value for resource, value in amounts.items())

    def _bars_the_same(self, claim: Claim) -> bool:
        """Return whether the nodes that changed are barred as far as the group can use them."""
        if not claim.barred:
            return not self.nodes.changed
        usable = {name for name in self.nodes.changed if self._is_usable(name)}
        return usable == claim.barred & set(self.nodes.changed)

    def _is_open(self, name: str) -> bool:
        """Return whether all pods of the group may go to a node."""
        node = self.snapshot.nodes.get(name)
        return node is not None and all(is_feasible(shape, node) for shape in self.aged.shapes)

    def _is_usable(self, name: str) -> bool:
        """Return whether any of the pods may."""
        node = self.snapshot.nodes.get(name)
        return node is not None and any(is_feasible(shape, node) for shape in self.aged.shapes)

    def _new(self) -> Steps[Claim]:
        """Return a claim beside the earlier ones; one without rooms where there is no place for it.

        Then the nodes that the group could use are barred for those who come after it: it is their
        turn when it has had its own. One that says so where its namespace may not claim as many
        nodes: it bars nothing.
        """
        aged, barred = self.aged, self.earlier.barred

        def room(node: NodeInfo) -> Resources:
            return {} if node.name in barred else self.earlier.left(node)

        packing = Packing(self.snapshot, room, emptiest_first=True, beside_used=False)
        rooms: dict[str, Resources] = {}
        for count, pod in enumerate(chain.from_iterable(repeat(aged.pods, aged.periods))):
            if count % PIECE == PIECE - 1:
                yield
            node = yield from packing.taking(pod)
            if node is not None and (node in rooms or len(rooms) < self.allowed):
                add(rooms.setdefault(node, {}), pod.shape.requests)
            elif count >= aged.missing:
                break
            elif node is None:
                return (yield from self._in_vain())
            else:
                asks = (*aged.asks, self.earlier.places)
                return Claim(aged.pod_group.key, aged.priority, {}, asks, limit=self.limit)
        return Claim(aged.pod_group.key, aged.priority, rooms, aged.asks)

    def _in_vain(self) -> Steps[Claim]:
        aged = self.aged
        never = yield from plan.never_fitting(aged.pod_group, snapshot=self.snapshot)
        barred = frozenset[str]()
        if never is None:
            barred = yield from self._usable()
        asks = (*aged.asks, self.earlier.places)
        return Claim(aged.pod_group.key, aged.priority, {}, asks, barred=barred)

    def _usable(self) -> Steps[frozenset[str]]:
        usable = set[str]()
        for number, name in enumerate(list(self.snapshot.nodes)):
            if number % PIECE == PIECE - 1:
                yield
            if self._is_usable(name):
                usable.add(name)
        return frozenset(usable)
