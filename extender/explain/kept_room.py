"""The room that is kept for groups, and until when."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from extender.api.explanations import KeptKind, RoomKept
from extender.explain.facts import GroupFacts, moment
from extender.gang import aging
from extender.gang.preempt.units import PATIENCE_SECONDS
from extender.resources.quantity import PODS, Resources, add, exact
from extender.state.cluster.reservations import Claim, Reservation, ReservationKind
from extender.steps import PIECE, Steps

OTHERS: Final = 20
"""The most groups that are named for which room is kept from another one."""

_KINDS: Final[Mapping[ReservationKind, KeptKind]] = {
    ReservationKind.PLANNED: "Plan",
    ReservationKind.WAITING: "Held",
    ReservationKind.CLAIMED: "Claim",
    ReservationKind.GRANTED: "Grant",
    ReservationKind.NOMINATED: "Preemption",
}
_STARTS: Final = "its pods are bound, or the group has not started in time"
_PATIENCE: Final = f"{PATIENCE_SECONDS:.0f} s"
_ENDS: Final[Mapping[KeptKind, str]] = {
    "Plan": _STARTS,
    "Held": _STARTS,
    "Claim": f"the group starts, or could have for {aging.PATIENCE_SECONDS:.0f} s",
    "Grant": "the group has a plan, or its time has passed",
    "Preemption": f"the group starts, or has not {_PATIENCE} after its victims have gone",
}


@dataclass(slots=True)
class _Kept:
    """The room that is kept for one group, of one kind."""

    pods: int = 0
    nodes: dict[str, int] = field(default_factory=dict)
    amounts: Resources = field(default_factory=Resources)
    until: float | None = None

    def put(self, reservation: Reservation, *, of_pod: bool) -> None:
        self.pods += of_pod
        self.until = reservation.until
        if isinstance(reservation, Claim) and reservation.fits_since is not None:
            self.until = reservation.fits_since + aging.PATIENCE_SECONDS
        for node, amounts in reservation.amounts.items():
            self.nodes[node] = self.nodes.get(node, 0) + 1
            add(self.amounts, amounts)


@dataclass(frozen=True, slots=True)
class KeptRooms:
    """The room that is kept for a group, and from it."""

    own: list[RoomKept]
    others: list[RoomKept]
    more: int
    """The number of further groups for which room is kept."""


def kept_rooms(group: str, facts: GroupFacts) -> Steps[KeptRooms]:
    """Return the room that is kept for a group, and the room of others that it may not use.

    Groups that wait with held binds count as others: their room is free if they do not start.
    """
    view = facts.view
    found: dict[tuple[str, KeptKind], _Kept] = {}
    for number, each in enumerate([*view.reserved]):
        if number % PIECE == PIECE - 1:
            yield
        pod = view.pods.get(each.owner)
        owner = each.owner if pod is None else pod.group
        kind = _KINDS.get(each.kind)
        if owner is None or kind is None or not each.amounts:
            continue
        if owner == group or not view.yields_to(each, group):
            kept = found.setdefault((owner, kind), _Kept())
            kept.put(each, of_pod=pod is not None)
    shown = sorted(found, key=lambda each: (-view.tally(each[0]).priority, each))
    own = [_shown(which, found[which], facts) for which in shown if which[0] == group]
    others = [which for which in shown if which[0] != group]
    first = [_shown(which, found[which], facts) for which in others[:OTHERS]]
    named = {owner for owner, _ in others[:OTHERS]}
    return KeptRooms(own, first, len({owner for owner, _ in others} - named))


def _shown(which: tuple[str, KeptKind], kept: _Kept, facts: GroupFacts) -> RoomKept:
    owner, kind = which
    namespace, _, name = owner.partition("/")
    until = kept.until
    if kind in ("Plan", "Held"):
        until = facts.remembered(owner).starts_by
    amounts = {what: amount for what, amount in kept.amounts.items() if what != PODS and amount}
    return RoomKept(
        kind=kind,
        namespace=namespace,
        name=name,
        pods=kept.pods or None,
        nodes=sorted(kept.nodes),
        amounts={what: exact(what, amount) for what, amount in sorted(amounts.items())},
        until=moment(until) if until is not None else None,
        ends=_ENDS[kind],
    )
