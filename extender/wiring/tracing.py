"""Traces of a process, as the section `telemetry.traces` says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final

from extender.config import TraceSettings
from extender.kube.errors import ConfigurationError
from extender.telemetry.admission_starts import AdmissionStarts
from extender.telemetry.gang_starts import GangStarts
from extender.telemetry.metrics import ProcessMetrics

FLUSH_SECONDS: Final = 3.0
"""The most seconds that a process waits at its end until its last traces are sent."""


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
        await asyncio.to_thread(close, provider, FLUSH_SECONDS)
