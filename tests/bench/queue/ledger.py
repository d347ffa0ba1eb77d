"""How much quota each Workload holds, event by event, and whether one held what was not there."""

from collections.abc import Iterator

from tests.bench.queue.books import Books
from tests.bench.queue.history import Seen
from tests.bench.queue.load import Load

_MOST_NAMED = 5


class Ledger:
    """Follows a history. Quota is thousandths of a core.

    A Workload holds quota from the event in which it is reserved to that in which it is finished,
    deleted, or has let it go.
    """

    def __init__(self, load: Load) -> None:
        self.violations: list[str] = []  # the first ones, as sentences
        self.broken = 0  # events that showed one
        self._requests = {name: kind.request for name, kind in load.classes().items()}
        self._books = Books(load)

    def apply(self, seen: Seen) -> None:
        """Take in one event."""
        self._books.put(seen.name, seen.held_in, seen.held)
        faults = list(self._faults(seen))
        self.broken += bool(faults)
        self.violations += faults[: _MOST_NAMED - len(self.violations)]

    def _faults(self, seen: Seen) -> Iterator[str]:
        if not seen.held:
            return
        if seen.held_in != seen.queue:
            yield f"{seen.name} of queue {seen.queue} holds quota of {seen.held_in!r}"
            return
        if seen.held != (request := self._requests[seen.kind]):
            yield f"{seen.name} requests {request}m and holds {seen.held}m"
        yield from self._books.exceeded(seen.name)
