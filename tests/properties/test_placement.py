"""Placement against counts, for equal pods; unlike ones fit with it wherever they fit without."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from extender.api.wellknown import ZONE_LABEL
from extender.gang.fit import Fit, Offer
from extender.gang.score import score
from extender.state.cluster.records import NodeInfo, PodInfo
from tests.at_once import fitted
from tests.makers import cluster_of, node, pod, pod_group, pods, shape

SIZES = st.lists(st.integers(0, 9), min_size=1, max_size=12)
"""CPU of nodes."""
SIBLINGS = st.lists(st.integers(0, 3), max_size=12)
"""Members that run on the first nodes already."""
COUNTS = st.integers(1, 14)
CPU = st.integers(1, 3)


def made(sizes: Sequence[int], zones: int = 3) -> list[NodeInfo]:
    return [
        node(f"n{number}", cpu, labels={ZONE_LABEL: f"z{number % zones}"})
        for number, cpu in enumerate(sizes)
    ]


def running(siblings: Sequence[int]) -> list[PodInfo]:
    """Return so many members on each node, which ask for nothing."""
    return [
        pod(f"old-{number}-{each}", shape(0), group="gang", on=f"n{number}")
        for number, some in enumerate(siblings)
        for each in range(some)
    ]


def placed(
    sizes: Sequence[int], count: int, cpu: int, placement: str, siblings: Sequence[int] = ()
) -> Fit:
    """Return where members go beside siblings."""
    there = running(siblings[: len(sizes)])
    group = pod_group(min_member=count + len(there), placement=placement)
    return fitted(pods(count, cpu), made(sizes), group, there)


def by_node(found: Fit) -> Counter[str]:
    return Counter(found.placements.values())


@given(SIZES, COUNTS, CPU)
def test_equal_pods_are_packed_on_the_fewest_nodes(sizes: list[int], count: int, cpu: int) -> None:
    room = sorted((each // cpu for each in sizes), reverse=True)
    fewest = next((n for n in range(len(room) + 1) if sum(room[:n]) >= count), None)
    found = placed(sizes, count, cpu, "pack")
    assert found.complete == (fewest is not None)
    if fewest is not None:
        assert len(by_node(found)) == fewest


@given(SIZES, COUNTS, CPU, SIBLINGS)
def test_packed_pods_fill_the_nodes_of_their_siblings_first(
    sizes: list[int], count: int, cpu: int, siblings: list[int]
) -> None:
    found = placed(sizes, count, cpu, "pack", siblings)
    home = {f"n{number}" for number, some in enumerate(siblings[: len(sizes)]) if some}
    room = {f"n{number}": each // cpu for number, each in enumerate(sizes)}
    assert found.complete == (sum(room.values()) >= count)
    if found.complete:
        at_home = sum(n for name, n in by_node(found).items() if name in home)
        assert at_home == min(count, sum(room[name] for name in home))


@given(SIZES, COUNTS, CPU, SIBLINGS)
def test_the_most_of_spread_pods_on_one_node_are_as_few_as_can_be(
    sizes: list[int], count: int, cpu: int, siblings: list[int]
) -> None:
    room = [each // cpu for each in sizes]
    old = [*siblings[: len(room)], *[0] * (len(room) - len(siblings))]

    def takes(level: int) -> int:
        return sum(min(n, max(0, level - s)) for n, s in zip(room, old, strict=True))

    found = placed(sizes, count, cpu, "spread", siblings)
    assert found.complete == (sum(room) >= count)
    if found.complete:
        least = next(level for level in range(30) if takes(level) >= count)
        new = by_node(found)
        assert max(n + old[int(name[1:])] for name, n in new.items()) == least


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 16))
def test_spread_pods_are_even_over_zones_where_all_have_room(
    zones: int, nodes: int, count: int
) -> None:
    cpu = -(-count // (zones * nodes))
    group = pod_group(min_member=count, placement="spread")
    found = fitted(pods(count, 1), made([cpu] * (zones * nodes), zones), group)
    chosen = Counter(int(name[1:]) % zones for name in found.placements.values())
    there = [chosen[number] for number in range(zones)]
    assert sum(there) == count
    assert max(there) - min(there) <= 1


SMALL = st.lists(st.integers(0, 3), min_size=1, max_size=5)


@given(SMALL, st.integers(1, 6), st.lists(st.integers(0, 2), max_size=5))
@example([0, 1, 1], 1, [1])
def test_spread_pods_are_as_even_over_zones_as_any_choice_with_as_few_on_a_node(
    sizes: list[int], count: int, siblings: list[int]
) -> None:
    """Against all choices: the fullest zone has as few pods as it can, then the next one."""
    old = [*siblings[: len(sizes)], *[0] * (len(sizes) - len(siblings))]

    def zones(pods: Sequence[int]) -> list[int]:
        there = [each + more for each, more in zip(old, pods, strict=True)]
        return sorted((sum(there[zone::2]) for zone in range(2)), reverse=True)

    def highest(pods: Sequence[int]) -> int:
        return max(n + more for n, more in zip(old, pods, strict=True) if more)

    ways = [each for each in product(*(range(n + 1) for n in sizes)) if sum(each) == count]
    group = pod_group(min_member=count + sum(old), placement="spread")
    found = fitted(pods(count, 1), made(sizes, 2), group, running(old))
    assert found.complete == bool(ways)
    if ways:
        by_name = by_node(found)
        mine = [by_name[f"n{number}"] for number in range(len(sizes))]
        least = min(map(highest, ways))
        assert highest(mine) == least
        assert zones(mine) == min(zones(each) for each in ways if highest(each) == least)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=7), st.integers(1, 14))
def test_of_as_few_nodes_packed_pods_use_the_smallest(sizes: list[int], count: int) -> None:
    enough = (
        sorted(some)
        for number in range(1, len(sizes) + 1)
        for some in combinations(sizes, number)
        if sum(some) >= count
    )
    best = min(enough, key=lambda some: (len(some), some), default=None)
    found = placed(sizes, count, 1, "pack")
    assert found.complete == (best is not None)
    if best is not None:
        assert sorted(sizes[int(name[1:])] for name in by_node(found)) == best


@given(
    SIZES,
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.sampled_from(["pack", "spread"]),
    st.sampled_from([{}, {"required_topology": ZONE_LABEL}, {"preferred_topology": ZONE_LABEL}]),
)
def test_unlike_pods_that_fit_without_a_placement_fit_with_one(
    sizes: list[int], cpus: list[int], placement: str, near: dict[str, str]
) -> None:
    members = [pod(f"m{number}", cpu, group="gang") for number, cpu in enumerate(cpus)]

    def found(**asked: Any) -> bool:
        group = pod_group(min_member=len(members), **asked, **near)
        return fitted(members, made(sizes), group).complete

    assert found(placement=placement) >= found()


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=12),
    st.data(),
    COUNTS,
    st.sampled_from(["pack", "spread"]),
)
def test_the_pod_that_is_tried_gets_a_node_that_was_sent(
    sizes: list[int], data: st.DataObject, count: int, placement: str
) -> None:
    names = [f"n{number}" for number in range(len(sizes))]
    sent = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    members = pods(count, 1)
    group = pod_group(min_member=count, placement=placement)
    found = fitted(members, made(sizes), group, offer=Offer(sent))
    assert found.complete == (sum(sizes) >= count)
    if found.complete:
        assert found.placements[members[0].uid] in sent


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 8)), min_size=2, max_size=9
    ),
    st.sampled_from([None, 4]),
)
def test_points_never_trade_what_comes_first_for_what_comes_later(
    there: list[tuple[int, int, int]], index: int | None
) -> None:
    """Of each node: its siblings, its zone, and the CPU of others on it."""
    facts: list[Any] = []
    for number, (siblings, zone, busy) in enumerate(there):
        facts.append(node(f"n{number}", 20, labels={ZONE_LABEL: f"z{zone}"}))
        facts.append(pod(f"busy-{number}", busy, on=f"n{number}"))
        home: Any = {"group": "gang", "on": f"n{number}", "index": number, "controller": "j"}
        facts += [pod(f"old-{number}-{n}", 1, **home) for n in range(siblings)]
    extra = pod("extra", 1, group="gang", index=index, controller="j")
    names = [f"n{number}" for number in range(len(there))]

    def points(placement: str) -> Any:
        group = pod_group(min_member=1, placement=placement)
        return score(extra, names, view=cluster_of(facts, group, extra).view())

    packed, spread = points("pack"), points("spread")
    zones = {zone for siblings, zone, _ in there if siblings}
    for one, (mine, zone, _) in enumerate(there):
        for other, (theirs, another, _) in enumerate(there):
            near = (mine > 0) + (zone in zones), (theirs > 0) + (another in zones)
            if near[0] > near[1]:
                assert packed[f"n{one}"] > packed[f"n{other}"]
            if mine == min(each for each, _, _ in there) < theirs:
                assert spread[f"n{one}"] > spread[f"n{other}"]
