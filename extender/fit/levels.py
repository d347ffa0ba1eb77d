"""Levels: how many pods go to which of the smallest domains in a tree of domains.

A domain is the values of the labels of its nodes from the highest level down, so that those of
one more value are inside of it. What each of the smallest domains takes is known; what a larger one
takes is the sum. For equal pods these numbers are exact.

Pods go in units: slices, each of which stays in one domain of its level, or single pods.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from extender.fit.domains import fewest
from extender.state.topology import Domain


@dataclass(frozen=True, slots=True)
class LevelRequest:
    """Where pods are to be; levels are numbers, 0 is that of the largest domains."""

    level: int
    """Where one domain is looked for first."""
    required: bool = False
    """Whether no other level and no second domain will do."""
    unconstrained: bool = False
    """Whether any domains of the level will do: those with the least room, so that others stay
    whole."""
    slice_level: int | None = None
    """None for the lowest: units are single pods."""
    slice_size: int = 1


@dataclass(frozen=True, slots=True)
class Spread:
    """Numbers of pods by domain of the lowest level, in the order of the domains."""

    counts: tuple[tuple[Domain, int], ...] = ()
    fits: int = 0
    """How many units fit where most of them do."""
    wanted: int = 0
    """How many were wanted."""

    @property
    def complete(self) -> bool:
        """Whether all pods have a domain."""
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
            one = _smallest(units, wanted)
            if one is not None:
                return {one: wanted}
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


def _smallest(units: _Units, wanted: int) -> Domain | None:
    """Return the domain that takes all and the least beyond that."""
    enough = [(n, domain) for domain, n in units.items() if n >= wanted]
    return min(enough)[1] if enough else None


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
