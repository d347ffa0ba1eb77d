"""The room that is kept for workloads that have waited long for room.

Each has a reservation: a plan for all of its pods on nodes as they are once everything that the
queues run has ended. So there is one for the first in turn if it can ever fit. Workloads that come
later in turn, because of their priority or their time, get only what is left beside it; those that
come earlier pass.

Reservations are made in turn, each beside the earlier ones. One that finds no place beside these
bars its nodes for those behind it, and has its own once the others have started: nodes that it
could not use before then would stand idle. A reservation stays where it is as long as that is
possible. After each further period it grows by its own size, up to three times, because pods on
the nodes of the first choice may run for very long.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from extender.fit.candidates import Candidates, Conflicts, Feasibility, Placed, PodShape, RoomLeft
from extender.fit.packer import Packer, Wanted
from extender.resources.quantity import Resources, add
from extender.room.pods import PodShapes, workloads_of
from extender.state.cluster.index import NodeOrder
from extender.state.cluster.records import NodeInfo, PodInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import Assignment, Order, WorkloadInfo
from extender.state.queue.view import QueueView
from extender.steps import PIECE, Steps

Choice = tuple[Assignment, ...]
"""Flavors for all pod sets."""


@dataclass(frozen=True, slots=True)
class Aged:
    """A workload for which room is to be kept."""

    workload: WorkloadInfo
    order: Order
    """Its turn, which is its place among all that wait: priority, time, arrival."""
    since: float
    """The time since which room is kept for it, in seconds since the epoch; now if none is kept."""
    choices: tuple[Choice, ...]
    """The flavors that it could have, those that its ClusterQueue tries first before others."""
    has_quota: bool
    """True if it lacks nothing but room, as far as is stored."""
    like: Hashable = None
    """The key that it shares with equivalent workloads."""


_MUCH: Final = 1 << 50
"""An amount larger than any node has of any resource."""


class Afterwards:
    """The amounts that nodes have once everything that the queues run has ended.

    Pods of the queues end one day, and so do pods that are being deleted; other pods may stay for
    ever.
    """

    def __init__(
        self,
        queues: QueueView,
        cluster: ClusterView,
        *,
        shapes: PodShapes,
        free: Callable[[NodeInfo], Resources],
    ) -> None:
        self._queues, self._cluster, self._shapes, self._free = queues, cluster, shapes, free
        self._known: dict[str, tuple[Resources, int]] = {}
        """The amounts that workloads end on each node, and how many workloads those are."""

    def begin(self) -> None:
        """Read each node again when it is asked for."""
        self._known.clear()

    def on(self, node: NodeInfo) -> Resources:
        """Return what a node has then; the caller may change it."""
        amounts = self._free(node)
        add(amounts, self._read(node)[0])
        return amounts

    def reading(self, nodes: Collection[NodeInfo]) -> Steps[None]:
        """Read nodes in steps, so that what is asked of them next is answered at once."""
        for number, node in enumerate(nodes):
            if number % PIECE == PIECE - 1:
                yield
            self._read(node)

    def unshared(self, node: str) -> Iterator[PodShape]:
        """Yield the pods that are on a node then and do not share it with all others."""
        for pod in self._cluster.shunning(node):
            if not self._will_end(pod):
                yield self._shapes.of_pod(pod)

    def ordering(self) -> Steps[NodeOrder]:
        """Return the nodes by how soon they may have room, the best ones last.

        That is by the number of workloads on them, and then by what they have now: each workload
        is one more end to wait for, and the pods of one workload end together.
        """
        ranks: dict[str, Resources] = {}
        for number, node in enumerate([*self._cluster.nodes.values()]):
            if number % PIECE == PIECE - 1:
                yield
            now, ends = self._cluster.left.all().get(node.name, {}), self._read(node)[1]
            ranks[node.name] = {
                resource: now.get(resource, 0) - ends * _MUCH for resource in node.allocatable
            }
        order = NodeOrder(ranks.get)
        order.note(*ranks)
        yield
        order.all()
        yield
        return order

    def _read(self, node: NodeInfo) -> tuple[Resources, int]:
        found = self._known.get(node.name)
        if found is None:
            amounts, owners = Resources(), set[str]()
            for uid in self._cluster.pods_on(node.name):
                pod = self._cluster.pods[uid]
                if self._will_end(pod):
                    add(amounts, pod.shape.requests)
                    owners.add(pod.workload or pod.controller or uid)
            found = self._known[node.name] = amounts, len(owners)
        return found

    def _will_end(self, pod: PodInfo) -> bool:
        if pod.terminating:
            return True
        there = self._queues.workloads
        return any(key in there for key in workloads_of(pod, self._queues, self._cluster))


MOST: Final = 16
"""Reservations at a time, at most."""
LARGEST: Final = 3
"""The most times that a reservation may have its own size."""
LOOKS: Final = 60
"""Looks in each period of waiting, if every reservation is still needed."""
HOPELESS_SECONDS: Final = 30.0
"""After this many seconds, workloads that are equivalent to one that fits nowhere are considered
again."""

WantedOf = Callable[[WorkloadInfo, Choice], list[Wanted]]
"""Returns the pods of a workload that are to run, with their flavors."""

_Flavors = tuple[tuple[tuple[str, str], ...], ...]
"""The flavor of each resource, by pod set."""


@dataclass(frozen=True, slots=True)
class KeptRoom:
    """Room for one workload."""

    order: Order
    since: float
    """The time when room was first kept for the workload, in seconds since the epoch."""
    flavors: _Flavors
    wanted: tuple[Wanted, ...]
    placed: tuple[Placed, ...]
    """The nodes on which all of its pods have room."""
    more: tuple[tuple[Placed, ...], ...] = ()
    """The nodes on which they have room once more; the last one perhaps for some only."""
    passing: frozenset[str] = frozenset()
    """Preemptors that had chosen their victims before: these leave for them."""
    without_quota: float | None = None
    """The time since which the workload lacks quota too, in seconds since the epoch."""
    tried: int = 0
    """The number of further periods in which it was tried to grow."""

    @property
    def all(self) -> Iterator[Placed]:
        """All of its room."""
        return chain(self.placed, *self.more)

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes on which it has room."""
        return frozenset(each.node.name for each in self.all)

    @property
    def pods(self) -> int:
        """Return the number of pods that it has room for."""
        return sum(each.count for each in self.all)


