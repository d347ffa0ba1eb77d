"""The event loop of either process: what runs on it, its lag, its garbage, its long work."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from prometheus_client import CollectorRegistry

from extender.config import Health
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.runtime.loop_lag import WINDOW_SECONDS, LoopLag
from extender.runtime.pacer import Pacer
from extender.runtime.process import Garbage
from extender.telemetry.metrics import lags


class Loop:
    """The loop's pacer, garbage collection and lag, with the metrics of a process."""

    def __init__(self, clock: Clock, registry: CollectorRegistry, settings: Health) -> None:
        self.pacer = Pacer(clock)
        self.garbage = Garbage(clock)
        self.lag = LoopLag(clock, lags(registry, lambda: self.lag.longest))
        self._limit = settings.max_loop_lag_seconds

    async def beside(
        self, serve: Callable[[], Awaitable[None]], works: Sequence[Coroutine[Any, Any, None]]
    ) -> None:
        """Run `serve` and the works; cancel the works when `serve` returns."""
        asyncio.get_running_loop().set_exception_handler(report_unhandled)
        with self.garbage:
            async with asyncio.TaskGroup() as tasks:
                background = [tasks.create_task(each) for each in works]
                await serve()
                for task in background:
                    task.cancel()

    def trouble(self) -> str:
        """Return the problem of the process as a whole, or nothing."""
        behind = self.lag.behind(self._limit) if self._limit else 0.0
        if behind < self._limit or not self._limit:
            return ""
        return (
            f"the event loop was late for {behind:.0f} of the last {WINDOW_SECONDS:.0f} seconds, "
            f"{self._limit:g} are too many (health.maxLoopLagSeconds)"
        )


def report_unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Count an error of a timer, or of a task that no code awaits, among the internal errors.

    A broken connection does not count.
    """
    error = context.get("exception")
    if isinstance(error, Exception) and not isinstance(error, OSError):
        FAULTS.report("event-loop", error, key=context.get("message", ""))
    else:
        loop.default_exception_handler(context)
