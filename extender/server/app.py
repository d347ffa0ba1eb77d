"""The FastAPI application: it routes, documents and serves health, and steps aside for the verbs.

Most of a verb's time would be spent in layers that it does not need (middlewares, parameters,
validation), and filter's time is taken from the throughput of the whole cluster. So a POST to a
verb goes to its ASGI application straight away; everything else takes the usual way.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from extender.server import openapi
from extender.server.health import Probes, add_health
from extender.server.verb import Answer, Verb
from extender.server.waiting_pods import Gone
from extender.telemetry.metrics import Metrics


class Filtering(Protocol):
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


class Binding(Protocol):
    """The verb that may take long."""

    async def bind(self, body: bytes, gone: Gone) -> bytes:
        """Return an ExtenderBindingResult."""
        ...


class ExtenderApp(FastAPI):
    """FastAPI with a shortcut for the verbs."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of FastAPI
        super().__init__(**options)
        self.verbs: dict[str, Verb] = {}

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan."""
        verb = self.verbs.get(scope["path"]) if scope["type"] == "http" else None
        if verb is not None and scope["method"] == "POST":
            await verb(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    @override
    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        document = super().openapi()
        parts = openapi.parts_of_requests(*(request for request, _ in _MODELS.values()))
        document["components"]["schemas"].update(parts)
        return document


def create_app(
    filtering: Filtering,
    binding: Binding,
    *,
    metrics: Metrics,
    probes: Probes,
    max_body_bytes: int,
) -> ExtenderApp:
    """Return the application.

    Verbs are answered with an Error for less than what makes a process not ready, because with an
    Error kube-scheduler schedules nothing at all: `probes.unready` returns why.
    """
    app = ExtenderApp(
        title="gang-extender",
        description="The webhooks of kube-scheduler's extender protocol, for gangs of pods.",
        docs_url=None,
        redoc_url=None,
    )
    answers: dict[str, Answer] = {
        "filter": _at_once(filtering.filter),
        "prioritize": _at_once(filtering.prioritize),
        "preempt": _at_once(filtering.preempt),
        "bind": binding.bind,
    }
    for name, answer in answers.items():
        app.verbs[f"/{name}"] = Verb(
            name,
            answer,
            metrics=metrics,
            unready=probes.unready,
            max_body_bytes=max_body_bytes,
        )
        _document(app, name)

    async def page() -> bytes:
        return metrics.render()

    add_health(app, page, probes)
    return app


def _at_once(answer: Callable[[bytes], bytes]) -> Answer:
    async def answered(body: bytes, _gone: Gone) -> bytes:
        return answer(body)

    return answered


_MODELS: Final[dict[str, tuple[type[openapi.Model], Any]]] = {
    "filter": (openapi.ExtenderArgs, openapi.FilterResult | openapi.Problem),
    "prioritize": (openapi.ExtenderArgs, list[openapi.HostPriority] | openapi.Problem),
    "preempt": (openapi.PreemptionArgs, openapi.PreemptionResult | openapi.Problem),
    "bind": (openapi.BindingArgs, openapi.BindingResult),
}


def _document(app: ExtenderApp, name: str) -> None:
    """Put a verb into the OpenAPI document, and other methods than POST off with 405."""

    async def never_called() -> None:
        raise AssertionError("the shortcut serves POST")

    model, result = _MODELS[name]
    app.add_api_route(
        f"/{name}",
        never_called,
        methods=["POST"],
        name=name,
        summary=f"kube-scheduler's {name} webhook",
        responses={200: {"model": result}},
        openapi_extra=openapi.request_body(model),
    )
