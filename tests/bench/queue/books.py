"""What is in use of each queue and cohort, and where it is more than there is."""

from collections import defaultdict
from collections.abc import Iterator

from tests.bench.queue.load import Load


class Books:
    """Amounts by name, each in one queue; quota is thousandths of a core.

    A queue may have its nominal quota in use and what it may borrow, and a cohort what its queues
    have together.
    """

    def __init__(self, load: Load) -> None:
        self._queues = {queue.name: queue for queue in load.queues()}
        self._quota: defaultdict[str, int] = defaultdict(int)
        for queue in self._queues.values():
            self._quota[queue.cohort] += queue.settings.nominal_quota
        self._used: dict[str, tuple[str, int]] = {}
        self._by_queue: defaultdict[str, int] = defaultdict(int)
        self._by_cohort: defaultdict[str, int] = defaultdict(int)

    def put(self, name: str, queue: str, amount: int) -> None:
        """Note what `name` has in use now, in place of what it had."""
        self._move(name, -1)
        if amount:
            self._used[name] = queue, amount
            self._move(name, +1)
        else:
            self._used.pop(name, None)

    def exceeded(self, name: str) -> Iterator[str]:
        """Yield, as sentences, what is in use beyond quota where `name` has something in use."""
        if name not in self._used:
            return
        queue = self._queues[self._used[name][0]]
        if queue.limit is not None and (used := self._by_queue[queue.name]) > queue.limit:
            yield f"{queue.name} holds {used}m of at most {queue.limit}m with {name}"
        if (used := self._by_cohort[queue.cohort]) > (quota := self._quota[queue.cohort]):
            yield f"{queue.cohort} holds {used}m of {quota}m with {name}"

    def _move(self, name: str, sign: int) -> None:
        queue, amount = self._used.get(name, ("", 0))
        self._by_queue[queue] += sign * amount
        if queue in self._queues:
            self._by_cohort[self._queues[queue].cohort] += sign * amount
