"""The HTTP pages of a process about itself: liveness, readiness, metrics, and its memory.

`GET /debug/snapshot` shows the memory of the process that no object of the API server has.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request, Response
from msgspec import Raw

from extender.kube.reviews import Access
from extender.runtime.clock import Pacer
from extender.runtime.process import version
from extender.server.access import ERRORS, Guard, Responses, Turnstile, add_statuses

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

PATH: Final = "/debug/snapshot"

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


def add_snapshot(
    app: FastAPI,
    memory: Callable[[], Mapping[str, object]],
    *,
    pacer: Pacer,
    guard: Guard | None = None,
) -> None:
    """Serve the memory of the process; with a guard for users who may `get` its path.

    `memory` returns the sections of the answer. An iterator is written item by item, with pauses.
    """
    turnstile = Turnstile(most=2)  # one is answered, and one waits

    async def snapshot(request: Request) -> Response:
        if guard is not None:
            await guard.check(request, Access(path=PATH))
        async with turnstile.turn():
            return Response(await _written(memory(), pacer), media_type="application/json")

    content = {"application/json": {"schema": {"type": "object"}}}
    app.add_api_route(
        PATH,
        snapshot,
        summary="What the process remembers, for gang-extender snapshot",
        responses={200: {"content": content}, **ERRORS},
        response_class=Response,
    )
    add_statuses(app)


async def _written(memory: Mapping[str, object], pacer: Pacer) -> bytes:
    found: dict[str, object] = {}
    for name, section in memory.items():
        found[name] = await _items(section, pacer) if isinstance(section, Iterator) else section
    return msgspec.json.encode(found)


async def _items(section: Iterator[object], pacer: Pacer) -> list[Raw]:
    found = []
    for each in section:
        found.append(Raw(msgspec.json.encode(each)))
        if pacer.is_due:
            await pacer.rest()
    return found
