"""Which asker may use reserved room, and that both indexes say the same."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from extender.state.cluster import events as ev
from extender.state.cluster.records import Grant, NominatedRoom, PreemptedRoom
from extender.state.cluster.reservations import (
    NEVER,
    SYSTEM_CRITICAL,
    YIELDS,
    Claim,
    Reservation,
    ReservationKind,
    Reservations,
)
from extender.state.cluster.store import Cluster
from tests.makers import key, nodes, observe, planned, pod, pod_group, pods, requests, shape
from tests.recount import check_reservations, check_tables

OWN, OTHER, BEGUN, WHOLE = key("own"), key("other"), key("begun"), key("whole")
HELD = pod("own-0", group="own")
ROOMS = {"n0": requests(1), "n1": requests(2)}

ASKERS: dict[str, dict[str, Any]] = {
    "the pod itself": {"priority": 0, "without": HELD.uid, "group": OWN},
    "its group": {"priority": 0, "group": OWN},
    "its group, of a higher priority by now": {"priority": 1, "group": OWN},
    "a group of lower priority": {"priority": -1, "group": OTHER},
    "a group of the same priority": {"priority": 0, "group": OTHER},
    "a group of higher priority": {"priority": 1, "group": OTHER},
    "a group that has begun, of lower priority": {"priority": -1, "group": BEGUN},
    "a group that has begun": {"priority": 0, "group": BEGUN},
    "a group that can do without its member": {"priority": 0, "group": WHOLE},
    "a plain pod of lower priority": {"priority": -1},
    "a plain pod": {"priority": 0},
    "a plain pod of higher priority": {"priority": 1},
    "a pod of the cluster's own": {"priority": SYSTEM_CRITICAL},
}
HIGHER = {
    "its group, of a higher priority by now",
    "a group of higher priority",
    "a plain pod of higher priority",
    "a pod of the cluster's own",
}
MAY_USE: dict[ReservationKind, set[str]] = {
    ReservationKind.USED: set(),
    ReservationKind.BINDING: set(),
    ReservationKind.WAITING: set(),
    ReservationKind.PLANNED: {"the pod itself", *HIGHER},
    ReservationKind.CLAIMED: {"the pod itself", "its group", "a group that has begun", *HIGHER},
    ReservationKind.GRANTED: {
        *("the pod itself", "its group", "its group, of a higher priority by now"),
        "a pod of the cluster's own",
    },
    ReservationKind.NOMINATED: {"the pod itself", "its group", *HIGHER},
}
"""For each kind of reservation, which of the askers see its room as free."""


RESERVED: dict[ReservationKind, list[Any]] = {
    ReservationKind.USED: [replace(HELD, node="n0")],
    ReservationKind.BINDING: [HELD, ev.PodBinding(HELD, "n0")],
    ReservationKind.WAITING: [HELD, ev.PodWaiting(HELD, "n0")],
    ReservationKind.PLANNED: [HELD, planned(own_0="n0")],
    ReservationKind.CLAIMED: [HELD, ev.Claimed([Claim(OWN, 0, {"n0": requests(1)})])],
    ReservationKind.GRANTED: [HELD, pod_group("own", grant=Grant({"n0": requests(1)}, 9.0))],
    ReservationKind.NOMINATED: [
        *(HELD, pod_group("own")),
        ev.Nominated(OWN, PreemptedRoom(1.0, {"n0": NominatedRoom((), requests(1))}, ())),
    ],
}
"""How one CPU of `n0` is reserved, priority 0."""


@pytest.mark.parametrize("asker", ASKERS)
@pytest.mark.parametrize("kind", ReservationKind)
def test_reserved_room_is_free_for_the_askers_it_yields_to(
    kind: ReservationKind, asker: str, cluster: Cluster
) -> None:
    begun = [pod_group("begun", 3), pods(3, group="begun"), pod("begun-0", group="begun", on="n1")]
    whole = [pod_group("whole", 1), pod("whole-0", group="whole", on="n1")]
    observe(cluster, nodes(8, 8), begun, whole, RESERVED[kind])

    free = cluster.view().free(cluster.view().nodes["n0"], **ASKERS[asker])

    assert free["cpu"] == (8000 if asker in MAY_USE[kind] else 7000)


def test_a_grant_that_is_larger_than_its_node_keeps_nothing(cluster: Cluster) -> None:
    grants = [Grant({"n0": requests(9)}, 9.0), Grant({"n0": {"example.com/gpu": 1}}, 9.0)]
    groups = [pod_group(f"g{number}", grant=grant) for number, grant in enumerate(grants)]
    observe(cluster, nodes(8), groups)

    assert cluster.view().free(cluster.view().nodes["n0"], priority=0) == {"cpu": 8000, "pods": 110}


CRITICAL, LARGE = replace(HELD, priority=SYSTEM_CRITICAL), replace(HELD, shape=shape(9))
NOT_FREE: dict[str, tuple[list[Any], int, int]] = {
    "a plan of the cluster's own": ([CRITICAL, planned(own_0="n0")], SYSTEM_CRITICAL, 7000),
    "a claim of the cluster's own": (
        [HELD, ev.Claimed([Claim(OWN, SYSTEM_CRITICAL, {"n0": requests(1)})])],
        *(SYSTEM_CRITICAL, 7000),
    ),
    "a plan that is larger than its node": ([LARGE, planned(own_0="n0")], 0, -1000),
    "a claim that is larger than its node": (
        [HELD, ev.Claimed([Claim(OWN, 0, {"n0": requests(9)})])],
        *(0, -1000),
    ),
}


@pytest.mark.parametrize(("there", "priority", "want"), NOT_FREE.values(), ids=NOT_FREE)
def test_plans_and_claims_yield_neither_to_equals_nor_for_their_size(
    there: list[Any], priority: int, want: int, cluster: Cluster
) -> None:
    observe(cluster, nodes(8), pod_group("own", 3), there)

    assert cluster.view().free(cluster.view().nodes["n0"], priority=priority)["cpu"] == want


def test_what_has_no_records_yields_to_no_asker() -> None:
    assert YIELDS[ReservationKind.USED] is NEVER


def test_bound_pods_have_no_records(cluster: Cluster) -> None:
    observe(cluster, nodes(8), pods(3, group="own", on="n0"))
    kept = cluster._tables.reservations

    assert kept.used == {"n0": {"cpu": 3000, "pods": 3}}
    assert not (kept.pods)
    assert not (kept.on_node)
    assert not (kept.kept)


@pytest.fixture
def kept() -> Reservations:
    """Two claims, two grants and two plans, which share a node."""
    kept = Reservations()
    for each in (
        Claim("a", 5, ROOMS),
        Claim("b", 0, {"n1": requests(1)}),
        Reservation("c", 0, ROOMS, ReservationKind.GRANTED, until=9.0),
        Reservation("d", 0, {"n1": requests(1)}, ReservationKind.GRANTED, until=9.0),
        Reservation("e", 0, {"n1": requests(1)}, ReservationKind.PLANNED),
        Reservation("f", 0, {"n1": requests(1)}, ReservationKind.PLANNED),
    ):
        kept.put(each)
    return kept


def counted(kept: Reservations) -> Reservations:
    """Return a recount of the reservations that pods have."""
    recount = Reservations()
    for each in kept.pods.values():
        recount.put(each)
    return recount


def test_what_ends_leaves_the_others(kept: Reservations) -> None:
    for table, owner in ((kept.claims, "a"), (kept.grants, "c"), (kept.pods, "e")):
        kept.drop(table[owner])

    check_reservations(kept, counted(kept))
    assert kept.on_node.keys() == kept.kept.keys() == {"n1"}
    assert [*kept.there("n1", ReservationKind.PLANNED)] == ["f"]
    for table, owner in ((kept.claims, "b"), (kept.grants, "d"), (kept.pods, "f")):
        kept.drop(table[owner])
    assert kept == Reservations()


class Rooms(dict[str, Any]):
    """Amounts by node that count how often their nodes are gone through."""

    walks = 0

    @override
    def __iter__(self) -> Iterator[str]:
        self.walks += 1
        return super().__iter__()

    @override
    def items(self) -> Any:
        self.walks += 1
        return super().items()


@pytest.mark.parametrize("differing", [0, 1, 3])
def test_only_claims_that_differ_touch_their_nodes(differing: int, cluster: Cluster) -> None:
    observe(cluster, nodes(8, 8))
    claims = [Claim(key(f"g{number}"), 0, Rooms(ROOMS)) for number in range(3)]
    cluster.apply(ev.Claimed(claims))
    rooms = [claim.amounts for claim in claims]
    assert all(isinstance(each, Rooms) and each.walks for each in rooms)
    for each in rooms:
        vars(each)["walks"] = 0
    given = [replace(claim, fits_since=7.0) for claim in claims]
    moved = {"n0": requests(3)}
    given[:differing] = [replace(claim, amounts=moved) for claim in given[:differing]]
    version = cluster.view().capacity_version

    change = cluster.apply(ev.Claimed(given))

    assert [vars(each)["walks"] > 0 for each in rooms] == [n < differing for n in range(3)]
    assert change.room is (differing > 0)
    assert (cluster.view().capacity_version > version) is (differing > 0)
    assert [*cluster.view().claims.values()] == given
    assert {each.fits_since for each in cluster.view().claims.values()} == {7.0}
    owners = [claim.owner for claim in claims]
    assert cluster.view().claims_on("n0").keys() == {*owners}
    assert cluster.view().claims_on("n1").keys() == {*owners[differing:]}
    check_tables(cluster)


def test_a_claim_keeps_its_amounts_as_they_are(cluster: Cluster) -> None:
    """No sum is made for a group: its claim is all that is kept under its name."""
    observe(cluster, nodes(8, 8), HELD, planned(own_0="n0"))
    claim = Claim(OWN, 0, {"n0": requests(1), "n1": {}})
    cluster.apply(ev.Claimed([claim]))

    assert cluster.view().claims_on("n0") == {OWN: claim}
    assert not cluster.view().is_kept("n1")
    kept = cluster._tables.reservations.kept["n0"]
    assert any(amounts is claim.amounts["n0"] for amounts in kept.values())
    cluster.apply(ev.Claimed([]))
    assert len(kept) == 1
    check_tables(cluster)
