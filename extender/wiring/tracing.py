"""Traces of a process, as the section `telemetry.traces` says."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

import structlog

from extender.config import TraceSettings
from extender.kube.errors import ConfigurationError
from extender.telemetry.metrics import ProcessMetrics
from extender.telemetry.spans import Trace
from extender.telemetry.traces import TracesUnavailableError, traces

_log = structlog.get_logger(__name__)

FLUSH_SECONDS: Final = 3.0
"""How long the end of a process waits, at most, until its last traces are sent."""


class Traced(Protocol):
    """What makes traces."""

    def on_trace(self, listener: Callable[[Trace], None]) -> None:
        """Call `listener` with each trace that is over."""


@asynccontextmanager
async def tracing(
    chosen: TraceSettings, service: str, metrics: ProcessMetrics, *traced: Traced
) -> AsyncIterator[None]:
    """Send the traces of parts where that is asked for, and the last ones at the end.

    Raises ConfigurationError where traces are asked for and cannot be made.
    """
    if not chosen.enabled:
        yield
        return
    try:
        sender = traces(
            service,
            endpoint=chosen.endpoint,
            ratio=chosen.sample_ratio,
            count=lambda result, spans: metrics.spans.labels(result).inc(spans),
        )
    except TracesUnavailableError as error:
        raise ConfigurationError(f"telemetry.traces.enabled: {error}") from error
    for each in traced:
        each.on_trace(sender.add)
    try:
        yield
    finally:
        await asyncio.to_thread(sender.close, FLUSH_SECONDS)
