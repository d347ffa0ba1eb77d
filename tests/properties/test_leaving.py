"""Which pods go so that others fit, against a search of everything: few nodes, few units."""

from collections.abc import Sequence
from itertools import combinations

from hypothesis import event, given, settings
from hypothesis import strategies as st

from extender.fit.candidates import Placed, PodShape
from extender.fit.packer import Unit, Wanted, fewest_to_leave
from extender.state.cluster.records import HostPort, PodInfo, Shape
from extender.steps import at_once
from tests.effort import examples
from tests.makers import cluster_of, node, pod, requests, shape
from tests.properties.test_packer import each_of, goes, most, packer_of
from tests.properties.test_room_in_pieces import pieces_of

PORT: frozenset[HostPort] = frozenset({("TCP", 80, "")})
SHAPES: Sequence[Shape] = (
    *(shape(cpu) for cpu in (1, 2, 3)),
    *(shape(1, gpu=gpu) for gpu in (1, 2)),
    shape(1, one_per_node=True),
    Shape(requests(1), one_per_node=True, host_ports=PORT),
)
NODES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=4)
"""CPU and GPUs."""
UNITS = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(SHAPES)), min_size=1, max_size=3),
    max_size=8,
)
"""The pods of each unit, with the number of their node."""
Sizes = Sequence[tuple[int, int]]
Units = Sequence[Sequence[tuple[int, Shape]]]
There = tuple[tuple[PodShape, ...], ...]
"""The pods on each node."""


class World:
    """Nodes on which units of pods are, as far as each pod has room beside those before it."""

    def __init__(self, sizes: Sizes, asked: Units) -> None:
        self.nodes = [node(f"n{n}", cpu, gpu=gpu) for n, (cpu, gpu) in enumerate(sizes)]
        self.units: list[list[tuple[int, PodShape]]] = []
        pods: list[PodInfo] = []
        for number, each in enumerate(asked):
            unit: list[tuple[int, PodShape]] = []
            self.units.append(unit)
            for at, like in each:
                on = at % len(self.nodes)
                one = PodShape(like, ("gang", like) if like.one_per_node else None)
                if goes(one, self.nodes[on], self.there(())[on]):
                    unit.append((on, one))
                    pods.append(pod(f"p{len(pods)}", like, on=f"n{on}", group=f"g{number}"))
        self.view = cluster_of(self.nodes, pods).view()

    def there(self, gone: Sequence[int]) -> There:
        """Return the pods on each node without some of the units."""
        stays = [each for n, unit in enumerate(self.units) if n not in gone for each in unit]
        return tuple(tuple(like for on, like in stays if on == n) for n in range(len(self.nodes)))

    def fit(self, wanted: Sequence[Wanted], gone: Sequence[int]) -> bool:
        """Return whether all pods have a node at once, by trying everything."""
        pods = each_of(wanted)
        return most(pods, self.nodes, self.there(gone)) == len(pods)

    def answer(self, wanted: Sequence[Wanted], piece: int = 1000) -> list[int] | None:
        placed = [self.placed(unit) for unit in self.units]
        gone: dict[str, list[Placed]] = {}
        for each in (one for unit in placed for one in unit):
            gone.setdefault(each.node.name, []).append(each)
        before = packer_of(self.view)
        apart = before.apart_from(gone)
        with pieces_of(piece):
            found = at_once(fewest_to_leave(apart, wanted, placed))
        for there in self.nodes:  # what it was asked of has not changed
            assert before._left.on(there) == self.view.left.all()[there.name]
        return found

    def placed(self, unit: Sequence[tuple[int, PodShape]]) -> Unit:
        return [Placed(self.nodes[on], like, 1) for on, like in unit]


def enough(world: World, wanted: Sequence[Wanted]) -> list[tuple[int, ...]]:
    """Return all sets of units without which the pods fit."""
    every = range(len(world.units))
    sets = (found for count in range(len(every) + 1) for found in combinations(every, count))
    return [found for found in sets if world.fit(wanted, found)]


def staying(world: World, gone: Sequence[int]) -> list[bool]:
    return [number not in gone for number in range(len(world.units))]


@settings(max_examples=examples(200))
@given(sizes=NODES, units=UNITS, like=st.sampled_from(SHAPES), count=st.integers(1, 5))
def test_of_equal_pods_exactly_those_go_that_must(
    sizes: Sizes, units: Units, like: Shape, count: int
) -> None:
    world = World(sizes, units)
    wanted = [(PodShape(like, ("asks", like) if like.one_per_node else None), count)]
    found, sets = world.answer(wanted), enough(world, wanted)
    event("nothing is enough" if found is None else f"{len(found)} go")
    if found is None:
        assert not sets
        return
    assert tuple(found) in sets
    assert not any(set(each) < set(found) for each in sets), "fewer would do"
    best = max(staying(world, each) for each in sets)
    assert staying(world, found) == best, "one stays that is to go before another one"


@settings(max_examples=examples(100))
@given(
    sizes=NODES,
    units=UNITS,
    wanted=st.lists(
        st.tuples(st.sampled_from(SHAPES), st.integers(1, 2)),
        min_size=2,
        max_size=3,
        unique_by=lambda each: id(each[0]),
    ),
)
def test_of_unlike_pods_those_that_go_are_enough(
    sizes: Sizes, units: Units, wanted: list[tuple[Shape, int]]
) -> None:
    world = World(sizes, units)
    asked = [(PodShape(each), count) for each, count in wanted]
    found = world.answer(asked)
    if found is not None:
        assert world.fit(asked, found)
        if world.fit(asked, ()):
            event("more than needed go: they would fit beside all" if found else "none goes")


@settings(max_examples=examples(50))
@given(sizes=NODES, units=UNITS, like=st.sampled_from(SHAPES), count=st.integers(1, 5))
def test_pauses_change_no_answer(sizes: Sizes, units: Units, like: Shape, count: int) -> None:
    world, wanted = World(sizes, units), [(PodShape(like), count)]
    assert world.answer(wanted, 1) == world.answer(wanted)
