"""The admissions of a history: when each began, had its pods, had them on nodes, and ended."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.bench.room.history import PodSeen, Seen, WorkloadSeen
from tests.bench.room.load import Load
from tests.bench.room.manifests import class_of
from tests.bench.room.pods import Pods

PODS_READY_TIMEOUT = "PodsReadyTimeout"


@dataclass(slots=True, kw_only=True)
class Admission:
    """One admission of a Job; times are monotonic, None is never."""

    job: str
    began: float
    all_exist: float | None = None
    all_bound: float | None = None
    ended: float | None = None
    finished: bool = False
    evicted: str = ""  # the reason

    @property
    def kind(self) -> str:
        """Its class in the load."""
        return class_of(self.job)

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
