"""What a history comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench.room.admissions import PODS_READY_TIMEOUT, Admission, admissions
from tests.bench.room.history import Seen, WorkloadSeen
from tests.bench.room.load import JobClass, Load
from tests.bench.room.usage import Usage, usage

WAITING_FOR_ROOM = "WaitingForRoom"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfClass:
    """What became of the Jobs of one class; seconds from admission until all pods had nodes."""

    admitted: int
    waited: int
    """Admissions that then waited for room."""
    timeouts: int
    """Those that were sent back because their pods were not ready in time."""
    finished: int
    seconds: Sequence[float]
    made_seconds: Sequence[float]
    """Until all pods were made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Times are of the monotonic clock; the window is from `start` to `end`."""

    start: float
    end: float
    classes: Mapping[str, OfClass]
    made: int
    """Workloads that there were."""
    without_room: int
    """Those of them that had the reason of quota without room."""
    usage: Usage
    useful: float
    """The share of the free CPU that finished Jobs had for their runtime."""

    @property
    def window(self) -> float:
        """Its length in seconds."""
        return self.end - self.start

    @property
    def admitted(self) -> int:
        """Admissions of all classes."""
        return sum(each.admitted for each in self.classes.values())

    @property
    def waited(self) -> int:
        """Admissions of all classes that then waited for room."""
        return sum(each.waited for each in self.classes.values())

    @property
    def timeouts(self) -> int:
        """Admissions of all classes that were sent back for it."""
        return sum(each.timeouts for each in self.classes.values())

    @property
    def finished(self) -> int:
        """Jobs of all classes that were done."""
        return sum(each.finished for each in self.classes.values())

    @property
    def seconds(self) -> Sequence[float]:
        """Seconds from each admission until all pods had nodes, where they ever had."""
        return sorted(s for each in self.classes.values() for s in each.seconds)

    @property
    def median_seconds(self) -> float | None:
        """Their median."""
        return median(self.seconds) if self.seconds else None

    @property
    def median_made_seconds(self) -> float | None:
        """The median of seconds until all pods were made."""
        found = [s for each in self.classes.values() for s in each.made_seconds]
        return median(found) if found else None


def measure(history: Sequence[Seen], load: Load) -> Measures | None:
    """Return the measures of the window; None when no Job was admitted."""
    found = admissions(history, load)
    if not found:
        return None
    start = found[0].began
    end = start + load.window_seconds
    within = [seen for seen in history if seen.time <= end]
    classes = {
        kind.class_name: _of_class(
            [each for each in admissions(within, load) if each.kind == kind.class_name], load, end
        )
        for kind in load.classes
    }
    work = sum(classes[kind.class_name].finished * _work(kind) for kind in load.classes)
    return Measures(
        start=start,
        end=end,
        classes=classes,
        made=len({seen.job for seen in within}),
        without_room=len({seen.job for seen in within if _lacks_room(seen)}),
        usage=usage(within, load, start=start, end=end),
        useful=work / (load.window_seconds * load.free),
    )


def _of_class(found: Sequence[Admission], load: Load, end: float) -> OfClass:
    return OfClass(
        admitted=len(found),
        waited=sum(each.waited(load.waited_seconds, end) for each in found),
        timeouts=sum(each.evicted == PODS_READY_TIMEOUT for each in found),
        finished=sum(each.finished for each in found),
        seconds=[each.all_bound - each.began for each in found if each.all_bound is not None],
        made_seconds=[each.all_exist - each.began for each in found if each.all_exist is not None],
    )


def _lacks_room(seen: Seen) -> bool:
    return isinstance(seen, WorkloadSeen) and seen.waits == WAITING_FOR_ROOM


def _work(kind: JobClass) -> float:
    return kind.request * kind.runtime
