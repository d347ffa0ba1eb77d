"""Metrics of the event loop, in either process."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from extender.telemetry import definitions


def lags(registry: CollectorRegistry, longest: Callable[[], float]) -> Callable[[float], None]:
    """Return the observer of a lag; `longest` returns the last minute's longest, in seconds."""
    definitions.LOOP_LONGEST_LAG.on(registry).set_function(longest)
    return definitions.LOOP_LAG.on(registry).observe
