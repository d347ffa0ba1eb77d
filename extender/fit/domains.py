"""Domains: nodes by the value of one label, and trees of domains by several labels.

A domain of a tree is the values of the labels of its nodes from the highest level down, so a domain
of a lower level is inside one of the level above.

Counts decide which domains take pods. For equal pods they are exact, because what one node takes
does not depend on the others, and what a larger domain takes is the sum of its smallest ones. For
unlike pods they are bounds, and a packer has the last word.

In a tree pods go in units: slices, each of which stays in one domain of its level, or single pods.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from extender.fit.candidates import PodShape, slots
from extender.state.cluster.records import Domain, NodeInfo
from extender.steps import PIECE, Steps

Amounts = Callable[[NodeInfo], Mapping[str, int]]
Allowing = Callable[[PodShape], Callable[[NodeInfo], bool]]
"""Returns, for a shape, whether its pods may use a node."""
Domains = Mapping[str, Sequence[NodeInfo]]
"""Nodes by the value of the label."""
K = TypeVar("K", str, tuple[str, ...])


def by_label(nodes: Iterable[NodeInfo], label: str) -> dict[str, list[NodeInfo]]:
    """Return the nodes that have a label, by its value; nodes without it are in no domain."""
    found: dict[str, list[NodeInfo]] = {}
    for node in nodes:
        value = node.labels.get(label)
        if value is not None:
            found.setdefault(value, []).append(node)
    return found


def counting(
    domains: Domains,
    wanted: Sequence[tuple[PodShape, int]],
    *,
    amounts: Amounts,
    allowing: Allowing,
) -> Steps[dict[str, int]]:
    """Return how many pods each domain takes at most, by these amounts.

    Of equal pods also more than are wanted: so a domain of the right size is known from a larger
    one. Of unlike pods no more than are wanted of each shape.
    """
    found = dict.fromkeys(domains, 0)
    for pod, most in wanted:
        allows, looked = allowing(pod), 0
        for value, nodes in domains.items():
            looked += len(nodes)
            if looked > PIECE:
                looked = 0
                yield
            counts = (slots(pod.shape, amounts(node)) for node in nodes if allows(node))
            found[value] += sum(counts) if len(wanted) == 1 else _up_to(most, counts)
    return found


def _up_to(most: int, counts: Iterable[int]) -> int:
    """Return the sum of counts, which are read until it is so much: of many kinds that is soon."""
    total = 0
    for count in counts:
        total += count
        if total >= most:
            return most
    return total


def fewest(capacity: Mapping[K, int], wanted: int) -> list[K]:
    """Return as few domains as take so many pods; none where all together take too few.

    Those of the largest capacity come first. The last one is the smallest that takes the rest.
    """
    order = sorted(capacity, key=lambda value: (-capacity[value], value))
    chosen: list[K] = []
    for place, value in enumerate(order):
        if wanted <= capacity[value]:
            enough = [other for other in order[place:] if capacity[other] >= wanted]
            chosen.append(min(enough, key=lambda other: (capacity[other], other)))
            return chosen
        chosen.append(value)
        wanted -= capacity[value]
    return [] if wanted > 0 else chosen


@dataclass(frozen=True, slots=True)
class LevelRequest:
    """The domains that pods ask for. Levels are numbers; level 0 has the largest domains."""

    level: int
    """The level at which one domain is looked for first."""
    required: bool = False
    """Accept no other level and no second domain."""
    unconstrained: bool = False
    """Accept any domains of the level, those with the least room first, so that others stay
    whole."""
    slice_level: int | None = None
    """The level of the domain in which a slice stays. None: units are single pods."""
    slice_size: int = 1


@dataclass(frozen=True, slots=True)
class Spread:
    """Numbers of pods by domain of the lowest level, in the order of the domains."""

    counts: tuple[tuple[Domain, int], ...] = ()
    fits: int = 0
    """The largest number of units that fit."""
    wanted: int = 0
    """The number of units that were wanted."""

    @property
    def complete(self) -> bool:
        """Return whether all pods have a domain."""
        return self.fits >= self.wanted


def spread(capacity: Mapping[Domain, int], pods: int, asked: LevelRequest) -> Spread:
    """Return where so many pods go, by how many each of the smallest domains takes."""
    tree = _Tree(capacity, asked)
    wanted = -(-pods // asked.slice_size)
    chosen = tree.chosen(wanted)
    if isinstance(chosen, int):
        return Spread(fits=chosen, wanted=wanted)
    counts = tree.down(chosen, pods)
    return Spread(tuple(sorted(counts.items())), wanted, wanted)


_Units = Mapping[Domain, int]
_NOTHING: Final[_Units] = {}


class _Tree:
    """The domains of all levels, and how many units each of them takes."""

    def __init__(self, capacity: Mapping[Domain, int], asked: LevelRequest) -> None:
        depth = len(next(iter(capacity), ()))
        self._asked, self._lowest = asked, depth - 1
        self._slices = self._lowest if asked.slice_level is None else asked.slice_level
        self._pods: list[_Units] = [_NOTHING] * depth
        self._units: list[_Units] = [_NOTHING] * depth
        for level in reversed(range(depth)):
            below = capacity if level == self._lowest else self._pods[level + 1]
            self._pods[level] = _summed(below.items(), level)
            if level < self._slices:
                self._units[level] = _summed(self._units[level + 1].items(), level)
            else:
                size = asked.slice_size if level == self._slices else 1
                self._units[level] = {each: n // size for each, n in self._pods[level].items()}

    def chosen(self, wanted: int) -> _Units | int:
        """Return the units by domain of one level; how many fit at best where not all do."""
        level = self._asked.level
        if self._lowest < 0 or not wanted:
            return 0 if wanted else _NOTHING
        while True:
            units = self._units[level]
            enough = [(n, domain) for domain, n in units.items() if n >= wanted]
            if enough:
                return {min(enough)[1]: wanted}  # the one with the least beyond that
            if self._asked.required:
                return max(units.values(), default=0)
            if not level or self._asked.unconstrained:
                break
            level -= 1
        if sum(units.values()) < wanted:
            return sum(units.values())
        if self._asked.unconstrained:
            return _filled(
                sorted(filter(units.get, units), key=lambda d: (units[d], d)), units, wanted
            )
        return _few(units, wanted)

    def down(self, chosen: _Units, pods: int) -> dict[Domain, int]:
        """Return pods by domain of the lowest level for units that were given to higher ones.

        As far down as slices are whole, as few domains as possible are taken of all that are inside
        of the chosen ones; below, of each for itself.
        """
        level = len(next(iter(chosen), ())) - 1
        while 0 <= level < self._slices:
            level += 1
            inside = {d: n for d, n in self._units[level].items() if d[:level] in chosen}
            chosen = _few(inside, sum(chosen.values()))
        given = self._as_pods(chosen, pods)
        while 0 <= level < self._lowest:
            level += 1
            below: dict[Domain, int] = {}
            children: dict[Domain, dict[Domain, int]] = {}
            for domain, n in self._pods[level].items():
                if domain[:level] in given:
                    children.setdefault(domain[:level], {})[domain] = n
            for domain, n in given.items():
                below.update(_few(children[domain], n))
            given = below
        return given

    def _as_pods(self, chosen: _Units, pods: int) -> dict[Domain, int]:
        """Return pods for units; the last slice may be a smaller one."""
        given: dict[Domain, int] = {}
        for domain in sorted(chosen):
            given[domain] = min(pods, chosen[domain] * self._asked.slice_size)
            pods -= given[domain]
        return given


def _summed(parts: Iterable[tuple[Domain, int]], level: int) -> _Units:
    found: dict[Domain, int] = {}
    for domain, n in parts:
        found[domain[: level + 1]] = found.get(domain[: level + 1], 0) + n
    return found


def _few(units: _Units, wanted: int) -> dict[Domain, int]:
    return _filled(fewest(units, wanted), units, wanted)


def _filled(domains: Iterable[Domain], units: _Units, wanted: int) -> dict[Domain, int]:
    """Return units by domain: each takes what it can, one after the other."""
    given: dict[Domain, int] = {}
    for domain in domains:
        if not wanted:
            break
        given[domain] = min(units[domain], wanted)
        wanted -= given[domain]
    return given
