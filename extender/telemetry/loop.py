"""Metrics of the event loop, in either process."""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram

_LAGS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0),
)


class LoopMetrics:
    """Collectors on the registry of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lag = Histogram(
            "gang_extender_event_loop_lag_seconds",
            "How late the event loop was, measured twenty times a second.",
            buckets=_LAGS,
            registry=registry,
        )
        self._longest = Gauge(
            "gang_extender_event_loop_longest_lag_seconds",
            "The longest lag of the event loop in the last minute.",
            registry=registry,
        )
        self.observe: Callable[[float], None] = self._lag.observe
        """Takes a lag in seconds."""

    def set_longest(self, longest: Callable[[], float]) -> None:
        """Have the longest lag asked for whenever metrics are."""
        self._longest.set_function(longest)
