"""Serves `GET /debug/snapshot`: the memory of the process that no object of the API server has."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request, Response
from msgspec import Raw

from extender.api.explanations import Status
from extender.kube.reviews import Access
from extender.runtime.pacer import Pacer
from extender.server.access import REFUSALS, Guard, Turnstile, add_statuses

PATH: Final = "/debug/snapshot"
_WAITING: Final = 2
"""Requests that are answered or wait; one is answered at a time."""
_BUSY: Final = {"model": Status, "description": "Other snapshots are being written."}


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """The source of the answer, and the pace at which it is written."""

    memory: Callable[[], Mapping[str, object]]
    """Returns the sections of the answer. An iterator is written item by item, with pauses."""
    pacer: Pacer
    guard: Guard | None = None
    """Checks whether a user may get the path; None where every client that reaches it may."""


def add_snapshot(app: FastAPI, source: SnapshotSource) -> None:
    """Serve the memory of the process; with a guard for users who may `get` its path."""
    turnstile = Turnstile(most=_WAITING)

    async def snapshot(request: Request) -> Response:
        if source.guard is not None:
            await source.guard.check(request, Access(path=PATH))
        async with turnstile.turn():
            return Response(await _written(source), media_type="application/json")

    responses: dict[int | str, dict[str, Any]] = {
        200: {"content": {"application/json": {"schema": {"type": "object"}}}},
        **(REFUSALS if source.guard is not None else {}),
        429: _BUSY,
    }
    app.add_api_route(
        PATH,
        snapshot,
        summary="What the process remembers, for gang-extender snapshot",
        responses=responses,
        response_class=Response,
    )
    add_statuses(app)


async def _written(source: SnapshotSource) -> bytes:
    found: dict[str, object] = {}
    for name, section in source.memory().items():
        found[name] = (
            await _items(section, source.pacer) if isinstance(section, Iterator) else section
        )
    return msgspec.json.encode(found)


async def _items(section: Iterator[object], pacer: Pacer) -> list[Raw]:
    found = []
    for each in section:
        found.append(Raw(msgspec.json.encode(each)))
        if pacer.is_due:
            await pacer.rest()
    return found
