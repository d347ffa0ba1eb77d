"""What a history of Workloads and pods comes to: admissions, those that waited, use of nodes."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import msgspec

from tests.bench.queue.wire import PodEvent, WorkloadEvent
from tests.bench.room.load import Load
from tests.bench.room.manifests import class_of
from tests.bench.tables import mean_over_time

PODS_READY_TIMEOUT = "PodsReadyTimeout"
WAITING_FOR_ROOM = "WaitingForRoom"
_ENDED = frozenset({"Succeeded", "Failed"})


class WorkloadSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A Workload after one event; `time` is this machine's monotonic clock."""

    time: float
    job: str
    admitted: bool = False
    waits: str = ""
    """The reason for which it has no quota."""
    evicted: str = ""
    """The reason."""
    finished: bool = False
    gone: bool = False


class PodSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of a Job after one event."""

    time: float
    job: str
    uid: str
    name: str = ""
    bound: bool = False
    running: bool = False
    ended: bool = False
    gone: bool = False
    """It is gone, or on its way."""


Seen = WorkloadSeen | PodSeen


def seen_of_workload(event: WorkloadEvent, now: float) -> WorkloadSeen:
    """Return what an event says."""
    workload = event.object
    return WorkloadSeen(
        time=now,
        job=workload.metadata.job,
        admitted=bool(workload.reason("Admitted")),
        waits=workload.reason("QuotaReserved", "False"),
        evicted=workload.reason("Evicted"),
        finished=bool(workload.reason("Finished")),
        gone=event.type == "DELETED",
    )


def seen_of_pod(event: PodEvent, now: float) -> PodSeen:
    """Return what an event says."""
    pod = event.object
    return PodSeen(
        time=now,
        job=pod.metadata.job,
        uid=pod.metadata.uid,
        name=pod.metadata.name,
        bound=bool(pod.spec.node_name),
        running=pod.status.phase == "Running",
        ended=pod.status.phase in _ENDED,
        gone=event.type == "DELETED" or pod.metadata.deletion_timestamp is not None,
    )


class Pods:
    """The pods of one Job that are there; one that has ended well keeps its place among them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._pods: dict[str, PodSeen] = {}

    def take(self, seen: PodSeen) -> None:
        """Take in an event."""
        if seen.gone:
            self._pods.pop(seen.uid, None)
        else:
            self._pods[seen.uid] = seen

    @property
    def all_exist(self) -> bool:
        """Whether all its pods are made."""
        return len(self._pods) >= self._size

    @property
    def all_bound(self) -> bool:
        """Whether all its pods have, or had, a node."""
        return self._count(lambda pod: pod.bound) >= self._size

    @property
    def all_running(self) -> bool:
        """Whether all its pods run at once."""
        return self._count(lambda pod: pod.running) >= self._size

    @property
    def on_nodes(self) -> int:
        """How many of them use a node."""
        return self._count(lambda pod: pod.bound and not pod.ended)

    @property
    def names(self) -> Collection[str]:
        """Their names."""
        return [pod.name for pod in self._pods.values()]

    def _count(self, which: Callable[[PodSeen], bool]) -> int:
        return sum(map(which, self._pods.values()))


@dataclass(slots=True, kw_only=True)
class Admission:
    """One admission of a Job; times are monotonic, None is never."""

    job: str
    began: float
    all_exist: float | None = None
    all_bound: float | None = None
    ended: float | None = None
    finished: bool = False
    evicted: str = ""
    """The reason."""

    def waited(self, seconds: float, end: float) -> bool:
        """Return whether it had all its pods and, for more than `seconds`, not all on nodes.

        One that was sent back because its pods were not ready in time counts in any case, one that
        has not waited for so long at the `end` of the history does not.
        """
        if self.evicted == PODS_READY_TIMEOUT:
            return True
        if self.all_exist is None:
            return False
        until = next((each for each in (self.all_bound, self.ended) if each is not None), end)
        return until - self.all_exist > seconds


