"""How much quota each Workload holds, event by event, and whether one held what was not there."""

from collections import defaultdict
from collections.abc import Iterator

from tests.bench.queue.history import Seen
from tests.bench.queue.load import Load

_MOST_NAMED = 5


class Ledger:
    """Follows a history. Quota is thousandths of a core.

    A Workload holds quota from the event in which it is reserved to that in which it is finished,
    deleted, or has let it go. A queue may hold its nominal quota and what it may borrow, and a
    cohort what its queues have together.
    """

    def __init__(self, load: Load) -> None:
        self.violations: list[str] = []  # the first ones, as sentences
        self.broken = 0  # events that showed one
        self._queues = {queue.name: queue for queue in load.queues()}
        self._requests = {name: kind.request for name, kind in load.classes().items()}
        self._quota: defaultdict[str, int] = defaultdict(int)
        for queue in self._queues.values():
            self._quota[queue.cohort] += queue.settings.nominal_quota
        self._held: dict[str, tuple[str, int]] = {}
        self._by_queue: defaultdict[str, int] = defaultdict(int)
        self._by_cohort: defaultdict[str, int] = defaultdict(int)

    def apply(self, seen: Seen) -> None:
        """Take in one event."""
        self._move(seen.name, -1)
        if seen.held:
            self._held[seen.name] = seen.held_in, seen.held
            self._move(seen.name, +1)
        else:
            self._held.pop(seen.name, None)
        faults = list(self._faults(seen))
        self.broken += bool(faults)
        self.violations += faults[: _MOST_NAMED - len(self.violations)]

    def _move(self, name: str, sign: int) -> None:
        queue, held = self._held.get(name, ("", 0))
        self._by_queue[queue] += sign * held
        if queue in self._queues:
            self._by_cohort[self._queues[queue].cohort] += sign * held

    def _faults(self, seen: Seen) -> Iterator[str]:
        if not seen.held:
            return
        if seen.held_in != seen.queue:
            yield f"{seen.name} of queue {seen.queue} holds quota of {seen.held_in!r}"
            return
        if seen.held != (request := self._requests[seen.kind]):
            yield f"{seen.name} requests {request}m and holds {seen.held}m"
        queue = self._queues[seen.held_in]
        if queue.limit is not None and (used := self._by_queue[queue.name]) > queue.limit:
            yield f"{queue.name} holds {used}m of at most {queue.limit}m with {seen.name}"
        if (used := self._by_cohort[queue.cohort]) > (quota := self._quota[queue.cohort]):
            yield f"{queue.cohort} holds {used}m of {quota}m with {seen.name}"
