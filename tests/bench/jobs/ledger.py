"""How much quota is in use, event by event, and whether it was ever more than there is."""

from collections.abc import Iterator

from tests.bench.jobs.history import JobSeen, Seen, WorkloadSeen
from tests.bench.jobs.load import Load
from tests.bench.queue.books import Books

_MOST_NAMED = 5


class Ledger:
    """Two books of the same quota, each exact by itself: what Workloads hold, what Jobs use.

    The second asks nothing of the controller but that it starts Jobs and stops them.
    """

    def __init__(self, load: Load) -> None:
        self.violations: list[str] = []  # the first ones, as sentences
        self.broken = 0  # events that showed one
        queues = load.quotas()
        self._request = load.request
        self._held, self._used = Books(queues), Books(queues)

    def apply(self, seen: Seen) -> None:
        """Take in one event."""
        faults = list(
            self._of_workload(seen) if isinstance(seen, WorkloadSeen) else self._of_job(seen)
        )
        self.broken += bool(faults)
        self.violations += faults[: _MOST_NAMED - len(self.violations)]

    def _of_workload(self, seen: WorkloadSeen) -> Iterator[str]:
        self._held.put(seen.job, seen.held_in, seen.held)
        if not seen.granted:
            return
        if seen.held_in != seen.queue:
            yield f"{seen.job} of queue {seen.queue} holds quota of {seen.held_in!r}"
            return
        if seen.granted != self._request:
            yield f"{seen.job} requests {self._request}m and was granted {seen.granted}m"
        for each in self._held.exceeded(seen.job):
            yield f"Workloads: {each}"

    def _of_job(self, seen: JobSeen) -> Iterator[str]:
        self._used.put(seen.job, seen.queue, seen.used)
        for each in self._used.exceeded(seen.job):
            yield f"Jobs: {each}"
