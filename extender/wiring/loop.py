"""What looks after the event loop, in either process: its lag, its garbage, its long work."""

from prometheus_client import CollectorRegistry

from extender.config import Health
from extender.runtime.clock import Clock
from extender.runtime.garbage import Garbage
from extender.runtime.loop_lag import WINDOW_SECONDS, LoopLag
from extender.runtime.pacer import Pacer
from extender.telemetry.loop import LoopMetrics


class Loop:
    """The parts, on the metrics of a process."""

    def __init__(self, clock: Clock, registry: CollectorRegistry, settings: Health) -> None:
        metrics = LoopMetrics(registry)
        self.pacer = Pacer(clock)
        self.garbage = Garbage(clock)
        self.lag = LoopLag(clock, metrics.observe)
        self._limit = settings.max_loop_lag_seconds
        metrics.set_longest(lambda: self.lag.longest)

    def trouble(self) -> str:
        """Return what is wrong with the process as a whole, nothing where nothing is."""
        behind = self.lag.behind(self._limit) if self._limit else 0.0
        if behind < self._limit or not self._limit:
            return ""
        return (
            f"the event loop was late for {behind:.0f} of the last {WINDOW_SECONDS:.0f} seconds, "
            f"{self._limit:g} are too many (health.maxLoopLagSeconds)"
        )
