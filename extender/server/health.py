"""Liveness, readiness and metrics of a process, over HTTP."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import FastAPI, Request, Response

from extender.kube.reviews import Access
from extender.runtime.process import version
from extender.server.access import ERRORS, Guard, Responses, add_statuses

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_METRICS: Final = Access(path="/metrics")
_TEXT: Final[dict[str, Any]] = {"content": {"text/plain": {"schema": {"type": "string"}}}}

Checks = Callable[[], Mapping[str, str | None]]
"""Returns, by name, what is wrong; None for a check that is passed."""
Trouble = Callable[[], str]
"""Returns what is wrong; an empty text where nothing is."""


@dataclass(frozen=True, slots=True)
class Probes:
    """The checks of a process: for readiness, for liveness, and for answers to kube-scheduler."""

    ready: Checks
    trouble: Trouble = str
    unready: Trouble = str
    """Returns the reason for which kube-scheduler is answered an Error now, or an empty text."""
    remarks: Checks = dict
    """Checks that `/readyz` shows and does not depend on."""


def add_health(
    app: FastAPI,
    metrics: Callable[[], Awaitable[bytes]],
    probes: Probes,
    *,
    guard: Guard | None = None,
) -> None:
    """Serve GET /livez, /readyz and /metrics.

    With a guard metrics are for users who may `get` the path `/metrics`. Health is for all: a
    kubelet has no token, and which caches are full is no secret.
    """

    async def livez() -> Response:
        found = probes.trouble()
        return Response(f"{found or 'ok'}\n", 503 if found else 200, media_type="text/plain")

    async def readyz() -> Response:
        checks = probes.ready()
        lines = [f"[-]{name}: {why}" if why else f"[+]{name}" for name, why in checks.items()]
        remarks = probes.remarks().items()
        lines += [f"[!]{name}: {why}" if why else f"[+]{name}" for name, why in remarks]
        status = 503 if any(checks.values()) else 200
        return Response("\n".join(lines) + "\n", status, media_type="text/plain")

    async def metrics_page(request: Request) -> Response:
        if guard is not None:
            await guard.check(request, _METRICS)
        return Response(await metrics(), media_type=METRICS_TYPE)

    late: Responses = {503: _TEXT}
    for path, answer, summary, others in (
        ("/livez", livez, "The process answers, and keeps up with its work", late),
        ("/readyz", readyz, "The caches are filled, and were heard of lately", late),
        ("/metrics", metrics_page, "Prometheus", ERRORS if guard is not None else {}),
    ):
        responses: Responses = {200: _TEXT, **others}
        app.add_api_route(
            path, answer, summary=summary, responses=responses, response_class=Response
        )


def health_app(
    metrics: Callable[[], Awaitable[bytes]], probes: Probes, *, guard: Guard | None = None
) -> FastAPI:
    """Return an application that serves nothing else."""
    app = FastAPI(
        title="gang-extender reconciler", version=version(), docs_url=None, redoc_url=None
    )
    add_health(app, metrics, probes, guard=guard)
    add_statuses(app)
    return app
