"""How much of the nodes Jobs had on average, and how much of that did no work."""

from collections.abc import Iterable
from dataclasses import dataclass

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


@dataclass(slots=True)
class _Now:
    used: int = 0
    idle: int = 0


def usage(history: Iterable[Seen], load: Load, *, start: float, end: float) -> Usage:
    """Return the usage between two times; the history begins before."""
    jobs: dict[str, tuple[Pods, _Now]] = {}
    total, areas, before = _Now(), [0.0, 0.0], start
    for seen in history:
        if not isinstance(seen, PodSeen):
            continue
        time = min(max(seen.time, start), end)
        areas = _grown(areas, total, time - before)
        before = time
        kind = load.kind(class_of(seen.job))
        pods, last = jobs.setdefault(seen.job, (Pods(kind.pods), _Now()))
        pods.take(seen)
        used = pods.on_nodes * kind.cpu
        now = _Now(used, 0 if pods.all_bound else used)
        total = _Now(total.used + now.used - last.used, total.idle + now.idle - last.idle)
        jobs[seen.job] = (pods, now)
    areas = _grown(areas, total, end - before)
    whole = (end - start) * load.free
    return Usage(areas[0] / whole, areas[1] / whole)


def _grown(areas: list[float], now: _Now, seconds: float) -> list[float]:
    return [areas[0] + now.used * seconds, areas[1] + now.idle * seconds]
