"""Serves `GET /debug/snapshot`: the memory of the process that no object of the API server has."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
from fastapi import FastAPI, Request, Response
from msgspec import Raw

from extender.kube.reviews import Access
from extender.runtime.clock import Pacer
from extender.server.access import ERRORS, Guard, Turnstile, add_statuses

PATH: Final = "/debug/snapshot"


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
