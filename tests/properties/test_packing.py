"""A packing has room for exactly what a count of the nodes says, whatever was tried before."""

from collections import Counter
from collections.abc import Collection, Iterable

from hypothesis import given
from hypothesis import strategies as st

from extender.room.occupied import Like, Occupied
from extender.room.packing import Packing, Placed
from extender.room.places import Places
from extender.state.nodes import NodeInfo
from extender.state.pods import Shape
from tests.makers import cluster_of, node, requests, shape

PORT = frozenset({("TCP", 80, "")})
SHY = shape(1, one_per_node=True)
KINDS = [
    Like(shape(1)),
    Like(shape(2)),
    Like(shape(3, selector={"half": "0"})),
    Like(SHY, ("ns", SHY)),
    Like(Shape(requests(2), one_per_node=True, host_ports=PORT)),
    Like(Shape(requests(1), {"half": "1"}, one_per_node=True, host_ports=PORT)),
]
WANTED = st.tuples(st.sampled_from(KINDS), st.integers(1, 6))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("keep", "try", "instead")),
        st.lists(WANTED, min_size=1, max_size=3, unique_by=lambda each: each[0]),
    ),
    max_size=12,
)


def keys(like: Like) -> set[object]:
    """Return what two pods on one node may not both have."""
    return {*like.shape.host_ports, *([like.alone] if like.alone else [])}


def is_for(like: Like, node: NodeInfo) -> bool:
    return like.shape.node_selector.items() <= node.labels.items()


def cpu_of(placed: Iterable[Placed]) -> int:
    return sum(each.like.shape.requests["cpu"] * each.count for each in placed)


def slots(node: NodeInfo, like: Like, there: Collection[Placed]) -> int:
    """Return for how many pods there is room on a node beside others."""
    here = [each for each in there if each.node is node]
    free = (node.allocatable["cpu"] - cpu_of(here)) // like.shape.requests["cpu"]
    if not is_for(like, node) or any(keys(each.like) & keys(like) for each in here):
        return 0
    return min(1, free) if like.shape.one_per_node else free


def check(node: NodeInfo, there: Iterable[Placed]) -> None:
    """Fail where something is on a node that has no room for it."""
    here = [each for each in there if each.node is node]
    assert cpu_of(here) <= node.allocatable["cpu"]
    assert all(is_for(each.like, node) for each in here)
    closed = Counter(key for each in here for key in keys(each.like) for _ in range(each.count))
    assert all(count == 1 for count in closed.values())


@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5), steps=STEPS)
def test_it_finds_what_there_is(
    sizes: list[int], steps: list[tuple[str, list[tuple[Like, int]]]]
) -> None:
    nodes = [node(f"n{n}", cpu, labels={"half": str(n % 2)}) for n, cpu in enumerate(sizes)]
    places = Places(cluster_of(nodes).snapshot())
    packing = Packing(places, lambda node: dict(node.allocatable), Occupied())
    placed: list[Placed] = []
    for what, wanted in steps:
        leave, stay = (placed[::2], placed[1::2]) if what == "instead" else ([], placed)
        with packing.without(leave):
            found = packing.fill(wanted)
            for each in nodes:
                check(each, [*stay, *found.placed])
            missing = sum(count for _, count in found.missing)
            assert found.count + missing == sum(count for _, count in wanted)
            if len(wanted) == 1:
                [(like, count)] = wanted
                assert found.count == min(count, sum(slots(each, like, stay) for each in nodes))
            if what != "keep":
                packing.undo(found)
        if what == "keep":
            placed += found.placed
