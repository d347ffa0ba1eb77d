"""The application of the extender: it routes, documents and serves health and the verbs.

FastAPI would spend most of a verb's time in layers that a verb does not need (middlewares,
parameters, validation), and the time of filter limits the throughput of the whole cluster. So a
POST to a verb goes straight to its ASGI application, a `Verb`: raw body in, raw answer out. That
takes 90 microseconds per call, compared with 145 through FastAPI. All other requests go through
FastAPI.

kube-scheduler drops the text of any status but 200, so each problem is in the field `Error`. But
the answer of preempt has no such field: without one its 503 is what says that nothing was decided.
"""

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import structlog
from fastapi import FastAPI
from msgspec import Struct
from starlette.types import Message, Receive, Scope, Send
from typing_extensions import override

from extender.api import extender_v1 as wire
from extender.api.extender_v1 import error_text
from extender.permit.hold import Gone
from extender.runtime.faults import FAULTS
from extender.runtime.process import version
from extender.server.connections import Caller
from extender.server.health import Probes, add_health
from extender.server.verbs import BindVerb, SchedulingVerbs
from extender.telemetry.metrics import Metrics

_log = structlog.get_logger(__name__)

Answer = Callable[[bytes, Gone], Awaitable[bytes]]
"""Takes a body and a way to wait for the client to hang up; ValueError for what it cannot read."""


class BodyTooLargeError(ValueError):
    """The request is larger than the configured limit."""


class Verb:
    """Reads, answers and measures one verb."""

    def __init__(
        self,
        name: str,
        answer: Answer,
        *,
        metrics: Metrics,
        unready: Callable[[], str],
        max_body_bytes: int,
    ) -> None:
        """`unready` returns why the verb answers with an Error now, or nothing."""
        self.name = name
        self._answer = answer
        self._unready = unready
        self._unready_status = 503 if name == "preempt" else 200
        self._max_body_bytes = max_body_bytes
        self._seconds = metrics.request_seconds.labels(name)
        self._errors = metrics.decisions.labels(name, "Error")
        # Bind is mostly waiting, and is measured where it waits.
        self._measured = name != "bind"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        began = time.perf_counter()
        content, status = await self._serve(scope, receive)
        await send(_start(len(content), status))
        await send({"type": "http.response.body", "body": content})
        if self._measured:
            self._seconds.observe(time.perf_counter() - began)

    async def _serve(self, scope: Scope, receive: Receive) -> tuple[bytes, int]:
        """Return the answer and its status."""
        try:
            body = await _read(scope, receive, self._max_body_bytes)
            if why := self._unready():
                return self._problem(why), self._unready_status
            return await self._answer(body, lambda: _disconnected(receive)), 200
        except ValueError as error:
            text = str(error)
        except RecursionError:
            text = "the request is nested too deeply"
        except Exception as error:  # noqa: BLE001 - kube-scheduler must get an answer
            FAULTS.report("verb", error, key=self.name)
            text = "internal error, see the log of gang-extender"
        return self._problem(text), 200

    def _problem(self, text: str) -> bytes:
        self._errors.inc()
        return json.dumps({"Error": error_text(f"{self.name}: {text}")}).encode()


def _start(length: int, status: int) -> Message:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % length)]
    return {"type": "http.response.start", "status": status, "headers": headers}


async def _read(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Return the body; raises BodyTooLargeError without keeping more than the limit."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            _check(int(value), limit)
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size <= limit:
            chunks.append(chunk)
    _check(size, limit)
    return b"".join(chunks)


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise BodyTooLargeError(f"the body of {size} bytes is over the limit of {limit}")


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class ExtenderApp(FastAPI):
    """FastAPI with a shortcut for the verbs."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of FastAPI
        super().__init__(**options)
        self.verbs: dict[str, Verb] = {}
        self.caller: Caller | None = None

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan."""
        verb = self.verbs.get(scope["path"]) if scope["type"] == "http" else None
        if verb is not None and scope["method"] == "POST":
            if self.caller is not None:
                self.caller.called(scope, verb.name)
            await verb(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    @override
    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        document = super().openapi()
        parts = _components(
            *(each for asked, answers in _WIRES.values() for each in (asked, *answers))
        )
        document.setdefault("components", {}).setdefault("schemas", {}).update(parts)
        return document


def create_app(
    filtering: SchedulingVerbs,
    binding: BindVerb,
    *,
    metrics: Metrics,
    probes: Probes,
    max_body_bytes: int,
    caller: Caller | None = None,
) -> ExtenderApp:
    """Return the application; `caller` takes note of calls of filter and bind.

    Verbs are answered with an Error for less than what makes a process not ready, because with an
    Error kube-scheduler schedules nothing at all: `probes.unready` returns why. But no victim is
    chosen while a watch is stale: preempt needs all that readiness does.
    """
    app = ExtenderApp(
        title="gang-extender",
        version=version(),
        description="The webhooks of kube-scheduler's extender protocol, for gangs of pods.",
        docs_url=None,
        redoc_url=None,
    )
    app.caller = caller
    answers: dict[str, Answer] = {
        "filter": _at_once(filtering.filter),
        "prioritize": _at_once(filtering.prioritize),
        "preempt": _at_once(filtering.preempt),
        "bind": binding.bind,
    }
    for name, answer in answers.items():
        app.verbs[f"/{name}"] = Verb(
            *(name, answer),
            metrics=metrics,
            unready=partial(_first_problem, probes) if name == "preempt" else probes.unready,
            max_body_bytes=max_body_bytes,
        )
        _document(app, name)

    async def page() -> bytes:
        return metrics.render()

    add_health(app, page, probes)
    return app


def _first_problem(probes: Probes) -> str:
    return probes.unready() or next(filter(None, probes.ready().values()), "")


def _at_once(answer: Callable[[bytes], bytes]) -> Answer:
    async def answered(body: bytes, _gone: Gone) -> bytes:
        return answer(body)

    return answered


_WIRES: Final[dict[str, tuple[type[Struct], Sequence[object]]]] = {
    "filter": (wire.ExtenderArgs, (wire.FilterResult, wire.Problem)),
    "prioritize": (wire.ExtenderArgs, (list[wire.HostPriority], wire.Problem)),
    "preempt": (wire.PreemptionArgs, (wire.PreemptionResult, wire.Problem)),
    "bind": (wire.BindingArgs, (wire.BindingResult,)),
}


_COMPONENT: Final = "#/components/schemas/{name}"


def _components(*wires: object) -> dict[str, Any]:
    """Return the schemas of types by name, and of the types that these refer to."""
    return msgspec.json.schema_components(wires, ref_template=_COMPONENT)[1]


def _document(app: ExtenderApp, name: str) -> None:
    """Add a verb to the OpenAPI document, and refuse other methods than POST with 405."""

    async def never_called() -> None:
        raise AssertionError("the shortcut serves POST")

    def content(schema: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        return {"content": {"application/json": {"schema": schema}}}

    asked, answers = _WIRES[name]
    schemas, _ = msgspec.json.schema_components(answers, ref_template=_COMPONENT)
    answer = schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
    body = {"required": True, **content(_components(asked)[asked.__name__])}
    app.add_api_route(
        f"/{name}",
        never_called,
        methods=["POST"],
        name=name,
        summary=f"kube-scheduler's {name} webhook",
        responses={200: content(answer)},
        openapi_extra={"requestBody": body},
    )
