"""How long gangs waited that came while the scheduler ran."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.bench.load import gang_of
from tests.bench.percentiles import percentile


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
    created_per_second: float
    """Pods, from the first one created to the last one."""


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
    span = max(created.values()) - min(created.values())
    return Waits(
        _quantiles(map(max, made), ends),
        _quantiles(map(min, made), ends),
        len(created) / span if span else 0.0,
    )


def _quantiles(begins: Iterable[float], ends: Sequence[float]) -> Quantiles:
    # The two watches may show what follows a little before what it follows from.
    values = [max(end - begin, 0.0) for begin, end in zip(begins, ends, strict=True)]
    return Quantiles(percentile(values, 0.5), percentile(values, 0.99))
