"""Which group has a claim to room after a long wait, and to which room."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from extender.api.core_v1 import Toleration
from extender.gang.aging import MOST, deciding, free_on_kept, published, waits_since
from extender.gang.verdicts import GangOptions
from extender.state.cluster import events as ev
from extender.state.cluster.records import DomainAssignment, NodeInfo, PodInfo
from extender.state.cluster.reservations import Claim
from extender.state.cluster.store import Cluster
from extender.steps import FairShare, at_once
from tests.at_once import due_claims
from tests.makers import cluster_of, key, node, nodes, observe, pod, pod_group, pods, shape, taint
from tests.recount import check_tables

OPTIONS = GangOptions(aging=100.0, claims_per_namespace=20, claim_nodes_percentage=100)
NOW = 1000.0


def group(
    name: str = "gang", created: float = 850.0, *, size: int = 2, cpu: int = 4, **fields: Any
) -> list[Any]:
    return [pod_group(name, size, created=created), *pods(size, cpu, group=name, **fields)]


def claims(
    *there: Any, now: float = NOW, options: GangOptions = OPTIONS
) -> dict[str, dict[str, int]]:
    """Return the CPUs that are claimed, by group and node."""
    return cpus(due_claims(view=cluster_of(there).view(), now=now, options=options))


def cpus(found: Sequence[Claim]) -> dict[str, dict[str, int]]:
    """Return claims that have a place."""
    return {
        claim.owner.removeprefix("ns/"): {
            name: amounts["cpu"] // 1000 for name, amounts in claim.amounts.items()
        }
        for claim in found
        if claim.amounts
    }


def full(*there: NodeInfo) -> list[Any]:
    """Return nodes without room, all equally busy."""
    return [*there, *(pod(f"on-{each.name}", 4, on=each.name) for each in there)]


BUSY = [*nodes(4, 4, 4), pod("x", 3, on="n0"), pod("y", 1, on="n1"), pod("z", 2, on="n2")]

WANT: dict[str, tuple[Sequence[Any], dict[str, dict[str, int]]]] = {
    "the nodes that have least to give up": ([BUSY, group()], {"gang": {"n1": 4, "n2": 4}}),
    "there is no group": (BUSY, {}),
    "a young group has none": ([BUSY, group(created=901.0)], {}),
    "a group that has just come of age has one": (
        [BUSY, group(created=900.0)],
        {"gang": {"n1": 4, "n2": 4}},
    ),
    "a wait begins when the pods are there": (
        [BUSY, group(created=0.0), pod_group("gang", 2)],
        {"gang": {"n1": 4, "n2": 4, "n0": 4}},
    ),
    "with each period it grows": (
        [*full(*nodes(4, 4, 4, 4)), group(created=850.0, size=1)],
        {"gang": {"n0": 4}},
    ),
    "twice the period, twice the room": (
        [*full(*nodes(4, 4, 4, 4)), group(created=750.0, size=1)],
        {"gang": {"n0": 4, "n1": 4}},
    ),
    "three times the room at most: services never end": (
        [*full(*nodes(4, 4, 4, 4)), group(created=1.0, size=1)],
        {"gang": {"n0": 4, "n1": 4, "n2": 4}},
    ),
    "members share a node where they can": (
        [*full(*nodes(4, 4)), group(cpu=2)],
        {"gang": {"n0": 4}},
    ),
    "only those that are missing": (
        [BUSY, group()[:2], pod("gang-1", 1, group="gang", on="n2")],
        {"gang": {"n1": 4}},
    ),
    "a group that never fits has none": ([*full(*nodes(4, 4)), group(cpu=5)], {}),
    "a group that waits for a pod has none": ([BUSY, group()[:2]], {}),
    "nodes that it cannot use are not claimed": (
        [
            node("n0", taints=(taint(),)),
            node("n1", unschedulable=True),
            *full(node("n2")),
            group(size=1),
        ],
        {"gang": {"n2": 4}},
    ),
    "the older one first, then on what is left": (
        [*full(*nodes(4, 4, 4)), group("b", 840.0, size=1), group("a", 850.0, size=2)],
        {"b": {"n0": 4}, "a": {"n1": 4, "n2": 4}},
    ),
    "priority before age": (
        [*full(*nodes(4)), group("b", 840.0, size=1), group("a", 850.0, size=1, priority=3)],
        {"a": {"n0": 4}},
    ),
    "behind one that has no place yet no group takes its nodes": (
        [
            *full(*nodes(4, 4, 4)),
            group("a", 800.5, size=2),
            group("b", 810.0, size=2),
            group("c", 820.0, size=1),
        ],
        {"a": {"n0": 4, "n1": 4}},
    ),
    "others' nodes are free for others": (
        [
            *full(*nodes(4, 4, 4)),
            *full(node("z", labels={"zone": "z"})),
            group("a", 810.0, size=3, cpu=4),
            [
                pod_group("c", 1, created=820.0),
                pod("c", shape(4, selector={"zone": "z"}), group="c"),
            ],
        ],
        {"a": {"n0": 4, "n1": 4, "n2": 4}, "c": {"z": 4}},
    ),
    "a group that would fit has none: it is not room that it waits for": (
        [nodes(4, 4), group(unschedulable="no volume")],
        {},
    ),
    "a group that never fits bars no other": (
        [*full(*nodes(4, 4)), group("a", 810.0, cpu=5), group("b", 820.0, size=1)],
        {"b": {"n0": 4}},
    ),
}


@pytest.mark.parametrize(("there", "want"), WANT.values(), ids=WANT)
def test_which_groups_have_claims_on_which_nodes(
    there: Sequence[Any], want: dict[str, dict[str, int]]
) -> None:
    assert claims(there) == want


RACK = "rack"
BY_RACK = DomainAssignment((RACK,), ((("a",), 1), (("b",), 1)))


def chosen(
    assigned: DomainAssignment = BY_RACK, *, on: Sequence[str | None] = (None, None), cpu: int = 4
) -> list[Any]:
    """Return a group of the queue, one pod in each of two racks, that has waited for long."""
    members = [
        pod(f"gang-{n}", cpu, group="gang", index=n, pod_set="main", controller="job", on=name)
        for n, name in enumerate(on)
    ]
    return [pod_group("gang", len(on), created=850.0, assigned={"main": assigned}), *members]


def in_racks(*racks: str, cpu: int = 4, taken: Sequence[int]) -> list[Any]:
    """Return nodes in racks, of which pods take so much."""
    there = [node(f"n{n}", cpu, labels={RACK: rack}) for n, rack in enumerate(racks)]
    return [there, [pod(f"on-n{n}", used, on=f"n{n}") for n, used in enumerate(taken) if used]]


CHOSEN: dict[str, tuple[Sequence[Any], dict[str, dict[str, int]]]] = {
    "in each of its domains, though others are idle": (
        [in_racks("a", "b", "c", "c", taken=(4, 4, 1, 1)), chosen()],
        {"gang": {"n0": 4, "n1": 4}},
    ),
    "the nodes of a domain that have least to give up": (
        [in_racks("a", "a", "b", "b", taken=(4, 1, 1, 4)), chosen()],
        {"gang": {"n1": 4, "n2": 4}},
    ),
    "no more in a domain than goes there": (
        [in_racks("a", "b", cpu=8, taken=(8, 8)), chosen()],
        {"gang": {"n0": 4, "n1": 4}},
    ),
    "only where members are missing": (
        [in_racks("a", "b", "c", taken=(0, 4, 1)), chosen(on=("n0", None))],
        {"gang": {"n1": 4}},
    ),
    "one that never fits there has none": (
        [in_racks("a", "c", "c", taken=(4, 4, 4)), chosen()],
        {},
    ),
    "one that never fits there bars no other": (
        [in_racks("a", "c", "c", taken=(4, 4, 4)), chosen(), group("late", 851.0, size=1)],
        {"late": {"n0": 4}},
    ),
    "an older one's nodes are not claimed, and those that it could use are for no later one": (
        [
            in_racks("a", "b", "c", taken=(4, 4, 4)),
            group("old", 840.0, size=1),
            chosen(),
            group("late", 851.0, size=1),
        ],
        {"old": {"n0": 4}, "late": {"n2": 4}},
    ),
}


@pytest.mark.parametrize(("there", "want"), CHOSEN.values(), ids=CHOSEN)
def test_claims_are_in_the_domains_that_a_queue_chose(
    there: Sequence[Any], want: dict[str, dict[str, int]]
) -> None:
    assert claims(there) == want


def test_with_each_period_a_claim_grows_in_its_domains_alone() -> None:
    there = [in_racks("a", "b", "c", cpu=8, taken=(8, 8, 0)), chosen()]
    assert claims(there, now=NOW + 51) == {"gang": {"n0": 8, "n1": 8}}
    assert claims(there, now=NOW + 151) == {"gang": {"n0": 8, "n1": 8}}


def test_on_a_cluster_that_grows_a_claim_is_what_the_group_needs() -> None:
    there, later = [full(*nodes(4, 4, 4, 4)), group(size=1)], NOW + 201
    growing = replace(OPTIONS, growing=True)
    assert claims(there, now=later) == {"gang": {"n0": 4, "n1": 4, "n2": 4}}
    assert claims(there, now=later, options=growing) == {"gang": {"n0": 4}}


def test_a_claim_goes_with_the_domains() -> None:
    """A host that is gone was replaced by another one."""
    cluster, share = cluster_of(in_racks("a", "b", "c", taken=(4, 4, 4)), chosen()), FairShare(MOST)
    assert cpus(remembering(cluster, share)) == {"gang": {"n0": 4, "n1": 4}}
    others = DomainAssignment((RACK,), ((("a",), 1), (("c",), 1)))
    observe(cluster, chosen(others)[0])
    assert cpus(remembering(cluster, share)) == {"gang": {"n0": 4, "n2": 4}}


def test_a_claim_of_two_pod_sets_is_in_the_domains_of_one_alone() -> None:
    """The flavor of the other one has no topology."""
    members = [
        pod(f"gang-{n}", 4, group="gang", index=0, pod_set=name, controller=f"job-{name}")
        for n, name in enumerate(("main", "driver"))
    ]
    one = DomainAssignment((RACK,), ((("b",), 1),))
    gang = pod_group("gang", 2, created=850.0, assigned={"main": one})
    there = in_racks("a", "b", "c", taken=(4, 4, 1))
    assert claims(there, gang, members) == {"gang": {"n1": 4, "n2": 4}}


def test_aging_can_be_turned_off() -> None:
    assert claims(BUSY, group(created=0.0), options=GangOptions(aging=0.0)) == {}


def test_a_wait_begins_with_the_last_pod_that_is_needed() -> None:
    young = [pod("a", group="gang", created=5.0), pod("b", group="gang", created=70.0)]
    late = pod("c", group="gang", created=90.0)
    group = pod_group(min_member=2, created=9.0)
    view = cluster_of(group, young, late).view()

    assert waits_since(group, view=view) == 70.0
    assert waits_since(pod_group(min_member=1, created=9.0), view=view) == 9.0
    assert waits_since(pod_group("other", created=9.0), view=view) == 9.0


def look(cluster: Cluster, now: float = NOW) -> Sequence[Claim]:
    found = due_claims(view=cluster.view(), now=now, options=OPTIONS)
    cluster.apply(ev.Claimed(found))
    check_tables(cluster)
    return found


def test_a_claim_stays_where_it_is_while_nothing_else_is_due() -> None:
    cluster = cluster_of(BUSY, group())
    first = look(cluster)
    observe(cluster, ev.ObjectDeleted(PodInfo, "x"), pod("w", 4, on="n1"))

    assert look(cluster, NOW + 49) == first
    assert cpus(look(cluster, NOW + 51)) == {"gang": {"n0": 4, "n2": 4, "n1": 4}}


def test_a_claim_moves_when_its_node_goes() -> None:
    cluster = cluster_of(BUSY, group())
    look(cluster)
    observe(cluster, ev.ObjectDeleted(NodeInfo, "n1"))

    assert cpus(look(cluster)) == {"gang": {"n2": 4, "n0": 4}}


def test_a_claim_moves_when_a_part_of_the_group_may_use_its_nodes_no_more() -> None:
    large, small = shape(4), shape(4, tolerations=(Toleration(key="k", operator="Exists"),))
    members = [pod("gang-0", large, group="gang"), pod("gang-1", small, group="gang")]
    cluster = cluster_of(full(*nodes(4, 4, 4)), pod_group("gang", 2, created=850.0), members)
    assert cpus(look(cluster)) == {"gang": {"n0": 4, "n1": 4}}
    closed = taint("k")
    observe(cluster, node("n0", taints=(closed,)), node("n1", taints=(closed,)))
    assert cpus(look(cluster)) == {"gang": {"n0": 4, "n2": 4}}


def test_an_earlier_claim_takes_the_nodes_of_a_later_one() -> None:
    cluster = cluster_of(full(*nodes(4, 4)), group("late", 850.0, size=1))
    assert cpus(look(cluster)) == {"late": {"n0": 4}}
    observe(cluster, group("vip", 860.0, size=2, priority=5))

    assert cpus(look(cluster)) == {"vip": {"n0": 4, "n1": 4}}


def test_a_group_that_fits_and_does_not_come_loses_its_claim() -> None:
    cluster = cluster_of(BUSY, group())
    first = look(cluster)
    observe(cluster, *(ev.ObjectDeleted(PodInfo, name) for name in "xyz"))

    assert look(cluster, NOW + 1) == first
    assert look(cluster, NOW + 31) == first
    assert look(cluster, NOW + 32) == ()
    assert look(cluster, NOW + 33) == ()


def test_patience_begins_anew_when_the_room_has_gone_again() -> None:
    cluster = cluster_of(BUSY, group())
    look(cluster)
    observe(cluster, *(ev.ObjectDeleted(PodInfo, name) for name in "xyz"))
    look(cluster, NOW + 1)
    observe(cluster, BUSY)
    look(cluster, NOW + 20)
    observe(cluster, *(ev.ObjectDeleted(PodInfo, name) for name in "xyz"))

    assert cpus(look(cluster, NOW + 40))
    assert look(cluster, NOW + 45)


def test_no_group_waits_for_another_schedulers_pods() -> None:
    view = cluster_of(BUSY, group()).view()
    asked: dict[str, Any] = {"now": NOW, "options": OPTIONS, "view": view}

    assert due_claims(**asked, schedulers={"default-scheduler"})
    assert not due_claims(**asked, schedulers={"other"})


def test_a_wait_for_anything_but_room_does_not_count() -> None:
    view = cluster_of(BUSY, group(created=0.0)).view()

    assert not due_claims(view=view, now=NOW, options=OPTIONS, entered={key("gang"): NOW - 99})
    assert due_claims(view=view, now=NOW, options=OPTIONS, entered={key("gang"): NOW - 100})


def test_only_so_many_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.gang.aging.MOST", 2)
    groups = [group(f"g{number}", 800.0 + number, size=1) for number in range(4)]

    assert set(claims(full(*nodes(4, 4, 4, 4)), groups)) == {"g0", "g1"}


FULL_OF_TWO = [
    *full(*nodes(4, 4, 4)),
    group("a", 840.0, size=2),
    group("b", 845.0, size=3),
    group("c", 850.0, size=1),
]


def remembering(
    cluster: Cluster, share: FairShare, options: GangOptions = OPTIONS
) -> Sequence[Claim]:
    """Look with what the last look has left."""
    looking = deciding(share, view=cluster.view(), now=NOW, options=options)
    found = at_once(looking)
    observe(cluster, ev.Claimed(found))
    return found


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("looked at all nodes again")

    monkeypatch.setattr("extender.gang.aging.Packer", never)


QUIET: dict[str, Sequence[Any]] = {
    "nothing has changed": (),
    "too little room appeared": [pod("on-n0", 3, on="n0")],
    "a pod came": [pod("late")],
}


@pytest.mark.parametrize("news", QUIET.values(), ids=QUIET)
def test_only_what_news_touch_is_looked_at(
    news: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, share = cluster_of(FULL_OF_TWO), FairShare(MOST)
    before = remembering(cluster, share)
    assert [len(claim.amounts) for claim in before] == [2, 0, 0]
    observe(cluster, news)
    forbid(monkeypatch)
    assert remembering(cluster, share) == before


LOUD: dict[str, tuple[Sequence[Any], dict[str, dict[str, int]]]] = {
    "a node that was claimed is closed": (
        [node("n0", unschedulable=True)],
        {"a": {"n1": 4, "n2": 4}},
    ),
    "a node that was claimed went": ([ev.ObjectDeleted(NodeInfo, "n0")], {"a": {"n1": 4, "n2": 4}}),
    "a node came": ([node("n3")], {"a": {"n0": 4, "n1": 4}}),
    "nodes came for those in vain": (
        [*full(*nodes(4, 4, 4, 4, 4, 4)[3:])],
        {"a": {"n0": 4, "n1": 4}, "b": {"n2": 4, "n3": 4, "n4": 4}, "c": {"n5": 4}},
    ),
}


@pytest.mark.parametrize(("news", "want"), LOUD.values(), ids=LOUD)
def test_what_news_touch_is_looked_at(news: Sequence[Any], want: dict[str, dict[str, int]]) -> None:
    cluster, share = cluster_of(FULL_OF_TWO), FairShare(MOST)
    remembering(cluster, share)
    observe(cluster, news)
    assert cpus(remembering(cluster, share)) == want


def test_a_namespace_has_so_many_claims_and_nodes() -> None:
    others = [
        replace(each, namespace="theirs", **({"group": "theirs/z"} if i else {}))
        for i, each in enumerate(group("z", 849.0, size=1))
    ]
    groups = [group(f"g{number}", 805.0 + number, size=1) for number in range(6)]
    there = [full(*nodes(*[4] * 8)), groups, others]
    few = replace(OPTIONS, claims_per_namespace=2)
    assert set(claims(there, options=few)) == {"g0", "g1", "theirs/z"}
    narrow = replace(OPTIONS, claim_nodes_percentage=50)
    assert set(claims(there, options=narrow)) == {"g0", "g1", "g2", "g3", "theirs/z"}


def test_one_that_needs_more_than_its_namespace_may_have_claims_and_bars_nothing() -> None:
    there = [full(*nodes(4, 4, 4, 4)), group("wide", 800.0, size=3), group("slim", 805.0)]
    half = replace(OPTIONS, claim_nodes_percentage=50)
    assert claims(there, options=half) == {"slim": {"n0": 4, "n1": 4}}


def test_a_claim_says_that_the_limit_of_its_namespace_left_it_no_nodes() -> None:
    """It is the limit of its namespace, and neither the nodes nor those that go first."""
    half = replace(OPTIONS, claim_nodes_percentage=50)
    there = [full(*nodes(4, 4, 4, 4)), group("wide", 800.0, size=3)]
    view = cluster_of(there).view()
    found = {each.owner: each for each in due_claims(view=view, now=NOW, options=half)}
    assert found[key("wide")].limit == 2
    assert not found[key("wide")].amounts
    found = {each.owner: each for each in due_claims(view=view, now=NOW, options=OPTIONS)}
    assert found[key("wide")].limit is None
    assert found[key("wide")].amounts


def test_what_is_over_the_limit_counts_for_no_claim_of_its_namespace() -> None:
    wide = [group(f"wide{number}", 800.0 + number, size=3) for number in range(3)]
    there = [full(*nodes(4, 4, 4, 4)), wide, group("slim", 805.0, size=1)]
    half = replace(OPTIONS, claim_nodes_percentage=50, claims_per_namespace=1)
    assert claims(there, options=half)["slim"] == {"n0": 4}


def test_it_does_not_grow_beyond_its_share() -> None:
    there = [full(*nodes(4, 4, 4, 4)), group(created=1.0, size=1)]
    half = replace(OPTIONS, claim_nodes_percentage=50)
    assert claims(there, options=half) == {"gang": {"n0": 4, "n1": 4}}


def test_a_claimed_node_that_goes_in_the_middle_of_a_look_ends_that_claim_alone() -> None:
    cluster = cluster_of(full(*nodes(4, 4, 4)), group("a", size=1), group("b", 851.0, size=1))
    share, view = FairShare(MOST), cluster.view()
    options = GangOptions(aging=100.0, claims_per_namespace=20, claim_nodes_percentage=100)
    first = at_once(deciding(share, view=view, now=NOW, options=options))
    observe(cluster, ev.Claimed(first))
    (gone,) = first[0].amounts
    steps = deciding(share, view=view, now=NOW, options=options)
    next(steps)
    observe(cluster, ev.ObjectDeleted(NodeInfo, gone))
    found = at_once(steps)
    assert [claim.owner for claim in found] == [key("a"), key("b")]
    assert not any(gone in claim.amounts for claim in found)


def test_groups_that_fit_and_do_not_start_keep_no_other_from_a_claim() -> None:
    """Room is there for each of them, and something that no plan sees keeps it from a start."""
    small = [each for n in range(24) for each in group(f"s{n:02}", 700.0, size=1, cpu=1)]
    view = cluster_of([nodes(4, 4), pod("x", 3, on="n0"), *small, *group("large")]).view()
    share, found = FairShare(MOST), dict[str, dict[str, int]]()
    for _ in range(3):
        found |= cpus(at_once(deciding(share, view=view, now=NOW, options=OPTIONS)))
    assert found == {"large": {"n0": 4, "n1": 4}}


CLAIMED = {"cpu": 2000, "pods": 1}
PUBLISHES = GangOptions(publishes_after=900.0)


@pytest.mark.parametrize(
    ("made", "want"),
    [
        ([Claim("ns/a", 0, {"n1": CLAIMED, "n0": CLAIMED})], {"ns/a": ("n0", "n1")}),
        (
            [Claim("ns/a", 0, {"n0": CLAIMED}), Claim("ns/b", 0, {"n0": CLAIMED, "n1": CLAIMED})],
            {"ns/a": ("n0",), "ns/b": ("n1",)},
        ),
        (
            [Claim("ns/a", 0, {"n0": CLAIMED}, fits_since=1.0), Claim("ns/b", 0, {"n0": CLAIMED})],
            {},
        ),
        ([Claim("ns/a", 0, {})], {}),
        ([Claim("ns/gone", 0, {"n0": CLAIMED})], {}),
        ([Claim("ns/late", 0, {"n0": CLAIMED})], {}),
        ([Claim("ns/entered", 0, {"n0": CLAIMED})], {}),
    ],
)
def test_which_nodes_autoscalers_find_taken(
    made: list[Claim], want: dict[str, tuple[str, ...]]
) -> None:
    """The gangs `a` and `b` have waited for 900 seconds, and growth has had its chance."""
    waits = [group(name, 100.0) for name in ("a", "b", "entered")]
    cluster = cluster_of(*waits, *group("late", 101.0))
    cluster.apply(ev.Claimed(made))
    view, entered = cluster.view(), {"ns/entered": 101.0}
    assert published(view, 1000.0, options=PUBLISHES, entered=entered) == want
    assert published(view, 1000.0, options=OPTIONS, entered=entered) == {}


def kept(*nodes: str, name: str = "a", **asks: Any) -> list[object]:
    """Return a gang that waits and for which nodes are kept."""
    return [pod_group(name, 1, kept_nodes=nodes), pod(f"{name}-0", shape(2, **asks), group=name)]


BOTH = [*nodes(4, 4), pod("x", 1, on="n0")]
LARGE = node("n0", 4, gpu=2).allocatable


@pytest.mark.parametrize(
    ("there", "want"),
    [
        ([*BOTH, *kept("n0")], {"n0": ("a", {"cpu": 3000})}),
        (
            [NodeInfo("n0", {**LARGE, "memory": 8}), pod("x", 4, on="n0"), *kept("n0", gpu=1)],
            {"n0": ("a", {"example.com/gpu": 2, "memory": 8})},
        ),
        ([node("n0", 4, gpu=2), *kept("n0")], {"n0": ("a", {"cpu": 4000})}),
        ([*BOTH, pod("y", 3, on="n0"), *kept("n0")], {}),
        (
            [*BOTH, *kept("n0", "n1"), *kept("n1", name="b")],
            {"n0": ("a", {"cpu": 3000}), "n1": ("a", {"cpu": 4000})},
        ),
        ([*BOTH, *kept("gone"), *kept()], {}),
        ([*BOTH, pod_group("a", 1, kept_nodes=("n0",)), pod("a-0", 1, group="a", on="n1")], {}),
        ([*BOTH, pod_group("a", 1, kept_nodes=("n0",))], {}),
    ],
)
def test_what_is_free_on_kept_nodes(
    there: Any, want: dict[str, tuple[str, dict[str, int]]]
) -> None:
    found = free_on_kept(cluster_of(there).view())
    assert {name: (of.name, free) for name, (of, free) in found.items()} == want
