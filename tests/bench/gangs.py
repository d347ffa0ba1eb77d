"""What became of the gangs, from the times at which their pods were there and got a node."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from tests.bench.load import fits, gang_of
from tests.bench.series import percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class Gangs:
    """Gangs at the end: whole, partial, and pods that got a node although their gang cannot fit."""

    whole: int
    partial: int
    impossible_bound: int = 0


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Seconds; of the values that were measured, none in between."""

    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Waits:
    """From the creation of a gang's pods to the last of them on a node, of gangs that are whole."""

    from_last: Quantiles
    """From the last pod created."""
    from_first: Quantiles


def judge(bound: Set[str], seen: Set[str], size: int) -> Gangs:
    """Return what the pods say that are bound, and that were seen bound before.

    A gang is partial, too, when it has fewer members on nodes than it once had and needs.
    """
    ever = bound | seen
    members = Counter(map(gang_of, bound))
    return Gangs(
        whole=sum(members[gang] >= size for gang in members if fits(gang)),
        partial=sum(members[gang] < size for gang in set(map(gang_of, ever))),
        impossible_bound=sum(not fits(pod) for pod in ever),
    )


def waits(created: Mapping[str, float], bound: Mapping[str, float], size: int) -> Waits | None:
    """Return what times, by name of the pod, say of gangs of `size`; None without a whole one."""
    gangs: defaultdict[str, list[str]] = defaultdict(list)
    for pod in created.keys() & bound:
        gangs[gang_of(pod)].append(pod)
    whole = [pods for pods in gangs.values() if len(pods) == size]
    if not whole:
        return None
    ends = [max(bound[pod] for pod in pods) for pods in whole]
    made = [[created[pod] for pod in pods] for pods in whole]
    return Waits(_quantiles(map(max, made), ends), _quantiles(map(min, made), ends))


def _quantiles(begins: Iterable[float], ends: Sequence[float]) -> Quantiles:
    # The two watches may show what follows a little before what it follows from.
    values = [max(end - begin, 0.0) for begin, end in zip(begins, ends, strict=True)]
    return Quantiles(percentile(values, 0.5), percentile(values, 0.99))
