"""GET /debug/snapshot: all that the process believes, as one file.

The state is copied in one step, and written in slices of the loop's time while the copy stays as
it is. One snapshot is written at a time; a client that does not read it is given up.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from extender.api.visibility_v1beta2 import Status
from extender.kube.reviews import Access
from extender.runtime.pacer import Pacer
from extender.server.access import REFUSALS, Guard, Turnstile, add_statuses
from extender.snapshot.writing import Belief, written

PATH: Final = "/debug/snapshot"
LONGEST_SECONDS: Final = 300.0
"""How long an answer may take: what has gone since is kept in memory for it."""
_WAITING: Final = 2
_CHUNK: Final = 64 * 1024
"""Bytes that are sent together, and compressed in one step: that takes some milliseconds."""
_LEVEL: Final = 1
"""Of gzip: higher ones take several times as long for little."""
_GZIP: Final = 31
"""What zlib calls the form of gzip, with the largest window."""
_ACCESS: Final = Access(path=PATH)
_BUSY: Final = {"model": Status, "description": "Other snapshots are being written."}


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """What takes a snapshot, and when it may go on."""

    belief: Callable[[], Belief]
    """Returns what is believed now."""
    pacer: Pacer
    guard: Guard | None = None
    """Checks whether a user may get the path; None where every client that reaches it may."""


def add_snapshot(app: FastAPI, source: SnapshotSource) -> None:
    """Serve the snapshot; with a guard for users who may `get` its path."""
    turnstile = Turnstile(most=_WAITING)

    async def snapshot(request: Request) -> Response:
        if source.guard is not None:
            await source.guard.check(request, _ACCESS)
        zipped = "gzip" in request.headers.get("accept-encoding", "")
        return _InTurn(source, turnstile, zipped=zipped)

    responses: dict[int | str, dict[str, Any]] = {
        200: {"content": {"application/json": {"schema": {"type": "object"}}}},
        **(REFUSALS if source.guard is not None else {}),
        429: _BUSY,
    }
    app.add_api_route(
        PATH,
        snapshot,
        summary="All that the process believes, for gang-extender explain --from-snapshot",
        responses=responses,
        response_class=Response,
    )
    add_statuses(app)


class _InTurn(StreamingResponse):
    """An answer that begins when no other one is written."""

    def __init__(self, source: SnapshotSource, turnstile: Turnstile, *, zipped: bool) -> None:
        headers: Mapping[str, str] = {"Content-Encoding": "gzip"} if zipped else {}
        found = _sent(source, zlib.compressobj(_LEVEL, wbits=_GZIP) if zipped else None)
        super().__init__(found, headers=headers, media_type="application/json")
        self._turnstile = turnstile

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer. Raises StatusError where too many wait, and TimeoutError."""
        async with self._turnstile.turn(), asyncio.timeout(LONGEST_SECONDS):
            await super().__call__(scope, receive, send)


async def _sent(source: SnapshotSource, zipping: "zlib._Compress | None") -> AsyncIterator[bytes]:
    for chunk in _chunks(written(source.belief()), zipping):
        if chunk:
            yield chunk
        if source.pacer.is_due:
            await source.pacer.rest()


def _chunks(pieces: Iterator[bytes], zipping: "zlib._Compress | None") -> Iterator[bytes]:
    """Yield what is to be sent; nothing after each piece that fills no chunk."""
    kept, size = list[bytes](), 0
    for piece in pieces:
        kept.append(piece)
        size += len(piece)
        if size >= _CHUNK:
            chunk, kept, size = b"".join(kept), [], 0
            yield b""
            yield zipping.compress(chunk) if zipping is not None else chunk
        else:
            yield b""
    rest = b"".join(kept)
    yield zipping.compress(rest) + zipping.flush() if zipping is not None else rest
