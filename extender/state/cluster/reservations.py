"""Reserved room: one record, one index by owner and by node, one table of what yields to what.

A pod has one reservation at a time. A group may have one of each of its kinds beside each other.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple, cast

from extender.resources.quantity import Resources, add, subtract
from extender.state.cluster.records import NodeInfo

SYSTEM_CRITICAL: Final = 2_000_000_000
"""The lowest priority of the pods that belong to the cluster itself."""


class ReservationKind(StrEnum):
    """The reason for which room is reserved."""

    USED = "used"
    """The API shows a pod on the node. Only sums are kept of these, no records."""
    BINDING = "binding"
    """The Binding is on its way, or made and not yet seen in the watch."""
    WAITING = "waiting"
    """The bind request is held: kube-scheduler has assumed the pod on the node."""
    PLANNED = "planned"
    """A plan keeps room for a member; kube-scheduler does not know yet."""
    CLAIMED = "claimed"
    """A group that has waited long keeps nodes until they have room for it."""
    GRANTED = "granted"
    """A queue has found room for a group, which keeps it until the group has a plan."""
    NOMINATED = "nominated"
    """Victims of a group leave, or have left: the group keeps their room until it starts."""


@dataclass(frozen=True, slots=True)
class Yields:
    """The askers that may use reserved room; an asker may be several of these."""

    own_pod: bool = False
    """The pod that has the reservation."""
    own_group: bool = False
    """The group that has it."""
    higher: bool = False
    """A pod or group of a higher priority."""
    begun: bool = False
    """A group of the same priority that has room for some members, and not yet for enough."""
    system: bool = False
    """A pod of the cluster's own, from `SYSTEM_CRITICAL` on."""
    larger_than_node: bool = False
    """Every asker, where a node has less in all than is reserved of it: that was never found."""


NEVER: Final = Yields()
YIELDS: Final[Mapping[ReservationKind, Yields]] = {
    ReservationKind.USED: NEVER,
    ReservationKind.BINDING: NEVER,
    ReservationKind.WAITING: NEVER,
    ReservationKind.PLANNED: Yields(own_pod=True, higher=True),
    ReservationKind.CLAIMED: Yields(own_group=True, higher=True, begun=True),
    ReservationKind.GRANTED: Yields(own_group=True, system=True, larger_than_node=True),
    ReservationKind.NOMINATED: Yields(own_group=True, higher=True, system=True),
}
"""The table. Decision 41 has the reasons."""
OF_PODS: Final = (ReservationKind.BINDING, ReservationKind.WAITING, ReservationKind.PLANNED)
"""The kinds of reservations that pods have; the others belong to groups."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Amounts of nodes that are reserved for a pod or a group."""

    owner: str
    """The UID of a pod, or `namespace/name` of a group."""
    priority: int
    amounts: Mapping[str, Mapping[str, int]]
    """The reserved amounts by node, as in `resources.quantity`."""
    kind: ReservationKind
    until: float | None = None
    """The time when it ends by itself, in seconds since the epoch."""

    @property
    def node(self) -> str:
        """The one node of a pod's reservation."""
        return next(iter(self.amounts))