@dataclass(slots=True)
class _Turns:
    """One look at all of them, in turn."""

    now: float
    period: float
    passing: frozenset[str]
    packer: Packer
    barred: set[str] = field(default_factory=set)
    order: NodeOrder | None = None
    kept: dict[str, KeptRoom] = field(default_factory=dict)


class Reserved:
    """The reservations of the last look; `wanted` returns the pods of a workload."""

    def __init__(
        self, cluster: ClusterView, feasible: Feasibility, *, after: Afterwards, wanted: WantedOf
    ) -> None:
        self._cluster, self._feasible = cluster, feasible
        self._after, self._wanted = after, wanted
        self._known: dict[str, KeptRoom] = {}
        self._looked = float("-inf")
        self.never_fit: dict[Hashable, float] = {}
        """The time until which a result counts that a workload fits nowhere, by equivalence
        key, in seconds since the epoch."""

    @property
    def known(self) -> Mapping[str, KeptRoom]:
        """The reservations by workload, first in turn first."""
        return self._known

    def is_due(self, now: float, waits: Callable[[str], bool], *, period: float) -> bool:
        """Return whether it is time for a look; `waits` says whether a workload still waits."""
        since = now - self._looked
        return not 0 <= since < period / LOOKS or not all(map(waits, self._known))

    def drop(self, key: str) -> None:
        """Drop the reservation of a workload: it is admitted."""
        self._known.pop(key, None)

    def against(self, key: str, order: Order, *, without: Collection[str] = ()) -> Iterator[Placed]:
        """Yield the room that a workload may not use: that of others before it.

        Not of those in `without`, whose pods are placed already.
        """
        for owner, each in self._known.items():
            if owner == key or owner in without:
                continue
            if each.order < order and key not in each.passing:
                yield from each.all

    def looking(
        self, aged: Sequence[Aged], *, passing: Collection[str], now: float, period: float
    ) -> Steps[bool]:
        """Make the reservations that are due, and return whether any has changed.

        `passing` are the preemptors that wait for victims; times in seconds. A workload that lacks
        quota too keeps its room for one more `period`.
        """
        self._looked = now
        self.never_fit = {
            k: v for k, v in self.never_fit.items() if 0 < v - now <= HOPELESS_SECONDS
        }
        self._after.begin()
        barred = set[str]()
        packer = self._packer(barred, NodeOrder(lambda _: None))
        look = _Turns(now, period, frozenset(passing), packer, barred)
        for each in aged:
            if len(look.kept) >= MOST:
                break
            yield
            if each.workload.key in self._known or each.like not in self.never_fit:
                yield from self._look_at(look, each)
        names = [*look.barred]
        look.barred.clear()  # they are barred to later reservations, and not to those that grow
        yield from self._look_at_nodes(look, names)
        if names:
            look.packer.look_anew()
        for key in look.kept:
            yield from self._grow(look, key)
        before, self._known = self._known, look.kept
        return [*before.items()] != [*look.kept.items()]

    def _look_at(self, look: _Turns, aged: Aged) -> Steps[None]:
        key = aged.workload.key
        before = self._known.get(key)
        lacks_since = None
        if not aged.has_quota:
            if before is None:
                return
            lacks_since = look.now if before.without_quota is None else before.without_quota
            if look.now - lacks_since >= look.period:
                return
        found = (yield from self._still(look, aged, before)) or (yield from self._new(look, aged))
        if found is not None:
            since = before.since if before is not None else aged.since
            look.kept[key] = replace(
                found,
                order=aged.order,
                since=since,
                without_quota=lacks_since,
                passing=found.passing & look.passing,
            )

    def _still(self, look: _Turns, aged: Aged, before: KeptRoom | None) -> Steps[KeptRoom | None]:
        """Return a reservation that stays where it is, without what it has grown by."""
        choice = next((x for x in aged.choices if before and _flavors(x) == before.flavors), None)
        if before is None or choice is None:
            return None
        if tuple(self._wanted(aged.workload, choice)) != before.wanted:
            return None
        return before if (yield from self._has_place(look, before.placed)) else None

    def _has_place(self, look: _Turns, placed: Sequence[Placed]) -> Steps[bool]:
        """Place pods where they had room before, if they have it still."""
        yield from self._after.reading([each.node for each in placed])
        return look.packer.place(placed)

    def _new(self, look: _Turns, aged: Aged) -> Steps[KeptRoom | None]:
        """Return a plan beside the earlier ones; None where there is none."""
        yield from self._sort(look)
        for choice in aged.choices:
            wanted = self._wanted(aged.workload, choice)
            found = yield from look.packer.fill(wanted)
            if wanted and not found.missing:
                placed = tuple(found.placed)
                return KeptRoom(
                    aged.order,
                    aged.since,
                    _flavors(choice),
                    tuple(wanted),
                    placed,
                    passing=look.passing,
                )
            look.packer.undo(found)
        barred = yield from self._usable_alone(look, aged)
        if not barred and aged.like is not None:
            self.never_fit[aged.like] = look.now + HOPELESS_SECONDS
        look.barred.update(barred)  # all later reservations are kept off them
        yield from self._look_at_nodes(look, barred)
        return None

    def _usable_alone(self, look: _Turns, aged: Aged) -> Steps[frozenset[str]]:
        """Return the nodes that a workload could use if it were the first; none if it never fits.

        Of the flavors in which it would fit then, those that its ClusterQueue tries first.
        """
        if not look.kept and not look.barred:
            return frozenset()
        assert look.order is not None
        alone = self._packer((), look.order)
        for choice in aged.choices:
            wanted = self._wanted(aged.workload, choice)
            found = yield from alone.fill(wanted)
            alone.undo(found)
            if wanted and not found.missing:
                break
        else:
            return frozenset()
        usable = set[str]()
        for number, node in enumerate([*self._cluster.nodes.values()]):
            if number % PIECE == PIECE - 1:
                yield
            if any(self._feasible.of(pod.shape).allows(node) for pod, _ in wanted):
                usable.add(node.name)
        return frozenset(usable)

    def _look_at_nodes(self, look: _Turns, names: Collection[str]) -> Steps[None]:
        for number, name in enumerate(sorted(names)):
            if number % PIECE == PIECE - 1:
                yield
            node = self._cluster.nodes.get(name)
            if node is not None:
                look.packer.look_at(node)

    # -- growth

    def _grow(self, look: _Turns, key: str) -> Steps[None]:
        """Let a reservation grow beside all others; they come first with their own size.

        It grows by all of its pods. Where there is no place for these it has what there is in the
        end: nodes that are idle for it are of no use as long as one of them is missing.
        """
        each = look.kept[key]
        periods = min(int((look.now - each.since) / look.period), LARGEST)
        more: list[tuple[Placed, ...]] = []
        for placed in each.more:
            yield
            if (yield from self._has_place(look, placed)):
                more.append(placed)
        lost = len(more) < len(each.more)
        while len(more) < min(periods, LARGEST - 1) and (lost or each.tried < periods):
            yield from self._sort(look)
            found = yield from look.packer.fill(each.wanted)
            if found.missing and periods < LARGEST:
                look.packer.undo(found)
                break
            if found.placed:
                more.append(tuple(found.placed))
            if found.missing:
                break
        passing = each.passing if tuple(more) == each.more else look.passing
        look.kept[key] = replace(each, more=tuple(more), passing=passing, tried=periods)

    # -- nodes

    def _sort(self, look: _Turns) -> Steps[None]:
        """Have the nodes in their order, once in a look, before the first new plan."""
        if look.order is None:
            look.order = yield from self._after.ordering()
            look.packer = look.packer.in_order(self._candidates(look.order))

    def _candidates(self, order: NodeOrder) -> Candidates:
        return Candidates(self._feasible, order, unbound=True, emptiest_first=True)

    def _packer(self, barred: Collection[str], order: NodeOrder) -> Packer:
        """Return the nodes as they are then, the barred ones without any room."""

        def room(node: NodeInfo) -> Resources:
            return {} if node.name in barred else self._after.on(node)

        return Packer(self._candidates(order), RoomLeft(room, Conflicts(self._after.unshared)))


def _flavors(choice: Choice) -> _Flavors:
    return tuple(tuple(sorted(each.flavors.items())) for each in choice)
