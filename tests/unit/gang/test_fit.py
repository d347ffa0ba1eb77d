"""How many members fit, node by node."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from extender.gang.fit import Fit, Offer, fits
from extender.state.cluster import events as ev
from extender.state.cluster.records import Pattern, PodInfo
from extender.state.cluster.store import Cluster
from tests.at_once import fit
from tests.makers import (
    affinity,
    cluster_of,
    labelled,
    node,
    nodes,
    observe,
    planned,
    pod,
    pods,
    shape,
)

ALL = ("n0", "n1", "n2", "n3")


@dataclass(frozen=True)
class Ask:
    """What is to fit, and on what; `sent` are the nodes that kube-scheduler found good."""

    members: Sequence[PodInfo]
    there: Sequence[Any]
    wanted: int | None = None
    sent: Sequence[str] = ALL
    complete: bool = False

    def answer(self) -> Fit:
        cluster = cluster_of(self.members, self.there)
        return fit(
            self.members,
            len(self.members) if self.wanted is None else self.wanted,
            group=self.members[0].group or "",
            view=cluster.view(),
            offer=Offer(self.sent, self.complete),
        )


def want(wanted: int, *, short: dict[str, int] | None = None, **placements: str) -> Fit:
    return Fit({name.replace("_", "-"): on for name, on in placements.items()}, wanted, short or {})


BIG, SMALL, GPU = shape(4), shape(1), shape(1, gpu=1)
ZONED = shape(4, selector={"zone": "a"})
ALONE = shape(1, one_per_node=True)
CAPABLE = frozenset({"f"})
DEMANDING = replace(shape(4), features=CAPABLE)

WANT: dict[str, tuple[Ask, Fit]] = {
    "the sum of what is free is not enough": (
        Ask(pods(3, 4), nodes(6, 2, 2, 2)),
        want(3, gang_0="n0", short={"cpu": 8000}),
    ),
    "node after node is filled, the one with the least left first": (
        Ask(pods(3, 2), nodes(4, 2)),
        want(3, gang_0="n1", gang_1="n0", gang_2="n0"),
    ),
    "no more than wanted are placed": (
        Ask(pods(4, 1), nodes(4), wanted=2),
        want(2, gang_0="n0", gang_1="n0"),
    ),
    "an exact fit fits": (Ask(pods(2, 2), nodes(2, 2)), want(2, gang_0="n0", gang_1="n1")),
    "a thousandth of a CPU too little": (
        Ask(pods(1, 2), nodes("1999m")),
        want(1, short={"cpu": 2000}),
    ),
    "slots for pods run out": (
        Ask(pods(2, 1), [node("n0", 100, slots=1)]),
        want(2, gang_0="n0", short={"pods": 1}),
    ),
    "bound pods take room": (
        Ask(pods(2, 2), [*nodes(4, 4), pod("other", 3, on="n0")]),
        want(2, gang_0="n1", gang_1="n1"),
    ),
    "an overcommitted node is passed": (
        Ask(pods(1, 1), [*nodes(4, 4), pod("other", 9, on="n0")]),
        want(1, gang_0="n1"),
    ),
    "nodes that were sent come first, the one with the least left before the others": (
        Ask(pods(2, 4), nodes(4, 7, 6), sent=("n1", "n2")),
        want(2, gang_0="n2", gang_1="n1"),
    ),
    "where the nodes sent are too few, others are looked at": (
        Ask(pods(3, 4), nodes(4, 4, 4), sent=("n2",)),
        want(3, gang_0="n2", gang_1="n0", gang_2="n1"),
    ),
    "where the nodes sent are all there are, no other is looked at": (
        Ask(pods(3, 4), nodes(4, 4, 4), sent=("n2",), complete=True),
        want(3, gang_0="n2"),
    ),
    "a node that was sent is not read again": (
        Ask(pods(2, 4), [node("n0", unschedulable=True)], sent=("n0",)),
        want(2, gang_0="n0", short={"cpu": 4000, "pods": 1}),
    ),
    "a node that was sent and is not known has no room": (
        Ask(pods(1, 4), nodes(4), sent=("n9",)),
        want(1, gang_0="n0"),
    ),
    "a pod that needs a feature goes to the node that declares it, whichever is named first": (
        Ask(
            [pod("gang-0", 4, group="gang"), pod("gang-1", DEMANDING, group="gang")],
            [node("n0", features=CAPABLE), node("n1")],
            sent=(),
        ),
        want(2, gang_0="n1", gang_1="n0"),
    ),
    "other nodes must be feasible": (
        Ask(
            pods(2, 4),
            [node("n0"), node("n1", unschedulable=True), node("n2", ready=False), node("n3")],
            sent=("n0",),
        ),
        want(2, gang_0="n0", gang_1="n3"),
    ),
    "complete counts for the shape of the first pod only": (
        Ask(
            [*pods(1, 4), pod("gang-1", SMALL, group="gang")],
            nodes(4, 4),
            sent=("n0",),
            complete=True,
        ),
        want(2, gang_0="n0", gang_1="n1"),
    ),
    "of unequal members the large ones come before the small": (
        Ask(
            [pod("gang-0", 2, group="gang"), *(pod(f"gang-{n}", n, group="gang") for n in (1, 4))],
            nodes(3, 4),
        ),
        want(3, gang_0="n0", gang_4="n1", gang_1="n0"),
    ),
    "members with a selector come before those with a free choice": (
        Ask(
            [
                pod("gang-0", SMALL, group="gang"),
                pod("gang-1", 4, group="gang"),
                pod("gang-2", ZONED, group="gang"),
            ],
            [node("n0", labels={"zone": "a"}), node("n1", 5)],
            sent=("n1",),
        ),
        want(3, gang_0="n1", gang_2="n0", gang_1="n1"),
    ),
    "even small members with a selector do": (
        Ask(
            [
                pod("gang-0", SMALL, group="gang"),
                pod("gang-1", 4, group="gang"),
                pod("gang-2", shape(2, selector={"zone": "a"}), group="gang"),
            ],
            [node("n0", 8, labels={"zone": "a"}), pod("other", 4, on="n0"), node("n1", 5)],
            sent=("n1",),
        ),
        want(3, gang_0="n1", gang_2="n0", gang_1="n1"),
    ),
    "a second try takes the fullest nodes first": (
        Ask(
            [pod("gang-0", SMALL, group="gang"), pod("gang-1", 4, group="gang")],
            [node("n0", 4), node("n1", 8), pod("other", 7, on="n1")],
        ),
        want(2, gang_0="n1", gang_1="n0"),
    ),
    "a third try lets those go first that may use few nodes": (
        Ask(
            [pod("gang-0", 4, group="gang"), pod("gang-1", ZONED, group="gang")],
            [node("n0", 4, labels={"zone": "a"}), node("n1", 4)],
        ),
        want(2, gang_1="n0", gang_0="n1"),
    ),
    "and keeps a place for the one that is tried": (
        Ask(
            [
                pod("gang-0", 8, group="gang"),
                *(pod(f"gang-{n}", ZONED, group="gang") for n in (1, 2)),
            ],
            [node("n0", 8, labels={"zone": "a"}), node("n1", 8)],
            wanted=2,
        ),
        want(2, gang_1="n0", gang_0="n1"),
    ),
    "one that fits nowhere is passed, and others make up for it": (
        Ask(
            [
                pod("gang-0", SMALL, group="gang"),
                pod("gang-1", GPU, group="gang"),
                pod("gang-2", SMALL, group="gang"),
            ],
            nodes(4),
            wanted=2,
        ),
        want(2, gang_0="n0", gang_2="n0"),
    ),
    "the first must fit": (
        Ask(
            [pod("gang-0", GPU, group="gang"), pod("gang-1", SMALL, group="gang")],
            nodes(4),
            wanted=1,
        ),
        want(1, short={"example.com/gpu": 1}),
    ),
    "short without the first are those that would have come, not the largest": (
        Ask([pod(f"gang-{n}", cpu, group="gang") for n, cpu in enumerate((2, 2, 8))], nodes(1), 2),
        want(2, short={"cpu": 4000}),
    ),
    "an extended resource is short": (
        Ask(pods(3, GPU), [node("n0", 8, gpu=2), node("n1", 8)]),
        want(3, gang_0="n0", gang_1="n0", short={"example.com/gpu": 1}),
    ),
    "everything is short where no node will do": (
        Ask(pods(2, ZONED), nodes(8, 8), sent=()),
        want(2, short={"cpu": 8000, "pods": 2}),
    ),
    "nothing alone is short where it lies apart": (
        Ask(pods(1, GPU), [node("n0", 1), node("n1", 0, gpu=1)]),
        want(1),
    ),
    "one on a node": (
        Ask(pods(3, ALONE), nodes(4, 4), wanted=3),
        want(3, gang_0="n0", gang_1="n1"),
    ),
    "one on a node, and a sibling is there": (
        Ask(
            pods(2, ALONE),
            [*nodes(4, 4, 4), pod("gang-8", ALONE, group="gang", on="n0")],
        ),
        want(2, gang_0="n1", gang_1="n2"),
    ),
    "one on a node, and a sibling is to come": (
        Ask(
            pods(2, ALONE),
            [*nodes(4, 4, 4), pod("gang-8", ALONE, group="gang"), planned(gang_8="n1")],
        ),
        want(2, gang_0="n0", gang_1="n2"),
    ),
    "one on a node does not bar other shapes": (
        Ask(
            [pod("gang-0", ALONE, group="gang"), pod("gang-1", SMALL, group="gang")],
            [*nodes(4), pod("gang-8", SMALL, group="gang", on="n0")],
        ),
        want(2, gang_0="n0", gang_1="n0"),
    ),
    "room that a plan of equals keeps is taken": (
        Ask(
            pods(1, 4, priority=5),
            [*nodes(4, 4), pod("rival-0", 4, group="rival", priority=5), planned(rival_0="n0")],
        ),
        want(1, gang_0="n1"),
    ),
    "room that a plan of betters keeps is taken": (
        Ask(
            pods(1, 4, priority=5),
            [*nodes(4, 4), pod("rival-0", 4, group="rival", priority=6), planned(rival_0="n0")],
        ),
        want(1, gang_0="n1"),
    ),
    "room that a plan of lesser ones keeps is free": (
        Ask(
            pods(1, 4, priority=5),
            [*nodes(4, 4), pod("rival-0", 4, group="rival", priority=4), planned(rival_0="n0")],
        ),
        want(1, gang_0="n0"),
    ),
    "room where lesser ones wait is taken": (
        Ask(
            pods(1, 4, priority=5),
            [
                *nodes(4, 4),
                rival := pod("rival-0", 4, group="rival", priority=4),
                ev.PodWaiting(rival, "n0"),
            ],
        ),
        want(1, gang_0="n1"),
    ),
}


@pytest.mark.parametrize(("ask", "want_fit"), WANT.values(), ids=WANT)
def test_fit(ask: Ask, want_fit: Fit) -> None:
    assert ask.answer() == want_fit


def test_a_member_of_low_priority_does_not_take_room_that_its_betters_keep() -> None:
    """what is left on a node is remembered without the priority that it was asked for."""
    first, second = pod("a", 1, group="gang", priority=9), pod("b", 4, group="gang", priority=0)
    rival = pod("rival-0", 4, group="rival", priority=5)
    found = Ask([first, second], [*nodes(5), rival, planned(rival_0="n0")]).answer()

    assert found.placements == {"a": "n0"}


def test_the_shortage_counts_all_that_are_missing_when_not_even_the_first_fits() -> None:
    """after the first pod has failed, only that one is counted."""
    found = Ask(pods(3, 4), nodes(2, 2)).answer()

    assert found == Fit({}, 3, {"cpu": 12000})


@dataclass(frozen=True)
class Sentence:
    fit: Fit
    want: str
    complete: bool = field(default=False)


SENTENCES: dict[str, Sentence] = {
    "a shortage in words": Sentence(
        Fit({"a": "n0"}, 3, {"memory": 2**30, "cpu": 1500}),
        "1 of the 3 pods that it still needs fit, short of cpu 1500m, memory 1Gi",
    ),
    "no shortage of anything alone": Sentence(
        Fit({}, 2), "0 of the 2 pods that it still needs fit, no node has room for another"
    ),
    "complete": Sentence(
        Fit({"a": "n0"}, 1),
        "1 of the 1 pods that it still needs fit, no node has room for another",
        complete=True,
    ),
}


@pytest.mark.parametrize("case", SENTENCES.values(), ids=SENTENCES)
def test_a_fit_in_words(case: Sentence) -> None:
    assert (case.fit.sentence(), case.fit.complete) == (case.want, case.complete)


WANT_FITS: dict[str, tuple[dict[str, int], dict[str, int], bool]] = {
    "less than there is": ({"cpu": 1}, {"cpu": 2}, True),
    "as much as there is": ({"cpu": 2}, {"cpu": 2}, True),
    "more than there is": ({"cpu": 3}, {"cpu": 2}, False),
    "something that is not there": ({"gpu": 1}, {"cpu": 2}, False),
    "none of something that is not there": ({"gpu": 0}, {"cpu": 2}, True),
    "none of something that is overcommitted": ({"cpu": 0}, {"cpu": -2}, True),
    "nothing": ({}, {}, True),
}


@pytest.mark.parametrize(("asked", "free", "want_fits"), WANT_FITS.values(), ids=WANT_FITS)
def test_fits(asked: dict[str, int], free: dict[str, int], want_fits: bool) -> None:
    assert fits(asked, free) is want_fits


def test_pods_that_shun_equals_go_where_no_sibling_of_the_shape_is(cluster: Cluster) -> None:
    me, waits, plans = pods(3, ALONE)
    facts = [
        *nodes(4, 4, 4, 4, 4),
        *(me, waits, plans),
        pod("bound", ALONE, group="gang", on="n0"),
        pod("nowhere", ALONE, group="gang"),
        pod("of another shape", SMALL, group="gang", on="n3"),
        pod("of another gang", ALONE, group="rival", on="n4"),
        ev.PodWaiting(waits, "n1"),
        ev.Planned({plans.uid: "n2"}),
    ]
    observe(cluster, facts)
    more = [me, *(pod(f"more-{n}", ALONE, group="gang") for n in range(4))]
    found = fit(more, 5, group=me.group or "", view=cluster.view())

    assert set(found.placements.values()) == {"n3", "n4"}


@pytest.mark.parametrize(
    ("priority", "want"), [(1, {"a": "n0"}), (0, {"a": "n1"})], ids=["higher", "equal"]
)
def test_the_host_port_of_a_plan_counts_unless_the_plan_has_a_lower_priority(
    priority: int, want: dict[str, str]
) -> None:
    with_port = replace(shape(1), host_ports=frozenset({("TCP", 80, "")}), one_per_node=True)
    mine = pod("a", with_port, group="gang", priority=priority)
    rival = pod("rival-0", with_port, group="rival", priority=0)
    found = Ask([mine], [*nodes(4, 4), rival, planned(rival_0="n0")]).answer()

    assert found.placements == want


def test_a_plan_is_affine() -> None:
    member = shape(4, affinity=affinity(labelled("zone", "In", "a")))
    there = [node("n0"), node("n1", labels={"zone": "a"})]

    assert Ask(pods(1, member), there, sent=()).answer() == want(1, gang_0="n1")


def looked_at(*names: str, at: Sequence[Any]) -> tuple[PodInfo, Cluster]:
    """Return a member, and a cluster in which its pattern was looked at on some of the nodes."""
    of = Pattern(shape(1), "ns", {}, frozenset())
    member = pod("gang-0", of.shape, group="gang", pattern=of)
    return member, cluster_of(at, member, ev.Looked(of, names, 0.0))


def test_nodes_that_kube_scheduler_has_found_good_come_after_those_that_it_sends_now() -> None:
    member, cluster = looked_at("n2", at=nodes(1, 2, 3, 4))

    def node_of(*sent: str) -> str:
        found = fit([member], 1, group="ns/gang", view=cluster.view(), offer=Offer(sent))
        return found.placements[member.uid]

    assert node_of() == "n2"
    assert node_of("n3") == "n3"
    observe(cluster, pod("plain", 4, on="n3"))
    assert node_of("n3") == "n2"
    observe(cluster, node("n2", 3, labels={"a": "b"}))
    assert node_of("n3") == "n0"


def test_a_gang_does_not_end_with_the_nodes_that_were_found_good() -> None:
    member, cluster = looked_at("n1", at=nodes(1, 1, 1))
    more = [replace(member, uid=f"gang-{n}", name=f"gang-{n}") for n in (1, 2)]
    observe(cluster, more)
    found = fit([member, *more], 3, group="ns/gang", view=cluster.view())
    assert found.placements[member.uid] == "n1"
    assert set(found.placements.values()) == {"n0", "n1", "n2"}


def test_of_a_complete_offer_no_other_node_is_used() -> None:
    member, cluster = looked_at("n1", at=nodes(1, 1))
    offer = Offer(("n0",), complete=True)
    observe(cluster, pod("plain", 1, on="n0"))
    assert not fit([member], 1, group="ns/gang", view=cluster.view(), offer=offer).placements
