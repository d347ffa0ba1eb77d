"""What became of the gangs, from the times at which their members got a node."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass
from statistics import median

from tests.bench.load import fits, gang_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Gangs:
    """Whole, partial (some members have a node) at the end, and on the way there."""

    whole: int
    partial: int
    partial_peak: int  # most gangs that were partial at one moment
    spread_seconds: float | None  # median time between first and last member of a whole gang
    impossible_bound: int = 0  # pods that got a node although their gang cannot fit


def judge(times: Mapping[str, float], size: int) -> Gangs:
    """Return what `times` (by name of the pod) say of gangs of `size` members."""
    members: defaultdict[str, list[float]] = defaultdict(list)
    for pod, time in times.items():
        members[gang_of(pod)].append(time)
    spreads = [max(each) - min(each) for each in members.values() if len(each) == size]
    return Gangs(
        whole=len(spreads),
        partial=len(members) - len(spreads),
        partial_peak=_partial_peak(times, size),
        spread_seconds=median(spreads) if spreads else None,
    )


def at_the_end(gangs: Gangs, *, bound: Set[str], seen: Set[str], size: int) -> Gangs:
    """Return `gangs` with what the pods say that are bound, and that were seen bound before.

    A gang is partial, too, when it has fewer members on nodes than it once had and needs.
    """
    ever = bound | seen
    members = Counter(map(gang_of, bound))
    return dataclasses.replace(
        gangs,
        whole=sum(members[gang] >= size for gang in members if fits(gang)),
        partial=sum(members[gang] < size for gang in set(map(gang_of, ever))),
        impossible_bound=sum(not fits(pod) for pod in ever),
    )


def _partial_peak(times: Mapping[str, float], size: int) -> int:
    bound: defaultdict[str, int] = defaultdict(int)
    partial: set[str] = set()
    peak = 0
    for pod in sorted(times, key=times.__getitem__):
        gang = gang_of(pod)
        bound[gang] += 1
        if bound[gang] < size:
            partial.add(gang)
        else:
            partial.discard(gang)
        peak = max(peak, len(partial))
    return peak
