"""Who is to be created so that enough of each class wait: a load that never ends."""

from collections import Counter
from collections.abc import Iterator

from tests.bench.room.history import WorkloadSeen
from tests.bench.room.load import JobClass, Load
from tests.bench.room.manifests import class_of


class Backlog:
    """Counts who waits: who was made, is not admitted and has not finished."""

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
        while found := [kind for kind in self._load.classes if self._lacks(kind)]:
            for kind in found:
                number = self._made.total()
                if number >= self._load.most_jobs:
                    return
                self._made[kind.class_name] += 1
                yield kind, number

    @property
    def made(self) -> int:
        """How many were made in all."""
        return self._made.total()

    def _lacks(self, kind: JobClass) -> bool:
        name = kind.class_name
        left = sum(class_of(job) == name for job in self._left)
        return self._made[name] - left < kind.waiting
