"""A packer has room for exactly what a count of the nodes says, whatever was tried before."""

from collections import Counter
from collections.abc import Collection, Iterable

from hypothesis import given
from hypothesis import strategies as st

from extender.fit.candidates import Candidates, Conflicts, Feasibility, Placed, PodShape, RoomLeft
from extender.fit.packer import Packer
from extender.state.cluster.records import NodeInfo, Shape
from extender.steps import at_once
from tests.makers import cluster_of, node, requests, shape

PORT = frozenset({("TCP", 80, "")})
SHY = shape(1, one_per_node=True)
SHAPES = [
    PodShape(shape(1)),
    PodShape(shape(2)),
    PodShape(shape(3, selector={"half": "0"})),
    PodShape(SHY, ("ns", SHY)),
    PodShape(Shape(requests(2), one_per_node=True, host_ports=PORT)),
    PodShape(Shape(requests(1), {"half": "1"}, one_per_node=True, host_ports=PORT)),
]
WANTED = st.tuples(st.sampled_from(SHAPES), st.integers(1, 6))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("keep", "try", "instead")),
        st.lists(WANTED, min_size=1, max_size=3, unique_by=lambda each: each[0]),
    ),
    max_size=12,
)


def keys(asked: PodShape) -> set[object]:
    """Return what two pods on one node may not both have."""
    return {*asked.shape.host_ports, *([asked.anti_affinity] if asked.anti_affinity else [])}


def is_for(asked: PodShape, node: NodeInfo) -> bool:
    return asked.shape.node_selector.items() <= node.labels.items()


def cpu_of(placed: Iterable[Placed]) -> int:
    return sum(each.pod.shape.requests["cpu"] * each.count for each in placed)


def slots(node: NodeInfo, asked: PodShape, there: Collection[Placed]) -> int:
    """Return for how many pods there is room on a node beside others."""
    here = [each for each in there if each.node is node]
    free = (node.allocatable["cpu"] - cpu_of(here)) // asked.shape.requests["cpu"]
    if not is_for(asked, node) or any(keys(each.pod) & keys(asked) for each in here):
        return 0
    return min(1, free) if asked.shape.one_per_node else free


def check(node: NodeInfo, there: Iterable[Placed]) -> None:
    """Fail where something is on a node that has no room for it."""
    here = [each for each in there if each.node is node]
    assert cpu_of(here) <= node.allocatable["cpu"]
    assert all(is_for(each.pod, node) for each in here)
    closed = Counter(key for each in here for key in keys(each.pod) for _ in range(each.count))
    assert all(count == 1 for count in closed.values())


@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5), steps=STEPS)
def test_it_finds_what_there_is(
    sizes: list[int], steps: list[tuple[str, list[tuple[PodShape, int]]]]
) -> None:
    nodes = [node(f"n{n}", cpu, labels={"half": str(n % 2)}) for n, cpu in enumerate(sizes)]
    feasible = Feasibility(cluster_of(nodes).view())
    left = RoomLeft(lambda node: dict(node.allocatable), Conflicts())
    packer = Packer(Candidates(feasible, feasible.cluster.left), left)
    placed: list[Placed] = []
    for what, wanted in steps:
        leave, stay = (placed[::2], placed[1::2]) if what == "instead" else ([], placed)
        with packer.without(leave):
            found = at_once(packer.fill(wanted))
            for each in nodes:
                check(each, [*stay, *found.placed])
            missing = sum(count for _, count in found.missing)
            assert found.count + missing == sum(count for _, count in wanted)
            if len(wanted) == 1:
                [(asked, count)] = wanted
                assert found.count == min(count, sum(slots(each, asked, stay) for each in nodes))
            if what != "keep":
                packer.undo(found)
        if what == "keep":
            placed += found.placed
