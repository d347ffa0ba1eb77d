"""Which pods make room for a gang, case by case."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from extender.api.core_v1 import LabelSelector
from extender.fit.candidates import RoomLeft
from extender.gang.verdicts import GangOptions
from extender.gang.victims import Preemption, choosing, stands
from extender.resources.quantity import parse_resources
from extender.state.cluster import events as ev
from extender.state.cluster.records import (
    BudgetInfo,
    NodeInfo,
    NominatedRoom,
    PodInfo,
    PreemptedRoom,
    Shape,
    VictimInfo,
    in_order,
)
from extender.state.cluster.reservations import Claim
from extender.state.cluster.store import Cluster
from extender.steps import at_once
from tests.makers import (
    NAMESPACE,
    cluster_of,
    deleted,
    key,
    node,
    nodes,
    observe,
    planned,
    pod,
    pod_group,
    pods,
    requests,
    shape,
)

NOW = 1000.0
PRIORITY = 5
GANG = [pod_group("gang", 2), pods(2, 4, priority=PRIORITY)]
ONE = [pod_group("gang", 1), pods(1, 4, priority=PRIORITY)]
OPTIONS = GangOptions()


def chosen(
    *facts: Any, options: GangOptions = OPTIONS, group: str = "gang"
) -> tuple[Preemption | None, Cluster]:
    cluster = cluster_of(*facts)
    pod_group = cluster.view().pod_group(key(group))
    assert pod_group is not None
    found = at_once(choosing(pod_group, view=cluster.view(), now=NOW, options=options))
    return found, cluster


def victims(*facts: Any, options: GangOptions = OPTIONS) -> set[str] | None:
    """Return the names of the pods that go; None where there is no preemption."""
    return names(chosen(*facts, options=options)[0])


def names(found: Preemption | None) -> set[str] | None:
    return None if found is None else {pod.name for unit in found.victims for pod in unit.all_pods}


def low(name: str, count: int = 2, *, least: int | None = None, **more: Any) -> list[Any]:
    """Return a gang with pods of 4 CPU, one on each node from `n0` on, or from that of `first`."""
    first, said = more.pop("first", 0), more.pop("said", {})
    members = [
        pod(f"{name}-{i}", 4, group=name, on=f"n{first + i}", index=i, **more) for i in range(count)
    ]
    return [pod_group(name, count if least is None else least, **said), members]


def filling(*names: str, **more: Any) -> list[PodInfo]:
    """Return plain pods, each of which fills a node of 4 CPU."""
    return [pod(name, 4, on=f"n{number}", **more) for number, name in enumerate(names)]


TWO = nodes(4, 4)
FOUR = nodes(4, 4, 4, 4)
OTHERS: dict[str, tuple[list[Any], set[str] | None]] = {
    "room for all": ([TWO, GANG], None),
    "no room, and nothing to take": ([nodes(4), GANG], None),
    "a whole gang": ([TWO, GANG, low("low")], {"low-0", "low-1"}),
    "one of the same priority": ([TWO, GANG, low("low", priority=PRIORITY)], None),
    "one of a higher priority": ([TWO, GANG, low("low", priority=PRIORITY + 1)], None),
    "room for one, and one pod that may go": ([TWO, GANG, filling("a")], {"a"}),
    "room for one, and one that may not": ([TWO, GANG, filling("a", priority=PRIORITY)], None),
    "the lowest priority": (
        [nodes(4, 4, 4), GANG, filling("a"), pod("b", 4, on="n1", priority=1)],
        {"a"},
    ),
    "two of the lowest before one above": (
        [nodes(4, 8), GANG, filling("a", priority=1), pod("b", 1, on="n1"), pod("c", 3, on="n1")],
        {"b", "c"},
    ),
    "the cheaper of two": (
        [nodes(4, 4, 4), GANG, filling("a", "b", cost=1), pod("c", 4, on="n2", bound_at=-9)],
        {"a", "c"},
    ),
    "the younger of two gangs": (
        [
            FOUR,
            GANG,
            low("old", said={"started": 10.0}),
            low("new", first=2, said={"started": 20.0}),
        ],
        {"new-0", "new-1"},
    ),
    "the cheaper of two gangs, though it is older": (
        [
            FOUR,
            GANG,
            low("old", said={"started": 10.0, "cost": -1}),
            low("new", first=2, said={"started": 20.0}),
        ],
        {"old-0", "old-1"},
    ),
    "in their order, however many pods go": (
        [
            nodes(4, 4),
            ONE,
            [pod(f"a{n}", 1, on="n0") for n in range(4)],
            pod("b", 4, on="n1", cost=1),
        ],
        {"a0", "a1", "a2", "a3"},
    ),
    "none that could have stayed": (
        [
            nodes(4, 4),
            ONE,
            [pod(f"a{n}", 1, on="n0") for n in range(4)],
            pod("b", 4, on="n1", cost=-1),
        ],
        {"b"},
    ),
    "not the first gang, where the next one is needed and enough": (
        [
            nodes(4, 4, 4),
            GANG,
            low("small", 1, said={"started": 20.0}),
            low("large", 2, first=1, said={"started": 10.0}),
        ],
        {"large-0", "large-1"},
    ),
    "members that their gang can do without": (
        [nodes(4, 4, 4), GANG, low("low", 3, least=1)],
        {"low-1", "low-2"},
    ),
    "not more of these than it can do without": (
        [nodes(4, 4, 4), GANG, low("low", 3, least=2)],
        {"low-0", "low-1", "low-2"},
    ),
    "a job of a queue goes whole": (
        [nodes(4, 4, 4), GANG, low("low", 3, least=1, workload=f"{NAMESPACE}/w")],
        {"low-0", "low-1", "low-2"},
    ),
    "only as many as the group still needs": (
        [nodes(4, 4, 4), pod_group("gang", 2), pods(3, 4, priority=PRIORITY), filling("a", "b")],
        {"a"},
    ),
    "one of them has a node": (
        [
            TWO,
            pod_group("gang", 2),
            pods(1, 4, priority=PRIORITY, on="n0"),
            pod("gang-1", 4, group="gang", priority=PRIORITY),
            pod("a", 4, on="n1"),
        ],
        {"a"},
    ),
    "what is being deleted is enough": ([TWO, GANG, filling("a", terminating=True)], None),
    "what is being deleted is not taken": (
        [TWO, GANG, filling("a", terminating=True, gone_by=NOW), pod("b", 4, on="n1")],
        {"b"},
    ),
    "what should be gone for long is no room": (
        [
            nodes(4, 4, 4),
            GANG,
            filling("a", terminating=True, gone_by=NOW - 60),
            pod("b", 4, on="n1"),
        ],
        {"b"},
    ),
    "and no room to come": (
        [TWO, GANG, filling("a", terminating=True, gone_by=NOW - 60)],
        None,
    ),
    "no pods are evicted for it": (
        [TWO, pod_group("gang", 2), pods(2, 4, priority=PRIORITY, preempts=False), low("low")],
        None,
    ),
    "only kube-scheduler can judge its pods": (
        [
            TWO,
            pod_group("gang", 2),
            low("low"),
            pods(2, Shape(requests(4), individually_constrained=True), priority=PRIORITY),
        ],
        None,
    ),
    "kube-scheduler finds no node for one, whatever the room": (
        [
            TWO,
            pod_group("gang", 2),
            low("low"),
            pods(2, 4, priority=PRIORITY, unschedulable="0/2 nodes: volume node affinity conflict"),
        ],
        None,
    ),
    "kube-scheduler says that there is no room": (
        [
            TWO,
            pod_group("gang", 2),
            low("low"),
            pods(2, 4, priority=PRIORITY, unschedulable="0/2 nodes: 2 Insufficient cpu."),
        ],
        {"low-0", "low-1"},
    ),
    "too few of its pods are there": ([TWO, pod_group("gang", 3), GANG[1], low("low")], None),
    "more in all than its pods ask for": (
        [TWO, low("low"), GANG[1], pod_group("gang", 2, min_resources=parse_resources({"cpu": 9}))],
        None,
    ),
    "as much in all as its pods ask for": (
        [TWO, low("low"), GANG[1], pod_group("gang", 2, min_resources=parse_resources({"cpu": 8}))],
        {"low-0", "low-1"},
    ),
    "nodes that its pods may not use": (
        [
            nodes(4),
            node("n1", labels={"disk": "ssd"}),
            low("low"),
            pod_group("gang", 1),
            pods(1, shape(4, selector={"disk": "ssd"}), priority=PRIORITY),
        ],
        {"low-0", "low-1"},
    ),
    "members on nodes that its pods may use, of those that can go": (
        [
            node("n0", labels={"disk": "ssd"}),
            nodes(4, 4)[1:],
            low("low", least=1),
            pod_group("gang", 1),
            pods(1, shape(4, selector={"disk": "ssd"}), priority=PRIORITY),
        ],
        {"low-0"},
    ),
    "unlike members": (
        [
            nodes(4, 8),
            pod_group("gang", 2),
            filling("a"),
            pod("b", 3, on="n1"),
            pod("c", 4, on="n1"),
            pod("gang-0", 7, group="gang", priority=PRIORITY),
            pod("gang-1", 1, group="gang", priority=PRIORITY),
        ],
        {"b", "c"},
    ),
}


@pytest.mark.parametrize(("facts", "want"), OTHERS.values(), ids=OTHERS)
def test_what_makes_room(facts: list[Any], want: set[str] | None) -> None:
    assert victims(*facts) == want


KEPT = [pod_group("other", 1)]
RESERVED: dict[str, tuple[list[Any], set[str] | None]] = {
    "a plan of lower priority yields": (
        [pod("other-0", 4, group="other", priority=1), planned(other_0="n1"), filling("a")],
        {"a"},
    ),
    "one of the same priority stays": (
        [pod("other-0", 4, group="other", priority=PRIORITY), planned(other_0="n1"), filling("a")],
        None,
    ),
    "a claim of lower priority yields": (
        [ev.Claimed([Claim(key("other"), 1, {"n1": requests(4)})]), filling("a")],
        {"a"},
    ),
    "one of the same priority stays in its place": (
        [ev.Claimed([Claim(key("other"), PRIORITY, {"n1": requests(4)})]), filling("a")],
        None,
    ),
}


@pytest.mark.parametrize(("facts", "want"), RESERVED.values(), ids=RESERVED)
def test_room_that_is_kept_for_others(facts: list[Any], want: set[str] | None) -> None:
    assert victims(TWO, GANG, KEPT, facts) == want


def zoned(*zones: str) -> list[NodeInfo]:
    return [node(f"n{number}", labels={"zone": zone}) for number, zone in enumerate(zones)]


TOGETHER = [
    pod_group("gang", 2, required_topology="zone"),
    pods(2, 4, priority=PRIORITY),
]


def test_victims_are_in_the_domain_that_the_gang_goes_to() -> None:
    there = zoned("a", "b", "b", "a")
    assert victims(there, TOGETHER, filling("p0", "p1", "p2", "p3")) in ({"p1", "p2"}, {"p0", "p3"})
    high = pod("p0", 4, on="n0", priority=PRIORITY)
    assert victims(there, TOGETHER, filling("p0", "p1", "p2", "p3"), high) == {"p1", "p2"}


def test_the_domain_that_needs_less_is_chosen() -> None:
    there = zoned("a", "b", "b", "a")
    assert victims(there, TOGETHER, filling("p0", "p1", "p2")) == {"p0"}


def test_the_domain_is_that_of_the_members_that_have_a_node() -> None:
    there = zoned("a", "b", "b", "a")
    gang = [
        pod_group("gang", 2, required_topology="zone"),
        pod("gang-0", 4, group="gang", priority=PRIORITY, on="n1"),
        pod("gang-1", 4, group="gang", priority=PRIORITY),
    ]
    others = [pod(f"p{n}", 4, on=f"n{n}", priority=n) for n in (0, 2, 3)]
    assert victims(there, gang, others) == {"p2"}
    assert victims(there, gang, others, replace(others[1], priority=PRIORITY)) is None


def in_zones(*places: str, priority: int = PRIORITY, **more: Any) -> list[Any]:
    """Return a gang of which a queue sends one pod to each of these zones, or hosts."""
    said = {"group": "gang", "pod_set": "main", "controller": "job", "priority": priority, **more}
    members = [pod(f"gang-{n}", 4, index=n, **said) for n in range(len(places))]
    given = in_order(("zone",), [(each,) for each in places])
    return [pod_group("gang", len(places), assigned={"main": given}), members]


AB = in_zones("a", "b")
CHOSEN: dict[str, tuple[list[Any], set[str] | None]] = {
    "cheaper and younger pods elsewhere stay": (
        [
            zoned("a", "b", "c", "c"),
            AB,
            filling("p0", "p1", priority=2, cost=3),
            low("low", first=2, cost=-3),
        ],
        {"p0", "p1"},
    ),
    "in each domain what is cheapest there": (
        [
            zoned("a", "a", "b", "b"),
            AB,
            filling("p0", "p1", "p2"),
            pod("p1", 4, on="n1", cost=-1),
            pod("p3", 4, on="n3", cost=-1),
        ],
        {"p1", "p3"},
    ),
    "in one domain a higher priority than in another": (
        [
            zoned("a", "b", "b"),
            AB,
            [pod("p0", 4, on="n0", priority=3), pod("p1", 4, on="n1", priority=3)],
            pod("p2", 4, on="n2", priority=1),
        ],
        {"p0", "p2"},
    ),
    "nothing in a domain that has room": (
        [zoned("a", "b", "b"), AB, filling("p0"), pod("p1", 4, on="n1", cost=-1)],
        {"p0"},
    ),
    "room in one domain is none in another": (
        [zoned("a", "b", "b"), AB, pod("p0", 4, on="n0", priority=PRIORITY)],
        None,
    ),
    "a domain of which nothing may go": (
        [zoned("a", "b", "c"), AB, filling("p0"), pod("p1", 4, on="n1", priority=PRIORITY)],
        None,
    ),
    "a domain without nodes": ([zoned("a", "c"), AB, filling("p0", "p1")], None),
    "a gang that is in both domains, and not a pod beside it": (
        [
            zoned("a", "a", "b"),
            AB,
            pod("p0", 4, on="n0", bound_at=50.0),
            low("low", 2, first=1, said={"started": 10.0}),
        ],
        {"low-0", "low-1"},
    ),
    "only where a member is missing": (
        [
            zoned("a", "b"),
            AB[0],
            [AB[1][0], replace(AB[1][1], node="n1", shape=shape(1))],
            filling("p0"),
            pod("p1", 3, on="n1", cost=-1),
        ],
        {"p0"},
    ),
    "two members to one domain": (
        [zoned("a", "b", "b"), in_zones("b", "b"), filling("p0", "p1", "p2")],
        {"p1", "p2"},
    ),
    "unlike members of two pod sets in one domain": (
        [
            zoned("a", "a", "b"),
            pod_group(
                "gang",
                2,
                assigned={
                    name: in_order(("zone",), [(zone,)])
                    for name, zone in {"main": "a", "driver": "a"}.items()
                },
            ),
            pod("gang-0", 4, group="gang", pod_set="main", priority=PRIORITY),
            pod("gang-1", 3, group="gang", pod_set="driver", priority=PRIORITY),
            filling("p0", "p1"),
        ],
        {"p0", "p1"},
    ),
    "members of a pod set of which the domain is in that of another": (
        [
            node("n0", 4, labels={"zone": "a", "host": "n0"}),
            node("n1", 8, labels={"zone": "a", "host": "n1"}),
            pod_group(
                "gang",
                2,
                assigned={
                    "main": in_order(("host",), [("n0",)]),
                    "driver": in_order(("zone",), [("a",)]),
                },
            ),
            pod("gang-0", 4, group="gang", pod_set="main", priority=PRIORITY),
            pod("gang-1", 4, group="gang", pod_set="driver", priority=PRIORITY),
            filling("p0"),
            pod("p1", 8, on="n1", cost=1),
        ],
        {"p0", "p1"},
    ),
    "members of a pod set without domains go anywhere": (
        [
            zoned("a", "b"),
            pod_group("gang", 2, assigned={"main": in_order(("zone",), [("a",)])}),
            pod("gang-0", 4, group="gang", pod_set="main", priority=PRIORITY),
            pod("gang-1", 4, group="gang", pod_set="driver", priority=PRIORITY),
            filling("p0"),
        ],
        {"p0"},
    ),
}


@pytest.mark.parametrize(("facts", "want"), CHOSEN.values(), ids=CHOSEN)
def test_victims_are_in_the_domains_that_a_queue_chose(
    facts: list[Any], want: set[str] | None
) -> None:
    found, cluster = chosen(*facts)
    assert names(found) == want
    view = cluster.view()
    given = view.pod_group(key("gang"))
    assert given is not None
    for uid, name in found.pods.items() if found is not None else ():
        places = given.assigned.get(view.pods[uid].pod_set or "")
        if places is not None:
            assert places.of(view.nodes[name].labels) in dict(places.domains)


def test_each_of_many_hosts_makes_room_that_has_none() -> None:
    hosts = [f"h{n}" for n in range(300)]
    there = [node(name, labels={"zone": name}) for name in [*hosts, "spare"]]
    full = [pod(f"p{n}", 4, on=name) for n, name in enumerate([*hosts[:200], "spare"])]
    found, _ = chosen(there, in_zones(*hosts), full)
    assert found is not None
    assert names(found) == {f"p{n}" for n in range(200)}
    assert found.pods == {f"gang-{n}": name for n, name in enumerate(hosts)}


def budget(name: str, allowed: int, **labels: str) -> ev.ObjectApplied:
    return ev.ObjectApplied(
        BudgetInfo(NAMESPACE, name, LabelSelector(match_labels=labels), allowed)
    )


STRICT = GangOptions(strict_budgets=True)
GUARDED: dict[str, Any] = {"labels": {"app": "a"}}
BUDGETS: dict[str, tuple[list[Any], set[str] | None, set[str] | None]] = {
    "those that none protects": (
        [
            FOUR,
            filling("a", "b", **GUARDED),
            pod("c", 4, on="n2", priority=1),
            pod("d", 4, on="n3", priority=2),
            budget("b", 0, app="a"),
        ],
        {"c", "d"},
        {"c", "d"},
    ),
    "as many as it allows": (
        [
            nodes(4, 4, 4),
            filling("a", "b", **GUARDED),
            pod("c", 4, on="n2", priority=1),
            budget("b", 1, app="a"),
        ],
        {"a", "c"},
        {"a", "c"},
    ),
    "all are protected": (
        [TWO, filling("a", "b", **GUARDED), budget("b", 1, app="a")],
        {"a", "b"},
        None,
    ),
    "a gang is protected by one of its pods": (
        [FOUR, low("one", **GUARDED), low("two", first=2, priority=1), budget("b", 1, app="a")],
        {"two-0", "two-1"},
        {"two-0", "two-1"},
    ),
    "a budget of other pods": (
        [TWO, filling("a", "b", **GUARDED), budget("b", 0, app="b")],
        {"a", "b"},
        {"a", "b"},
    ),
}


@pytest.mark.parametrize(("facts", "want", "strict"), BUDGETS.values(), ids=BUDGETS)
def test_disruption_budgets(
    facts: list[Any], want: Collection[str] | None, strict: Collection[str] | None
) -> None:
    assert victims(GANG, facts) == want
    assert victims(GANG, facts, options=STRICT) == strict


@pytest.mark.parametrize("options", [OPTIONS, STRICT], ids=["best effort", "strict"])
def test_what_a_budget_allows_is_not_spent_on_pods_that_help_nothing(options: GangOptions) -> None:
    """The youngest goes first, and without its neighbour its room is too small."""
    facts = [
        nodes(2, 2),
        pod_group("gang", 1),
        pods(1, 2, priority=PRIORITY),
        pod("young", 1, on="n0", bound_at=2.0, **GUARDED),
        pod("neighbour", 1, on="n0", priority=PRIORITY - 1),
        pod("old", 2, on="n1", bound_at=1.0, **GUARDED),
        budget("b", 1, app="a"),
    ]
    assert victims(facts, options=options) == {"old"}


@pytest.mark.parametrize(("count", "workers"), [(100, 4), (200, 16)])
def test_unlike_members_take_no_more_of_a_large_cluster_than_they_need(
    count: int, workers: int
) -> None:
    """The pods on full nodes have ages in no order: the youngest are spread over all nodes."""
    there = [
        pod(f"p{number}-{n}", 1, on=f"n{number}", bound_at=float((number * 8 + n) * 7919 % 9973))
        for number in range(count)
        for n in range(8)
    ]
    gang = [
        pod_group("gang", workers + 1),
        pod("gang-0", 1, group="gang", priority=PRIORITY),
        [pod(f"gang-{n + 1}", 8, group="gang", priority=PRIORITY) for n in range(workers)],
    ]
    found = victims([node(f"n{number}", 8) for number in range(count)], there, gang)
    assert found is not None
    assert len(found) == 8 * workers + 1


def test_a_budget_that_is_gone_protects_nothing() -> None:
    facts = [TWO, GANG, filling("a", "b", **GUARDED), budget("b", 0, app="a")]
    assert victims(facts, options=STRICT) is None
    assert victims(facts, deleted(f"{NAMESPACE}/b", BudgetInfo), options=STRICT) == {"a", "b"}


PORT = frozenset({("TCP", 80, "")})


def test_the_pod_that_has_the_host_port_goes() -> None:
    def with_port(name: str, **more: Any) -> PodInfo:
        asks = Shape(requests(1), one_per_node=True, host_ports=PORT)
        return pod(name, asks, **more)

    gang = [pod_group("gang", 1), with_port("gang-0", group="gang", priority=PRIORITY)]
    there = [node("n0", 8), with_port("has", on="n0"), pod("other", 1, on="n0")]
    assert victims(there, gang) == {"has"}
    closed = [with_port("stays", on="n0", priority=PRIORITY), pod("a", 1, on="n0")]
    others = [node("n0", 2), node("n1", 1), closed, pod("b", 1, on="n1", priority=1)]
    assert victims(others, gang) == {"b"}
    assert victims(there, gang, with_port("has", on="n0", priority=PRIORITY)) is None


def test_where_the_members_go() -> None:
    found, _ = chosen(nodes(4, 8), GANG, filling("a"), pod("b", 4, on="n1"))
    assert found is not None
    assert [unit.all_pods[0].name for unit in found.victims] == ["a"]
    assert sorted(found.pods.values()) == ["n0", "n1"]
    assert [*found.nodes.items()] == [("n0", requests(4)), ("n1", requests(4))]


def test_the_most_important_victim_is_named_first() -> None:
    found, _ = chosen(TWO, GANG, filling("a"), pod("b", 4, on="n1", priority=3))
    assert found is not None
    assert [unit.rank.priority for unit in found.victims] == [3, 0]


def nomination(*victims: str, **rooms: int) -> ev.Nominated:
    """Return that another group of the same priority gets so much CPU of nodes from victims."""
    kept = {name: NominatedRoom((), requests(cpu)) for name, cpu in rooms.items()}
    gone = tuple(VictimInfo("Pod", name, (name,)) for name in victims)
    return ev.Nominated(key("other"), PreemptedRoom(NOW, kept, gone))


OTHER = [pod_group("other", 1), pod("other-0", 4, group="other", priority=PRIORITY)]
UNDER_WAY: dict[str, tuple[list[Any], set[str] | None]] = {
    "what another one leaves is enough": (
        [nodes(8, 4), pod("a", 8, on="n0"), nomination("a", n0=4)],
        None,
    ),
    "what it does not leave is needed": (
        [nodes(8), pod("a", 4, on="n0"), pod("b", 4, on="n0"), nomination("a", n0=4)],
        {"b"},
    ),
    "a gang that leaves is not taken once more": (
        [
            nodes(4, 4, 4, 4),
            low("low"),
            low("late", first=2, priority=1),
            nomination("low-0", "low-1", n0=4, n1=4),
        ],
        {"late-0", "late-1"},
    ),
    "a gang of which members leave goes on without them": (
        [nodes(4, 4, 4), low("low", 3, least=2), nomination("low-2", n2=4)],
        {"low-0", "low-1"},
    ),
}


@pytest.mark.parametrize(("facts", "want"), UNDER_WAY.values(), ids=UNDER_WAY)
def test_victims_that_make_room_for_another_gang(facts: list[Any], want: set[str] | None) -> None:
    gang = GANG if want is not None and len(want) == 2 else ONE
    assert victims(gang, OTHER, facts) == want


CHANGES: dict[str, Any] = {
    "a victim makes room for another gang": nomination("low-0"),
    "a victim is gone": deleted("low-0"),
    "a victim is being deleted": pod("low-0", 4, group="low", on="n0", terminating=True),
    "a victim is as important now": pod("low-0", 4, group="low", on="n0", priority=PRIORITY),
    "its gang has another member": pod("low-2", 1, group="low", on="n2"),
    "a node is gone": deleted("n0", NodeInfo),
    "a node is not ready": node("n0", ready=False),
    "a node is smaller": node("n0", 3),
    "another pod has come": pod("new", 1, on="n2", priority=PRIORITY),
    "a member is gone": deleted("gang-0"),
    "a member has a node": pod("gang-0", 4, group="gang", priority=PRIORITY, on="n2"),
    "a member is being deleted": pod(
        "gang-0", 4, group="gang", priority=PRIORITY, terminating=True
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_ends_the_reason_for_a_preemption(change: Any) -> None:
    gang = [pod_group("gang", 3), pods(3, 4, priority=PRIORITY)]
    found, cluster = chosen(nodes(4, 4, 5), OTHER, gang, low("low"))
    assert found is not None
    assert stands(found, view=cluster.view(), now=NOW)
    if isinstance(change, PodInfo) and change.name == "new":
        change = replace(change, shape=shape(2))
    observe(cluster, change)
    assert not stands(found, view=cluster.view(), now=NOW)


def test_a_gang_that_needs_more_members_now_keeps_them() -> None:
    found, cluster = chosen(nodes(4, 4, 4), GANG, low("low", 3, least=1))
    assert found is not None
    assert stands(found, view=cluster.view(), now=NOW)
    observe(cluster, pod_group("low", 2))
    assert not stands(found, view=cluster.view(), now=NOW)


def test_the_room_of_what_is_being_deleted_counts_until_it_is_late() -> None:
    facts = [nodes(4, 4, 4), pod_group("gang", 2), pods(2, 4, priority=PRIORITY)]
    going = pod("going", 4, on="n0", terminating=True, gone_by=NOW)
    found, cluster = chosen(facts, going, filling("x", "a")[1], pod("b", 4, on="n2", priority=9))
    assert found is not None
    assert stands(found, view=cluster.view(), now=NOW)
    assert not stands(found, view=cluster.view(), now=NOW + 60)


def test_each_node_is_looked_at_a_few_times_however_many_have_to_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of them go; where each cost a look at all nodes, thousands would take minutes."""
    looks, take = 0, RoomLeft.take

    def counted(*asked: Any) -> Any:
        nonlocal looks
        looks += 1
        return take(*asked)

    monkeypatch.setattr(RoomLeft, "take", counted)
    names = [f"low-{number}" for number in range(200)]
    gang = [pod_group("gang", 200), pods(200, 4, priority=PRIORITY)]

    assert victims(nodes(*[4] * 200), filling(*names), gang) == {*names}
    assert looks < 10 * 200
