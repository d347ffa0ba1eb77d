"""Traces of gangs and admissions, made with OpenTelemetry.

The parts of a process note times, and make the spans when a gang or an admission is over. The API
of OpenTelemetry does nothing until it is given a tracer of its SDK, which `otel` sets up.
"""

from collections.abc import Iterable, Mapping
from secrets import token_hex
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import Status, StatusCode, Tracer, format_trace_id, set_span_in_context

from extender.runtime.clock import Clock

Value = str | int | float | bool
Event = tuple[float, str, Mapping[str, Value]]
"""The time, the name and the attributes of something that happened within a stage."""
NAMESPACE: Final = "k8s.namespace.name"
REMEMBERED: Final = 10_000
"""The groups and the workloads whose last id is kept, for what is logged of them later."""
MOST_EVENTS: Final = 32
"""The most events of a kind that are kept for a stage."""


class Trace:
    """A trace of something that takes several stages. All times are monotonic seconds."""

    def __init__(self, tracer: Tracer, clock: Clock, name: str, *, began: float) -> None:
        self._tracer = tracer
        self.epoch = clock.wall() - clock.monotonic()
        """Added to a monotonic time it gives seconds since 1970."""
        self._began = began
        self._root = tracer.start_span(name, Context(), start_time=self._nanoseconds(began))
        context = self._root.get_span_context()
        self.id = format_trace_id(context.trace_id) if context.is_valid else token_hex(16)
        """32 hexadecimal digits, also where no trace is made."""

    @property
    def is_recording(self) -> bool:
        """Return whether the trace is made and sent."""
        return self._root.is_recording()

    def add_stage(
        self,
        name: str,
        times: tuple[float, float],
        *,
        attributes: Mapping[str, Value] | None = None,
        events: Iterable[Event] = (),
    ) -> None:
        """Add a child of the root that began and ended at these times."""
        began, ended = times
        parent = set_span_in_context(self._root, Context())
        start = self._nanoseconds(began)
        span = self._tracer.start_span(name, parent, attributes=attributes, start_time=start)
        for at, event, details in events:
            span.add_event(event, dict(details), self._nanoseconds(at))
        span.end(self._nanoseconds(max(began, ended)))

    def end(self, ended: float, attributes: Mapping[str, Value], error: str = "") -> None:
        """End the root, and with it the trace; `error` says why it failed."""
        self._root.set_attributes(dict(attributes))
        if error:
            self._root.set_status(Status(StatusCode.ERROR, error))
        self._root.end(self._nanoseconds(max(self._began, ended)))

    def _nanoseconds(self, monotonic: float) -> int:
        return int((monotonic + self.epoch) * 1_000_000_000)
