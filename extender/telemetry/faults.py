"""Metrics of errors that concern single objects."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from extender.runtime.faults import FAULTS, Faults
from extender.telemetry import definitions


class FaultCollector(Collector):
    """Internal errors by the place where they were caught."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    @override
    def collect(self) -> Iterable[Metric]:
        """Yield the counter."""
        found = definitions.INTERNAL_ERRORS.counts()
        for where, count in sorted(self._faults.counts.items()):
            found.add_metric([where], count)
        yield found


class AsideCollector(Collector):
    """Objects that are set aside, by kind."""

    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        self._counts = counts

    @override
    def collect(self) -> Iterable[Metric]:
        """Yield the gauge."""
        found = definitions.SET_ASIDE.values()
        for kind, count in sorted(self._counts().items()):
            found.add_metric([kind], count)
        yield found


class GuardedCollector(Collector):
    """Wraps a collector: one that fails loses its own metrics only."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    @override
    def collect(self) -> Iterable[Metric]:
        """Return the metrics of the wrapped collector, or none."""
        try:
            return list(self._collector.collect())
        except Exception as error:  # noqa: BLE001 - another metric counts it
            FAULTS.report("metrics", error, key=type(self._collector).__name__)
            return []
