"""Which Job to create so that enough of each class wait: a load that never ends."""

from collections import Counter
from collections.abc import Iterator

from tests.bench.room.load import JobClass, Load
from tests.bench.room.manifests import class_of
from tests.bench.room.measures import WorkloadSeen


class Backlog:
    """Counts the Jobs that wait: made, not admitted and not finished."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._made: Counter[str] = Counter()
        self._left: set[str] = set()  # admitted, or through

    def take(self, seen: WorkloadSeen) -> None:
        """Take in an event."""
        if seen.admitted or seen.finished or seen.gone:
            self._left.add(seen.job)
        else:
            self._left.discard(seen.job)

    def missing(self) -> Iterator[tuple[JobClass, int]]:
        """Yield class and number of each Job to be made, as if it then were; classes in turn."""
        while self.made < self._load.most_jobs and (kind := self._next()):
            number = self.made
            self._made[kind.class_name] += 1
            yield kind, number

    @property
    def made(self) -> int:
        """How many were made in all."""
        return self._made.total()

    def _next(self) -> JobClass | None:
        """Return the class whose turn it is among those that are missing."""
        if self._load.waiting is not None and self._waiting() >= self._load.waiting:
            return None
        found = [each for each in self._load.classes if self._lacks(each)]
        return min(found, key=self._turns, default=None)

    def _lacks(self, kind: JobClass) -> bool:
        return kind.waiting is None or self._waiting(kind.class_name) < kind.waiting

    def _turns(self, kind: JobClass) -> int:
        return self._made[kind.class_name] // kind.in_turn

    def _waiting(self, name: str | None = None) -> int:
        made = self.made if name is None else self._made[name]
        return made - sum(name in {None, class_of(job)} for job in self._left)
