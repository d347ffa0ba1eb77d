"""A collector of traces on loopback: it takes what OpenTelemetry's protocol sends over HTTP.

It decodes the protocol's own messages, and answers as the protocol says.
"""

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from typing_extensions import override

PATH: Final = "/v1/traces"
PROTOBUF: Final = "application/x-protobuf"


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as it was received; times in seconds since the epoch."""

    trace: str
    id: str
    parent: str
    name: str
    began: float
    ended: float
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    error: str | None
    """What its status says, if that is an error."""
    resource: dict[str, Any]


@dataclass(frozen=True)
class ReceivedTrace:
    """All spans of a trace that have come: the root, and the others by name."""

    root: ReceivedSpan
    children: dict[str, ReceivedSpan]


class Collector:
    """Takes spans while it is entered, on a port of its own."""

    def __init__(self, *, status: int = 200) -> None:
        """Answer each request with that status; only 200 keeps what it has."""
        self.status = status
        self.spans: list[ReceivedSpan] = []
        self.posts: list[str] = []
        """The path of each request."""
        self.may_answer = threading.Event()
        """Requests hang until it is set."""
        self.may_answer.set()
        self._some = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                collector._take(self)

            @override
            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def traces(self) -> dict[str, ReceivedTrace]:
        """The traces of which the root has come, by id."""
        spans = defaultdict[str, list[ReceivedSpan]](list)
        for span in [*self.spans]:
            spans[span.trace].append(span)
        roots = {of: [s for s in there if not s.parent] for of, there in spans.items()}
        return {
            of: ReceivedTrace(root, {s.name: s for s in spans[of] if s is not root})
            for of, (root, *more) in ((of, there) for of, there in roots.items() if there)
            if not more
        }

    def of(self, attribute: str, value: object) -> list[ReceivedTrace]:
        """Return the traces whose root has an attribute."""
        return [t for t in self.traces.values() if t.root.attributes.get(attribute) == value]

    def wait_until(self, is_so: Callable[[], bool], seconds: float = 120.0) -> bool:
        """Return whether that is so in time; it is asked whenever spans have come."""
        with self._some:
            return self._some.wait_for(is_so, seconds)

    def _take(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["content-length"]))
        self.may_answer.wait()
        message = ExportTraceServiceRequest.FromString(body)
        assert request.headers["content-type"] == PROTOBUF
        with self._some:
            self.posts.append(request.path)
            if self.status == 200:
                self.spans += _spans(message)
            self._some.notify_all()
        answer = ExportTraceServiceResponse().SerializeToString()
        request.send_response(self.status)
        request.send_header("content-type", PROTOBUF)
        request.send_header("content-length", str(len(answer)))
        request.end_headers()
        request.wfile.write(answer)


def _spans(message: ExportTraceServiceRequest) -> list[ReceivedSpan]:
    return [
        ReceivedSpan(
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.name,
            span.start_time_unix_nano / 1e9,
            span.end_time_unix_nano / 1e9,
            _values(span.attributes),
            [(event.name, _values(event.attributes)) for event in span.events],
            span.status.message if span.status.code == Status.STATUS_CODE_ERROR else None,
            _values(group.resource.attributes),
        )
        for group in message.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def _values(pairs: Any) -> dict[str, Any]:
    def value(pair: KeyValue) -> Any:
        kind = pair.value.WhichOneof("value")
        return getattr(pair.value, kind) if kind else None

    return {pair.key: value(pair) for pair in pairs}