@dataclass(frozen=True, slots=True)
class Claim(Reservation):
    """A group's claim, and what it was based on.

    One without amounts remembers that there is no place for a claim beside the earlier ones.
    """

    kind: ReservationKind = ReservationKind.CLAIMED
    made_for: tuple[object, ...] = ()
    """The facts that the choice of nodes was based on; a claim lasts until they change."""
    barred: frozenset[str] = frozenset()
    """Nodes on which later groups get no claim, because this group could use them."""
    limit: int | None = None
    """The most nodes with claims of its namespace, if that is the reason why this has none."""
    fits_since: float | None = field(default=None, compare=False)
    """The time since which the group could start, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class VictimsRoom(Reservation):
    """Room that victims leave to a group."""

    kind: ReservationKind = ReservationKind.NOMINATED
    victims: frozenset[str] = frozenset()
    """UIDs of the pods that leave."""


class Share(NamedTuple):
    """The key of a sum of reserved room: it counts reservations that yield to the same askers."""

    kind: ReservationKind
    owner: str | None
    """The group that has it, where it yields to its own group."""
    priority: int


@dataclass(slots=True)
class Asker:
    """The asker for room."""

    priority: int
    pod: str
    """A UID; empty for a group."""
    group: str | None
    has_begun: Callable[[str | None], bool]
    """True if a group has room for some members, and not yet for enough."""

    def may_use(self, share: Share, amounts: Mapping[str, int], whole: Mapping[str, int]) -> bool:
        """Return whether a share of a node that has `whole` in all yields to it."""
        to = YIELDS[share.kind]
        return (
            (to.higher and self.priority > share.priority)
            or (to.own_group and self.group == share.owner)
            or (to.system and self.priority >= SYSTEM_CRITICAL)
            or (to.begun and self.priority == share.priority and self.has_begun(self.group))
            or (to.larger_than_node and any(n > whole.get(r, 0) for r, n in amounts.items()))
        )


@dataclass(slots=True)
class Reservations:
    """All reservations. Written by `Cluster` only.

    Only a sum by node is kept of what yields to no asker, such as bound pods: nothing reads more,
    and a record for each of 100,000 pods would cost memory and time.
    """

    pods: dict[str, Reservation] = field(default_factory=dict)
    """The reservations of pods that the API shows without a node, by UID."""
    claims: dict[str, Claim] = field(default_factory=dict)
    """The claims by group."""
    grants: dict[str, Reservation] = field(default_factory=dict)
    """The granted room by group."""
    nominated: dict[str, VictimsRoom] = field(default_factory=dict)
    """The room that victims leave to each group. It may be more than is free before they go."""
    on_node: dict[str, dict[ReservationKind, dict[str, Reservation]]] = field(default_factory=dict)
    """The reservations of pods by node, kind and owner. What groups have is in `kept`."""
    used: dict[str, Resources] = field(default_factory=dict)
    """The sum of what yields to no asker, by node."""
    kept: dict[str, dict[Share, Resources]] = field(default_factory=dict)
    """The sums of what may yield, by node; what a group has is there as it is, never changed."""

    def use(self, node: str, amounts: Mapping[str, int]) -> None:
        """Count a pod that the API shows on a node."""
        add(self.used.setdefault(node, {}), amounts)

    def stop_using(self, node: str, amounts: Mapping[str, int]) -> None:
        """Undo `use`."""
        there = self.used[node]
        subtract(there, amounts)
        if not there:
            del self.used[node]

    def put(self, reservation: Reservation) -> None:
        """Add a reservation to those of an owner that has none of its kind."""
        owner, kind = reservation.owner, reservation.kind
        self._of(kind)[owner] = reservation
        if YIELDS[kind].own_group:
            self._keep(reservation)
            return
        for node, amounts in reservation.amounts.items():
            self.on_node.setdefault(node, {}).setdefault(kind, {})[owner] = reservation
            if YIELDS[kind] is NEVER:
                self.use(node, amounts)
            else:
                self._sum_up(node, reservation, add)

    def drop(self, reservation: Reservation) -> None:
        """Remove a reservation."""
        owner, kind = reservation.owner, reservation.kind
        del self._of(kind)[owner]
        if YIELDS[kind].own_group:
            self._keep_no_more(reservation)
            return
        for node, amounts in reservation.amounts.items():
            kinds = self.on_node[node]
            owners = kinds[kind]
            del owners[owner]
            if not owners:
                del kinds[kind]
                if not kinds:
                    del self.on_node[node]
            if YIELDS[kind] is NEVER:
                self.stop_using(node, amounts)
            else:
                self._sum_up(node, reservation, subtract)

    def claim(self, claims: Iterable[Claim]) -> list[Claim]:
        """Put these claims in place of the earlier ones, and return those of them that ended.

        One that is as it was touches no node. Its record is replaced: `fits_since` may be another.
        """
        before, now = self.claims, {each.owner: each for each in claims}
        same = {owner for owner, each in now.items() if before.get(owner) == each}
        ended = [each for owner, each in before.items() if owner not in same]
        for each in ended:
            self.drop(each)
        for owner, each in now.items():
            if owner not in same:
                self.put(each)
        before.clear()
        before.update(now)
        return ended

    def there(self, node: str, kind: ReservationKind) -> Mapping[str, Reservation]:
        """Return the reservations of a kind on a node, by owner."""
        return self.on_node.get(node, _NO_KINDS).get(kind, _NONE)

    def subtract_from(self, free: Resources, node: NodeInfo, asker: Asker) -> None:
        """Subtract what an asker may not use of a node: the table, applied to what may yield."""
        whole = node.allocatable
        for share, amounts in self.kept.get(node.name, _NO_SHARES).items():
            if not asker.may_use(share, amounts, whole):
                subtract(free, amounts)
        own = self.pods.get(asker.pod) if asker.pod else None
        if own is not None and node.name in own.amounts and YIELDS[own.kind].own_pod:
            mine = own.amounts[node.name]
            if not asker.may_use(share_of(own), mine, whole):
                add(free, mine)

    def _of(self, kind: ReservationKind) -> dict[str, Any]:
        match kind:
            case ReservationKind.CLAIMED:
                return self.claims
            case ReservationKind.GRANTED:
                return self.grants
            case ReservationKind.NOMINATED:
                return self.nominated
            case _:
                return self.pods

    def _keep(self, reservation: Reservation) -> None:
        """Note what a group keeps: no other reservation has its share, so there is no sum."""
        share, rooms = share_of(reservation), cast("Mapping[str, Resources]", reservation.amounts)
        for node, amounts in rooms.items():
            if any(amounts.values()):
                self.kept.setdefault(node, {})[share] = amounts

    def _keep_no_more(self, reservation: Reservation) -> None:
        """Undo what `_keep` noted."""
        kept, share = self.kept, share_of(reservation)
        for node in reservation.amounts:
            there = kept.get(node)
            if there is not None and there.pop(share, None) is not None and not there:
                del kept[node]

    def _sum_up(
        self,
        node: str,
        reservation: Reservation,
        change: Callable[[Resources, Mapping[str, int]], None],
    ) -> None:
        """Change the sum of a share, and drop it where nothing is left of it."""
        there, share = self.kept.setdefault(node, {}), share_of(reservation)
        amounts = there.setdefault(share, {})
        change(amounts, reservation.amounts[node])
        if not amounts:
            del there[share]
            if not there:
                del self.kept[node]


def share_of(reservation: Reservation) -> Share:
    """Return the key of the sums that a reservation counts in."""
    kind = reservation.kind
    owner = reservation.owner if YIELDS[kind].own_group else None
    return Share(kind, owner, reservation.priority)


_NO_SHARES: Final[Mapping[Share, Resources]] = {}
_NO_KINDS: Final[Mapping[ReservationKind, Mapping[str, Reservation]]] = {}
_NONE: Final[Mapping[str, Reservation]] = {}
