"""Whether enough members of a gang fit on the nodes as they are now.

The packer counts pods without names (`extender/fit`): here the members become counts of equal
ones, and the nodes that it finds are given to them in their order.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final

from extender.fit.candidates import Candidates
from extender.fit.conflicts import Conflicts, PodShape
from extender.fit.feasible_nodes import Feasibility
from extender.fit.packer import Packer, Promised, Wanted
from extender.fit.room_left import RoomLeft
from extender.gang.room import Room, room_on
from extender.resources.quantity import Resources, show
from extender.state.cluster.records import PodInfo, Shape
from extender.state.cluster.view import ClusterView
from extender.steps import Steps


@dataclass(frozen=True, slots=True)
class Fit:
    """Where members go: node by UID. Short of `wanted`, what the nodes lack for the others."""

    placements: Mapping[str, str]
    wanted: int
    short: Mapping[str, int] = field(default_factory=dict)
    shortage: Callable[[], Steps[Resources]] | None = field(default=None, compare=False)
    """Adds up `short`, which most plans that fail are not asked for."""

    @property
    def complete(self) -> bool:
        """Whether as many fit as were wanted."""
        return len(self.placements) >= self.wanted

    @property
    def missing(self) -> int:
        """How many fewer fit than were wanted."""
        return self.wanted - len(self.placements)

    def explained(self) -> "Steps[Fit]":
        """Return the same with what the nodes lack."""
        short = (yield from self.shortage()) if self.shortage is not None else self.short
        return Fit(self.placements, self.wanted, short)

    def sentence(self) -> str:
        """Return what is missing, with numbers."""
        fits = f"{len(self.placements)} of the {self.wanted} pods that it still needs fit"
        if not self.short:
            return f"{fits}, no node has room for another"
        short = ", ".join(f"{name} {show(name, n)}" for name, n in sorted(self.short.items()))
        return f"{fits}, short of {short}"


@dataclass(frozen=True, slots=True)
class Offer:
    """The nodes that kube-scheduler found good for a pod; `complete` if these are all."""

    nodes: Sequence[str] = ()
    complete: bool = False


NO_OFFER: Final = Offer()


def fits(requests: Mapping[str, int], free: Mapping[str, int]) -> bool:
    """Return whether free amounts cover requests; a request of zero always fits."""
    return all(value <= free.get(name, 0) or not value for name, value in requests.items())


def fitting(
    pods: Sequence[PodInfo],
    wanted: int,
    *,
    group: str,
    view: ClusterView,
    offer: Offer = NO_OFFER,
    room: Room = Room.FREE,
) -> Steps[Fit]:
    """Place `wanted` of a group's pods, the first of them in any case; others may be passed over.

    The nodes that kube-scheduler offers for the first pod are good for every pod of its shape. They
    come first; where the offer is complete they are all there is for that shape. Then come those
    that it found good for an equal pod before: on these, members may be bound together.
    """
    there: dict[Shape, list[PodInfo]] = {}
    for pod in pods:
        there.setdefault(pod.shape, []).append(pod)
    shapes = {shape: pod_shape(alike[0]) for shape, alike in there.items()}
    packer, lead = packer_of(group, view=view, room=room), shapes[pods[0].shape]
    if offer.nodes and room is not Room.EMPTY:
        packer.offer(lead, offer.nodes, only=offer.complete)
    for shape, alike in there.items() if room is Room.FREE else ():
        pattern = alike[0].pattern
        good = view.good_nodes(pattern) if pattern is not None else ()
        if good:
            packer.prefer(shapes[shape], good)
    found = yield from packer.fill(
        [(shapes[shape], len(alike)) for shape, alike in there.items()],
        first=_granted(group, room, view=view, offer=offer),
        most=wanted,
        lead=lead,
    )
    names = {shape: (pod.uid for pod in alike) for shape, alike in there.items()}
    placements = {
        uid: each.node.name
        for each in found.placed
        for uid in islice(names[each.pod.shape], each.count)
    }
    if pods[0].uid not in placements:
        placements = {}
    missing = wanted - len(placements)
    # Without the first of them those are short that would have come with it, not the hardest.
    lacking = (
        found.missing if placements else Counter(shapes[p.shape] for p in pods[:missing]).items()
    )
    short = partial(packer.short, [*_first(missing, lacking)]) if missing > 0 else None
    return Fit(placements, wanted, shortage=short)


def packer_of(group: str, *, view: ClusterView, room: Room) -> Packer:
    """Return the nodes with the room that there is for a group, of that kind."""
    # A gang of mixed priorities is worth its lowest: it must not start on room that is not its own.
    priority = view.tally(group).priority
    on = partial(room_on, room=room, view=view, priority=priority, group=group)
    if room is Room.EMPTY:
        return Packer(Candidates(Feasibility(view), view.whole), RoomLeft(on, Conflicts()))
    beside = partial(_beside, room=room, view=view, priority=priority, group=group)
    return Packer(Candidates(Feasibility(view), view.left), RoomLeft(on, Conflicts(beside)))


def _beside(
    node: str, *, room: Room, view: ClusterView, priority: int, group: str
) -> Iterator[PodShape]:
    """Yield the pods that count as on a node and do not share it with all others.

    They are those whose amounts count as taken there (`room_on`).
    """
    kept = view.planned_on(node)
    for pod in view.shunning(node):
        counts = pod.priority >= priority if room is Room.FREE else pod.group == group
        if counts or pod.uid not in kept:
            yield pod_shape(pod)


def pod_shape(pod: PodInfo) -> PodShape:
    """Return what a pod is to a node: one of its group's that are equal to it."""
    alone = (pod.group, pod.shape) if pod.shape.one_per_node and pod.group else None
    return PodShape(pod.shape, alone)


def _granted(group: str, room: Room, *, view: ClusterView, offer: Offer) -> Promised:
    """Return where room was found for a group: the nodes first that were sent."""
    grant = view.grants.get(group) if room is not Room.EMPTY else None
    sent = frozenset(offer.nodes)
    names = sorted(grant.amounts, key=lambda each: each not in sent) if grant is not None else ()
    return {name: grant.amounts[name] for name in names} if grant is not None else {}


def _first(count: int, wanted: Iterable[Wanted]) -> Iterator[Wanted]:
    """Yield so many pods, kind after kind."""
    for kind, there in wanted:
        if count > 0:
            yield kind, min(count, there)
        count -= there
