"""The FastAPI application: HTTP to bytes and back, no decision.

The verbs take the request's raw body and return the raw answer, so FastAPI neither parses nor
validates on the hot path; it routes, documents and serves the rest.
"""

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from typing_extensions import override

from extender.server import openapi
from extender.server.waiting_pods import Gone
from extender.telemetry.metrics import Metrics

_log = structlog.get_logger(__name__)

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Verbs(Protocol):
    """Answers in bytes to requests in bytes; ValueError for what cannot be read."""

    def filter(self, body: bytes) -> bytes:
        """Return an ExtenderFilterResult."""
        ...

    def prioritize(self, body: bytes) -> bytes:
        """Return a HostPriorityList."""
        ...

    def preempt(self, body: bytes) -> bytes:
        """Return an ExtenderPreemptionResult."""
        ...


class BindVerb(Protocol):
    """The verb that may take long."""

    async def bind(self, body: bytes, gone: Gone) -> bytes:
        """Return an ExtenderBindingResult."""
        ...


class BodyTooLargeError(ValueError):
    """The request is larger than the configured limit."""


class _RawRoute(APIRoute):
    """Hands the request to its endpoint as it is."""

    @override
    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """Return the endpoint itself, without parameters being resolved."""
        endpoint: Callable[[Request], Awaitable[Response]] = self.endpoint
        return endpoint


def create_app(
    verbs: Verbs,
    binding: BindVerb,
    *,
    metrics: Metrics,
    ready: Callable[[], dict[str, bool]],
    max_body_bytes: int,
) -> FastAPI:
    """Return the application; `ready` tells what must be true before requests are answered."""
    app = FastAPI(
        title="gang-extender",
        description="The webhooks of kube-scheduler's extender protocol, for gangs of pods.",
        docs_url=None,
        redoc_url=None,
    )
    app.router.route_class = _RawRoute

    async def answer_filter(body: bytes, _: Request) -> bytes:
        return verbs.filter(body)

    async def answer_prioritize(body: bytes, _: Request) -> bytes:
        return verbs.prioritize(body)

    async def answer_preempt(body: bytes, _: Request) -> bytes:
        return verbs.preempt(body)

    async def answer_bind(body: bytes, request: Request) -> bytes:
        return await binding.bind(body, lambda: _disconnected(request))

    answers: dict[str, _Answer] = {
        "filter": answer_filter,
        "prioritize": answer_prioritize,
        "preempt": answer_preempt,
        "bind": answer_bind,
    }
    for name, answer in answers.items():
        model, result = _MODELS[name]
        app.add_api_route(
            f"/{name}",
            _endpoint(name, answer, metrics=metrics, ready=ready, max_body_bytes=max_body_bytes),
            methods=["POST"],
            name=name,
            summary=f"kube-scheduler's {name} webhook",
            responses={200: {"model": result}},
            openapi_extra=openapi.request_body(model),
            response_class=Response,
        )
    _add_health(app, metrics, ready)
    return app


def _endpoint(
    name: str,
    answer: "_Answer",
    *,
    metrics: Metrics,
    ready: Callable[[], dict[str, bool]],
    max_body_bytes: int,
) -> Callable[[Request], Awaitable[Response]]:
    """Return what serves one verb: always status 200, with `Error` for anything to say."""
    timer = metrics.request_seconds.labels(name)
    failed = metrics.decisions.labels(name, "Error")
    timed = name != "bind"  # that one is mostly waiting, and is measured where it waits

    async def endpoint(request: Request) -> Response:
        began = time.perf_counter()
        try:
            body = await _read(request, max_body_bytes)
            if not all(ready().values()):
                return _problem("the extender has not seen the whole cluster yet")
            content = await answer(body, request)
        except ValueError as error:
            failed.inc()
            return _problem(f"{name}: {error}")
        except Exception:  # noqa: BLE001 - whatever it is, kube-scheduler must get an answer
            failed.inc()
            _log.exception("request failed", verb=name)
            return _problem(f"{name}: internal error, see the log of gang-extender")
        if timed:
            timer.observe(time.perf_counter() - began)
        return Response(content, media_type="application/json")

    return endpoint


_Answer = Callable[[bytes, Request], Awaitable[bytes]]

_MODELS: Final[dict[str, tuple[type[openapi.Model], Any]]] = {
    "filter": (openapi.ExtenderArgs, openapi.FilterResult),
    "prioritize": (openapi.ExtenderArgs, list[openapi.HostPriority]),
    "preempt": (openapi.PreemptionArgs, openapi.PreemptionResult),
    "bind": (openapi.BindingArgs, openapi.BindingResult),
}


def _add_health(app: FastAPI, metrics: Metrics, ready: Callable[[], dict[str, bool]]) -> None:
    async def livez(_: Request) -> Response:
        return Response("ok\n", media_type="text/plain")

    async def readyz(_: Request) -> Response:
        checks = ready()
        lines = [f"[{'+' if good else '-'}]{name}" for name, good in checks.items()]
        status = 200 if all(checks.values()) else 503
        return Response("\n".join(lines) + "\n", status, media_type="text/plain")

    async def metrics_page(_: Request) -> Response:
        return Response(metrics.render(), media_type=METRICS_TYPE)

    app.add_api_route("/livez", livez, summary="The process answers", response_class=Response)
    app.add_api_route(
        "/readyz",
        readyz,
        summary="The caches have been filled once",
        responses={503: {"description": "A cache is still empty."}},
        response_class=Response,
    )
    app.add_api_route("/metrics", metrics_page, summary="Prometheus", response_class=Response)


async def _read(request: Request, limit: int) -> bytes:
    """Return the body; raises BodyTooLargeError without reading past the limit."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise BodyTooLargeError(f"the body of {announced} bytes is over the limit of {limit}")
    chunks, size = [], 0
    async for chunk in request.stream():
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise BodyTooLargeError(f"the body is over the limit of {limit} bytes")
    return b"".join(chunks)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _problem(text: str) -> Response:
    """Return an error in the one form that reaches people: kube-scheduler drops other statuses."""
    content = json.dumps({"Error": text.replace("%", " per cent")})
    return Response(content, media_type="application/json")
