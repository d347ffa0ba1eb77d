"""Metrics of the event loop, in either process."""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram

_LAGS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0),
)


def lags(registry: CollectorRegistry, longest: Callable[[], float]) -> Callable[[float], None]:
    """Return the observer of a lag; `longest` returns the last minute's longest, in seconds."""
    Gauge(
        "gang_extender_event_loop_longest_lag_seconds",
        "The longest lag of the event loop in the last minute.",
        registry=registry,
    ).set_function(longest)
    return Histogram(
        "gang_extender_event_loop_lag_seconds",
        "How late the event loop was, measured twenty times a second.",
        buckets=_LAGS,
        registry=registry,
    ).observe
