"""The parts that both processes have: the event loop, the watches, and traces."""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from extender.config import Health, TraceSettings
from extender.kube.credentials import Keyring
from extender.kube.errors import ConfigurationError
from extender.kube.reflector import Reflector
from extender.runtime.clock import WINDOW_SECONDS, Clock, LoopLag, Pacer
from extender.runtime.faults import FAULTS
from extender.runtime.process import Garbage
from extender.telemetry.metrics import ProcessMetrics, access, lags
from extender.telemetry.starts import AdmissionStarts, GangStarts


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


class Watches:
    """All watches of a process; one is stale if nothing came for `stale_seconds`."""

    def __init__(self, reflectors: Iterable[Reflector[Any]], *, stale_seconds: float) -> None:
        self.reflectors = list(reflectors)
        self.needed = [each for each in self.reflectors if each.needed]
        """The watches that all decisions need; each of the others concerns only some pods."""
        self._limit = stale_seconds

    async def wait(self) -> None:
        """Return when every needed watch has been listed once."""
        for reflector in self.needed:
            await reflector.first_list.wait()

    @property
    def synced(self) -> bool:
        """True if every needed watch has been filled once."""
        return all(reflector.synced for reflector in self.needed)

    def checks(self) -> dict[str, str | None]:
        """Return the problem of each needed watch, or None, by kind."""
        return {each.kind: self._problem(each) for each in self.needed}

    def remarks(self) -> dict[str, str | None]:
        """Return the problem of each other watch, or None, by kind."""
        others = (each for each in self.reflectors if not each.needed)
        return {each.kind: self._problem(each) or each.forbidden or None for each in others}

    def states(self) -> dict[str, dict[str, object]]:
        """Return the age of each watch, in seconds, and its problem, by kind."""
        problems = {**self.checks(), **self.remarks()}
        return {
            each.kind: {"age": each.freshness.age, "problem": problems[each.kind]}
            for each in self.reflectors
        }

    def stale(self) -> str | None:
        """Return the first kind whose needed watch is stale."""
        stale = (each for each in self.needed if each.freshness.age > self._limit)
        return next((each.kind for each in stale), None)

    def unsure_of(self, kind: str) -> str | None:
        """Return a kind whose watch was never filled, or is stale; None for any other."""
        those = (each for each in self.reflectors if each.kind == kind)
        unsure = any(not each.synced or each.freshness.age > self._limit for each in those)
        return kind if unsure else None

    def metrics(self, keyring: Keyring) -> Iterator[Metric]:
        """Yield the metrics about watches and credentials."""
        ages = {each.kind: each.freshness.age for each in self.reflectors}
        return access(ages, keyring.current.ends, keyring.counts, refusals=keyring.refusals)

    def _problem(self, reflector: Reflector[Any]) -> str | None:
        freshness = reflector.freshness
        if reflector.synced:
            return freshness.stale(self._limit)
        trouble = f": {freshness.trouble}" if freshness.trouble else ""
        return f"not listed yet{trouble}"


@asynccontextmanager
async def tracing(
    chosen: TraceSettings,
    service: str,
    metrics: ProcessMetrics,
    *traced: GangStarts | AdmissionStarts,
) -> AsyncIterator[None]:
    """Send the traces of parts where that is asked for, and the last ones at the end.

    Raises ConfigurationError where traces are asked for and cannot be made.
    """
    if not chosen.enabled:
        yield
        return
    try:
        from extender.telemetry.otel import close, tracer_provider
    except ImportError as error:
        raise ConfigurationError(
            "telemetry.traces.enabled: the packages of OpenTelemetry are missing "
            f"({error.name or error}): pip install 'gang-extender[otel]'"
        ) from error
    try:
        provider = tracer_provider(
            service,
            version("gang-extender"),
            endpoint=chosen.endpoint,
            ratio=chosen.sample_ratio,
            count=lambda result, spans: metrics.spans.labels(result).inc(spans),
        )
    except (OSError, ValueError) as error:  # what the environment says
        raise ConfigurationError(
            f"telemetry.traces.enabled: OpenTelemetry cannot be set up: {error}"
        ) from error
    for each in traced:
        each.tracer = provider.get_tracer("gang-extender")
    try:
        yield
    finally:
        await asyncio.to_thread(close, provider)
