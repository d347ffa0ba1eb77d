"""Traces by OpenTelemetry: the one place that imports it, and is imported only where it is used.

A trace is handed over when it is over, with all of its times. Spans wait in a bounded queue, and a
thread sends them: a collector that is slow or down costs spans, and no scheduling.
"""

import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_BSP_MAX_EXPORT_BATCH_SIZE
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from opentelemetry.trace import Span, Status, StatusCode, Tracer, set_span_in_context
from typing_extensions import override

from extender.telemetry.spans import Stretch, Trace

_log = structlog.get_logger(__name__)

PATH: Final = "/v1/traces"
BATCH: Final = 64
"""Spans that the thread encodes at a time: the event loop may wait for it meanwhile."""
_BILLION: Final = 1_000_000_000

Count = Callable[[str, int], None]
"""Takes what became of spans: made, sent or failed; and how many."""


class _Ids(IdGenerator):
    """Gives a trace the id that is in the log, and its spans random ones."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()
        self.trace = ""

    @override
    def generate_span_id(self) -> int:
        return self._random.generate_span_id()

    @override
    def generate_trace_id(self) -> int:
        return int(self.trace, 16)

    @override
    def is_trace_id_random(self) -> bool:
        return True


class _Counted(SpanExporter):
    """Counts what is sent, and logs when a collector begins and ends to take spans."""

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


class OtelTraces:
    """Makes spans of traces that are over, and has them sent."""

    def __init__(
        self, service: str, version: str, *, endpoint: str | None, ratio: float, count: Count
    ) -> None:
        """Without an endpoint the environment says where the collector is (OTEL_EXPORTER_OTLP_*).

        `ratio` is the share of traces that are made, from 0 to 1.
        """
        # One line of ours says that a collector is down; its own are many.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._count = count
        self._ids = _Ids()
        resource = Resource.create({"service.name": service, "service.version": version})
        self._provider = TracerProvider(
            sampler=ParentBasedTraceIdRatio(ratio),
            resource=resource.merge(OTELResourceDetector().detect()),  # the environment wins
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        exporter = OTLPSpanExporter(endpoint=_address(endpoint))
        given = os.environ.get(OTEL_BSP_MAX_EXPORT_BATCH_SIZE)
        self._provider.add_span_processor(
            BatchSpanProcessor(
                _Counted(exporter, count), max_export_batch_size=None if given else BATCH
            )
        )
        self._tracer: Tracer = self._provider.get_tracer("gang-extender", version)

    def add(self, trace: Trace) -> None:
        """Queue the spans of a trace; where the queue is full they are dropped."""
        self._ids.trace = trace.id
        root = self._tracer.start_span(
            trace.root.name,
            context=Context(),
            attributes=dict(trace.root.attributes),
            start_time=_nanoseconds(trace.root.began),
        )
        if not root.is_recording():
            return
        parent = set_span_in_context(root, Context())
        for each in trace.children:
            child = self._tracer.start_span(
                each.name,
                context=parent,
                attributes=dict(each.attributes),
                start_time=_nanoseconds(each.began),
            )
            for moment in each.moments:
                child.add_event(moment.name, dict(moment.attributes), _nanoseconds(moment.at))
            _end(child, each)
        _end(root, trace.root)
        self._count("made", len(trace.children) + 1)

    def close(self, seconds: float) -> None:
        """Send what is queued; return when that is done, and after so many seconds at the latest.

        What has not been sent by then is lost.
        """
        ending = threading.Thread(target=self._provider.shutdown, daemon=True, name="traces-end")
        ending.start()
        ending.join(seconds)


def _end(span: Span, stretch: Stretch) -> None:
    if stretch.error:
        span.set_status(Status(StatusCode.ERROR, stretch.error))
    # A clock that was set back must not make a span that ends before it began.
    span.end(_nanoseconds(max(stretch.began, stretch.ended)))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * _BILLION)


def _address(endpoint: str | None) -> str | None:
    """Return where spans are posted, by the address of a collector."""
    if endpoint is None or endpoint.endswith(PATH):
        return endpoint
    return endpoint.rstrip("/") + PATH
