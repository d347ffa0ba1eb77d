"""Traces that are kept in a list when they are over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import format_trace_id
from typing_extensions import override

from extender.telemetry.starts import AdmissionStarts, GangStarts


class Moment(NamedTuple):
    """An event of a span, in seconds since 1970."""

    at: float
    name: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Stretch:
    """A span, in seconds since 1970."""

    name: str
    began: float
    ended: float
    attributes: Mapping[str, Any]
    moments: Sequence[Moment]
    error: str


@dataclass
class Trace:
    """A root span and its children."""

    id: str
    root: Stretch
    children: list[Stretch] = field(default_factory=list)

    def stages(self, since: float = 0.0) -> dict[str, tuple[float, float]]:
        """Return when each child began and ended, in seconds since a time."""
        return {
            each.name: (round(each.began - since, 6), round(each.ended - since, 6))
            for each in self.children
        }


def record(starts: GangStarts | AdmissionStarts) -> list[Trace]:
    """Return a list to which all traces of these starts are added when they are over."""
    sink = _Sink()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(sink))
    starts.tracer = provider.get_tracer("test")
    return sink.traces


class _Sink(SpanExporter):
    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self._children: dict[int, list[Stretch]] = {}

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            assert span.context is not None
            if span.parent is not None:
                self._children.setdefault(span.parent.span_id, []).append(_stretch(span))
                continue
            children = self._children.pop(span.context.span_id, [])
            trace = format_trace_id(span.context.trace_id)
            self.traces.append(Trace(trace, _stretch(span), children))
        return SpanExportResult.SUCCESS

    @override
    def shutdown(self) -> None:
        pass


def _stretch(span: ReadableSpan) -> Stretch:
    assert span.start_time is not None
    assert span.end_time is not None
    return Stretch(
        span.name,
        _seconds(span.start_time),
        _seconds(span.end_time),
        dict(span.attributes or {}),
        [Moment(_seconds(e.timestamp), e.name, dict(e.attributes or {})) for e in span.events],
        span.status.description or "",
    )


def _seconds(nanoseconds: int) -> float:
    return round(nanoseconds / 1_000_000_000, 6)
