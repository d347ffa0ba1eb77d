"""The FastAPI application: it routes, documents and serves health, and leaves verbs to `Verb`.

FastAPI would spend most of a verb's time in layers that a verb does not need (middlewares,
parameters, validation), and the time of filter limits the throughput of the whole cluster. So a
POST to a verb goes straight to its ASGI application; all other requests go through FastAPI.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from fastapi import FastAPI
from msgspec import Struct
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from extender.api import extender_v1 as wire
from extender.permit.waiting_pods import Gone
from extender.runtime.process import version
from extender.server import openapi
from extender.server.binding import Binding
from extender.server.connections import Caller
from extender.server.filtering import Filtering
from extender.server.health import Probes, add_health
from extender.server.verb import Answer, Verb
from extender.telemetry.metrics import Metrics


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
        parts = openapi.components(
            *(each for asked, answers in _WIRES.values() for each in (asked, *answers))
        )
        document.setdefault("components", {}).setdefault("schemas", {}).update(parts)
        return document


def create_app(
    filtering: Filtering,
    binding: Binding,
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
            pause=filtering.pause if name == "filter" else None,
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


def _document(app: ExtenderApp, name: str) -> None:
    """Add a verb to the OpenAPI document, and refuse other methods than POST with 405."""

    async def never_called() -> None:
        raise AssertionError("the shortcut serves POST")

    asked, answers = _WIRES[name]
    app.add_api_route(
        f"/{name}",
        never_called,
        methods=["POST"],
        name=name,
        summary=f"kube-scheduler's {name} webhook",
        responses={200: openapi.answered(*answers)},
        openapi_extra=openapi.request_body(asked),
    )
