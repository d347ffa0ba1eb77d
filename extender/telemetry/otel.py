"""The set-up of OpenTelemetry's SDK, which is an extra: imported only where traces are switched on.

The SDK keeps spans in a bounded queue and sends them from a thread: a collector that is slow or
down costs spans, and no scheduling.
"""

import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_BSP_MAX_EXPORT_BATCH_SIZE
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from typing_extensions import override

_log = structlog.get_logger(__name__)

PATH: Final = "/v1/traces"
BATCH: Final = 64
"""Spans that the thread encodes at a time, while the event loop may have to wait for it."""
Count = Callable[[str, int], None]
"""Takes what became of spans ("made", "sent" or "failed"), and how many."""


def tracer_provider(
    service: str, version: str, *, endpoint: str | None, ratio: float, count: Count
) -> TracerProvider:
    """Return a provider whose tracers send their spans to a collector.

    Without an endpoint the environment says where the collector is (OTEL_EXPORTER_OTLP_*). `ratio`
    is the share of traces that are made, from 0 to 1. Raises OSError or ValueError where the
    environment has values that OpenTelemetry does not take.
    """
    # The SDK logs each failed attempt; our exporter logs once that a collector is down.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    if endpoint is not None and not endpoint.endswith(PATH):
        endpoint = endpoint.rstrip("/") + PATH
    resource = Resource.create({"service.name": service, "service.version": version})
    provider = TracerProvider(
        sampler=ParentBasedTraceIdRatio(ratio),
        resource=resource.merge(OTELResourceDetector().detect()),  # the environment wins
        shutdown_on_exit=False,
    )
    provider.add_span_processor(_CountingProcessor(OTLPSpanExporter(endpoint=endpoint), count))
    return provider


def close(provider: TracerProvider, seconds: float = 3.0) -> None:
    """Send the spans that are queued. Those that are not sent after so many seconds are lost."""
    ending = threading.Thread(target=provider.shutdown, daemon=True, name="traces-end")
    ending.start()
    ending.join(seconds)


class _CountingProcessor(BatchSpanProcessor):
    """Counts the spans that are made."""

    def __init__(self, exporter: SpanExporter, count: Count) -> None:
        given = os.environ.get(OTEL_BSP_MAX_EXPORT_BATCH_SIZE)
        batch = None if given else BATCH
        super().__init__(_CountingExporter(exporter, count), max_export_batch_size=batch)
        self._count = count

    @override
    def on_end(self, span: ReadableSpan) -> None:
        self._count("made", 1)
        super().on_end(span)


class _CountingExporter(SpanExporter):
    """Counts the spans that are sent, and logs when a collector stops and resumes taking them."""

    def __init__(self, exporter: SpanExporter, count: Count) -> None:
        self._exporter = exporter
        self._count = count
        self._fails = False

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        failed = result is not SpanExportResult.SUCCESS
        self._count("failed" if failed else "sent", len(spans))
        if failed and not self._fails:
            _log.warning("spans of traces were not taken by the collector", spans=len(spans))
        elif self._fails and not failed:
            _log.info("the collector takes spans of traces again")
        self._fails = failed
        return result

    @override
    def shutdown(self) -> None:
        self._exporter.shutdown()
