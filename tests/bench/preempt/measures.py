"""What became of the gangs of both priorities, from the pods at the end."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.bench.load import gang_of
from tests.bench.preempt.load import HIGH, LOW, Load
from tests.harness.objects import Object

_EVICTED = "DisruptionTarget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Times in seconds."""

    bound: int
    """Pods of high priority with a node."""
    whole: int
    """Gangs of high priority with all of their pods on nodes."""
    partial: int
    """Those with some."""
    evictions: int
    """Pods of low priority that are gone, are being deleted, or are about to be."""
    gangs_hit: int
    """Gangs of low priority that lost pods."""
    left_partial: int
    """Those that kept some: their pods run, and are fewer than minMember."""
    seconds: float | None
    """From the first pod of high priority created to the last one on a node, if all have one."""
    seconds_from_last: float | None
    """The same from the last one created."""


def measure(
    pods: Sequence[Object], load: Load, *, times: Mapping[str, float], began: float, created: float
) -> Measures:
    """Return what the pods at the end, and the times at which they had nodes, come to.

    `began` and `created` are when the first pod of high priority was, and the last one.
    """
    high = Counter(gang_of(_name(pod)) for pod in pods if _is(HIGH, pod) and _has_node(pod))
    low = Counter(gang_of(_name(pod)) for pod in pods if _is(LOW, pod) and not _goes(pod))
    bound = {name: at for name, at in times.items() if name.startswith(f"{HIGH}-")}
    last = max(bound.values(), default=began) if len(bound) >= load.wanted else None
    return Measures(
        bound=high.total(),
        whole=sum(high[name] >= load.size for name in load.names(HIGH)),
        partial=sum(0 < high[name] < load.size for name in load.names(HIGH)),
        evictions=load.gangs * load.size - low.total(),
        gangs_hit=sum(low[name] < load.size for name in load.names(LOW)),
        left_partial=sum(0 < low[name] < load.size for name in load.names(LOW)),
        seconds=None if last is None else last - began,
        seconds_from_last=None if last is None else last - created,
    )


def remaining(pods: Sequence[Object]) -> int:
    """Return how many pods of low priority stay."""
    return sum(_is(LOW, pod) and not _goes(pod) for pod in pods)


def _is(priority: str, pod: Object) -> bool:
    return _name(pod).startswith(f"{priority}-")


def _goes(pod: Object) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return True
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == _EVICTED and each["status"] == "True" for each in conditions)


def _has_node(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and not pod["metadata"].get("deletionTimestamp")


def _name(pod: Object) -> str:
    name: str = pod["metadata"]["name"]
    return name