@dataclass(slots=True)
class _Life:
    pods: Pods
    current: Admission | None = None
    admissions: list[Admission] = field(default_factory=list)

    def workload(self, seen: WorkloadSeen) -> None:
        held = seen.admitted and not (seen.evicted or seen.finished or seen.gone)
        if self.current is None and held:
            self.current = Admission(job=seen.job, began=seen.time)
            self.admissions.append(self.current)
            self.look(seen.time)
        elif self.current is not None and not held:
            self.current.ended = seen.time
            self.current.finished = seen.finished
            self.current.evicted = "" if seen.finished else seen.evicted
            self.current = None

    def look(self, now: float) -> None:
        """Note what is true of the pods now."""
        if self.current is None:
            return
        if self.current.all_exist is None and self.pods.all_exist:
            self.current.all_exist = now
        if self.current.all_bound is None and self.pods.all_bound:
            self.current.all_bound = now


def admissions(history: Iterable[Seen], load: Load) -> list[Admission]:
    """Return all admissions, in the order in which they began."""
    lives: dict[str, _Life] = {}
    for seen in history:
        life = lives.setdefault(seen.job, _Life(Pods(load.kind(class_of(seen.job)).pods)))
        if isinstance(seen, PodSeen):
            life.pods.take(seen)
            life.look(seen.time)
        else:
            life.workload(seen)
    found = (each for life in lives.values() for each in life.admissions)
    return sorted(found, key=lambda each: each.began)


@dataclass(frozen=True, slots=True)
class Usage:
    """How much of the nodes Jobs had: means over a window, as shares of the CPU that is free."""

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
    return Usage(*(mean_over_time(each, start=start, end=end) / load.free for each in (used, idle)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OfClass:
    """What became of the Jobs of one class, or of all."""

    admitted: int
    waited: int
    """Admissions that then waited for room."""
    timeouts: int
    """Those that were sent back because their pods were not ready in time."""
    finished: int
    median_seconds: float | None
    """From admission until all pods had nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Times are of the monotonic clock; the window is from `start` to `end`."""

    start: float
    end: float
    every: OfClass
    classes: Mapping[str, OfClass]
    without_room: int
    """Workloads that had the reason of quota without room."""
    usage: Usage
    useful: float
    """The share of the free CPU that finished Jobs had for their runtime."""


def measure(history: Sequence[Seen], load: Load) -> Measures | None:
    """Return the measures of the window; None when no Job was admitted."""
    found = admissions(history, load)
    if not found:
        return None
    start = found[0].began
    end = start + load.window_seconds
    within = [seen for seen in history if seen.time <= end]
    found = admissions(within, load)
    classes = {
        kind.class_name: _of(
            [each for each in found if class_of(each.job) == kind.class_name], load, end
        )
        for kind in load.classes
    }
    work = sum(
        classes[kind.class_name].finished * kind.request * kind.runtime for kind in load.classes
    )
    return Measures(
        start=start,
        end=end,
        every=_of(found, load, end),
        classes=classes,
        without_room=len({seen.job for seen in within if _lacks_room(seen)}),
        usage=usage(within, load, start=start, end=end),
        useful=work / (load.window_seconds * load.free),
    )


def _of(found: Sequence[Admission], load: Load, end: float) -> OfClass:
    seconds = [each.all_bound - each.began for each in found if each.all_bound is not None]
    return OfClass(
        admitted=len(found),
        waited=sum(each.waited(load.waited_seconds, end) for each in found),
        timeouts=sum(each.evicted == PODS_READY_TIMEOUT for each in found),
        finished=sum(each.finished for each in found),
        median_seconds=median(seconds) if seconds else None,
    )


def _lacks_room(seen: Seen) -> bool:
    return isinstance(seen, WorkloadSeen) and seen.waits == WAITING_FOR_ROOM
