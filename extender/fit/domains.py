"""Domains: nodes by the value of one label, and how few of them take pods.

Counts decide. For equal pods they are exact, because what one node takes does not depend on the
others. For unlike pods they are bounds, and a packer has the last word.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, Protocol, TypeVar

from extender.fit.conflicts import PodShape
from extender.fit.room_left import slots
from extender.state.cluster.records import NodeInfo
from extender.steps import PIECE, Steps

Amounts = Callable[[NodeInfo], Mapping[str, int]]
Allowing = Callable[[PodShape], Callable[[NodeInfo], bool]]
"""Which nodes pods of a shape may use."""
Domains = Mapping[str, Sequence[NodeInfo]]
"""Nodes by the value of the label."""
MOST_TRIES: Final = 8
"""How many domains are added one by one where unlike pods find too little room in the fewest; and
how many are looked at for what they lack where none takes all."""
LOOKS: Final = 400_000
"""Nodes that the kinds of pods are tried on in such tries together: a plan has its time."""


class Placing(Protocol):
    """Where pods went."""

    @property
    def complete(self) -> bool:
        """Whether all that were wanted found room."""

    @property
    def count(self) -> int:
        """How many did."""


P = TypeVar("P", bound=Placing)
K = TypeVar("K", str, tuple[str, ...])
Fill = Callable[[Sequence[NodeInfo] | None], Steps[P]]
"""Places the pods on these nodes alone, or on all."""


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
            counts = (_slots(pod, amounts(node)) for node in nodes if allows(node))
            found[value] += sum(counts) if len(wanted) == 1 else _up_to(most, counts)
    if len(wanted) == 1:
        return found
    yield
    together = yield from _taking(domains, wanted, amounts)
    return {value: min(count, together[value]) for value, count in found.items()}


def _taking(
    domains: Domains, wanted: Sequence[tuple[PodShape, int]], amounts: Amounts
) -> Steps[dict[str, int]]:
    """Return how many pods each domain takes at most, by what all of its nodes have together.

    Any number of pods ask for no less of a resource than as many of those that ask for the least.
    """
    names = {name for pod, _ in wanted for name, amount in pod.shape.requests.items() if amount}
    sums: dict[str, list[int]] = {}
    for name in sorted(names):
        yield
        asked = sorted((pod.shape.requests.get(name, 0), count) for pod, count in wanted)
        sums[name] = [*accumulate(amount for amount, count in asked for _ in range(count))]
    found, looked = dict[str, int](), 0
    for value, nodes in domains.items():
        looked += len(nodes)
        if looked > PIECE:
            looked = 0
            yield
        there = [amounts(node) for node in nodes]
        found[value] = min(
            (
                bisect_right(least, sum(max(0, left.get(name, 0)) for left in there))
                for name, least in sums.items()
            ),
            default=sum(count for _, count in wanted),
        )
    return found


def _up_to(most: int, counts: Iterable[int]) -> int:
    """Return the sum of counts, which are read until it is so much: of many kinds that is soon."""
    total = 0
    for count in counts:
        total += count
        if total >= most:
            return most
    return total


def _slots(pod: PodShape, left: Mapping[str, int]) -> int:
    there = slots(pod.shape, left)
    return min(there, 1) if pod.shape.one_per_node else there


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


def in_one(
    domains: Domains,
    wanted: int,
    *,
    at_most: Mapping[str, int],
    equal: bool,
    first: Callable[[str], bool],
    fill: Fill[P],
) -> Steps[P]:
    """Return where the pods go in one domain, or the most of them that one domain takes.

    Of the domains that take all, the smallest is chosen, of those where `first` holds. The most is
    exact for `equal` pods; for others some of the largest domains are looked at.
    """
    best: P | None = None
    in_vain = 0
    for value in _in_order(at_most, wanted, first):
        if best is not None and best.count >= min(at_most[value], wanted):
            continue
        if at_most[value] < wanted and not equal:
            in_vain += 1
            if in_vain > MOST_TRIES:
                break
        found = yield from fill(domains[value])
        if found.complete:
            return found
        best = found if best is None or found.count > best.count else best
        yield
    return best if best is not None else (yield from fill(()))


def in_few(
    domains: Domains,
    wanted: int,
    *,
    kinds: int,
    pinned: Sequence[str],
    capacity: Mapping[str, int],
    fill: Fill[P],
) -> Steps[P]:
    """Return where the pods go in as few domains as possible; else on any nodes.

    Domains that are `pinned` hold pods of the group already, and come first. With very many kinds
    of pods there are fewer tries: several domains more at once.
    """
    there = [value for value in pinned if value in domains]
    rest = max(0, wanted - sum(capacity[value] for value in there))
    others = {value: n for value, n in capacity.items() if value not in there and n}
    chosen = [*there, *(fewest(others, rest) if rest else ())]
    later = sorted(others.keys() - set(chosen), key=lambda value: (-others[value], value))
    enough = sum(capacity[value] for value in chosen) >= wanted
    looks = kinds * sum(len(domains[value]) for value in chosen)
    tries = max(1, min(MOST_TRIES, LOOKS // max(1, looks)))
    for more in range(0, min(MOST_TRIES, len(later) + 1) if enough else 0, -(-MOST_TRIES // tries)):
        values = [*chosen, *later[:more]]
        found = yield from fill([node for value in values for node in domains[value]])
        if found.complete:
            return found
        yield
    return (yield from fill(None))


def _in_order(
    at_most: Mapping[str, int], wanted: int, first: Callable[[str], bool]
) -> Iterator[str]:
    """Yield the domains that may take all, the smallest first, and then the largest others."""
    fits = [value for value, n in at_most.items() if n >= wanted]
    yield from sorted(fits, key=lambda value: (not first(value), at_most[value], value))
    others = [value for value, n in at_most.items() if 0 < n < wanted]
    yield from sorted(others, key=lambda value: (-at_most[value], value))
