"""How much of the nodes Jobs had on average, and how much of that did no work."""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.bench import over_time
from tests.bench.room.history import PodSeen, Seen
from tests.bench.room.load import Load
from tests.bench.room.manifests import class_of
from tests.bench.room.pods import Pods


@dataclass(frozen=True, slots=True)
class Usage:
    """Means over a window, as shares of the CPU that is free for Jobs."""

    used: float
    idle: float
    """The part of it that pods had whose Job had not all of its pods on nodes."""


def usage(history: Iterable[Seen], load: Load, *, start: float, end: float) -> Usage:
    """Return the usage between two times; the history begins before."""
    jobs: dict[str, Pods] = {}
    used, idle = list[tuple[float, str, int]](), list[tuple[float, str, int]]()
    for seen in history:
        if not isinstance(seen, PodSeen):
            continue
        kind = load.kind(class_of(seen.job))
        pods = jobs.setdefault(seen.job, Pods(kind.pods))
        pods.take(seen)
        cpu = pods.on_nodes * kind.cpu
        used.append((seen.time, seen.job, cpu))
        idle.append((seen.time, seen.job, 0 if pods.all_bound else cpu))
    return Usage(*(over_time.mean(each, start=start, end=end) / load.free for each in (used, idle)))
