"""The webhooks that the API server calls: conversion, and jobs when they are created or changed.

Any client that reaches the port can post anything: the API server shows no certificate. So what a
request may cost is bounded: its size, how many values it has, the bytes of all requests together,
and how long the loop stands still for one of them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from extender.runtime.clock import SLICE_SECONDS
from extender.runtime.faults import FAULTS
from extender.runtime.process import deep_stack
from extender.webhooks import conversion, jobs
from extender.webhooks.jobs import Kinds, QueueFacts

Answer = Callable[[bytes], Awaitable[bytes]]
"""Takes the bytes of a review and returns those that go back; ValueError for what is no review."""

_JSON: Final = "application/json"
_END: Final = object()
LARGEST_REVIEW: Final = 8 * 2**20
"""Bytes. An object is at most 3 MiB to the API server, and a change comes with the old one."""
MOST_BYTES: Final = 8 * LARGEST_REVIEW
"""Bytes of all requests that are read or answered at one time."""
MOST_VALUES: Final = 200_000
"""Values in a review about a job, counted by the characters that begin or part them."""

_TOO_DEEP: Final = "spec: is nested too deeply to be queued: use fewer than 500 levels"


class TooLargeError(ValueError):
    """A request is larger than any that the API server has cause to send."""


class TooManyError(Exception):
    """All requests together are larger than what is kept at one time."""


class _Asked(msgspec.Struct, frozen=True):
    """A review about a job, its parts as they were sent."""

    request: dict[str, msgspec.Raw] = {}
    apiVersion: str = ""  # noqa: N815 - as it is on the wire
    kind: str = ""


_decode_asked: Final = msgspec.json.Decoder(_Asked).decode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_decode_any: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class _Bodies:
    """Reads bodies and keeps count of their bytes, until they are answered."""

    def __init__(self) -> None:
        self._bytes = 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Yield a body. Raises TooLargeError and TooManyError."""
        chunks: list[bytes] = []
        size = 0
        try:
            async for chunk in request.stream():
                size += len(chunk)
                self._bytes += len(chunk)
                if size > LARGEST_REVIEW:
                    raise TooLargeError(f"the body is over the limit of {LARGEST_REVIEW} bytes")
                if self._bytes > MOST_BYTES:
                    raise TooManyError("too many large reviews at one time, try again")
                chunks.append(chunk)
            yield b"".join(chunks)
        finally:
            self._bytes -= size


def webhooks_app(kinds: Kinds, queues: QueueFacts, *, ready: Callable[[], bool]) -> Starlette:
    """Return the application; jobs are judged when `ready`, conversion does not wait for it."""
    bodies = _Bodies()

    def judged(*, changes: bool) -> Answer:
        async def answer(body: bytes) -> bytes:
            try:
                request = jobs.read(await _decoded(body))
                if not changes:
                    return _encode(jobs.answer(request))
                # Copies and comparisons of large objects are pure Python code, during which the
                # event loop can run. Of the queues it looks up single keys.
                patch = await asyncio.to_thread(jobs.mutate, request, kinds, queues)
                return _encode(jobs.answer(request, patch))
            except RecursionError:
                return _too_deep(body)

        return answer

    routes = {
        "/mutate-job": _route(judged(changes=True), bodies, ready=ready),
        # A configuration of an earlier release still asks; now policies refuse.
        "/validate-job": _route(judged(changes=False), bodies, ready=ready),
        "/convert": _route(_converted, bodies, ready=lambda: True),
    }
    return Starlette(
        routes=[Route(path, route, methods=["POST"]) for path, route in routes.items()]
    )


def _route(
    answer: Answer, bodies: _Bodies, *, ready: Callable[[], bool]
) -> Callable[[Request], Awaitable[Response]]:
    async def route(request: Request) -> Response:
        if not ready():
            return _text(503, "the queues are not known yet")
        try:
            async with bodies.read(request) as body:
                return Response(await answer(body), media_type=_JSON)
        except Exception as error:  # noqa: BLE001 - a bug costs this one request
            return _failed(error, request.url.path)

    return route


def _too_deep(body: bytes) -> bytes:
    """Refuse a new job that cannot be read; an existing one must still be deletable."""
    with deep_stack():
        request = jobs.read(_decode(body))
    refusal = _TOO_DEEP if request.operation == "CREATE" else ""
    return _encode(jobs.answer(request, refusal=refusal))


def _failed(error: Exception, path: str) -> Response:
    match error:
        case TooManyError():
            return _text(503, str(error))
        case TooLargeError():
            return _text(413, str(error))
        case ValueError():  # msgspec's are of this kind too
            return _text(400, str(error))
        case RecursionError():
            return _text(400, "the review is nested too deeply")
        case _:
            FAULTS.report("webhooks", error, key=path)
            return _text(500, "internal error, see the log")


def _text(status: int, text: str) -> Response:
    return Response(f"{text}\n", status, media_type="text/plain")


async def _converted(body: bytes) -> bytes:
    with deep_stack():
        review = conversion.Review(body)
    steps = iter(review.steps())
    loop = asyncio.get_running_loop()
    began, more = loop.time(), True
    while more:
        with deep_stack():
            more = next(steps, _END) is not _END
        if loop.time() - began > SLICE_SECONDS:
            await asyncio.sleep(0)
            began = loop.time()
    return review.answer()


async def _decoded(body: bytes) -> dict[str, Any]:
    """Return a review about a job; each of its objects is decoded in a step of its own."""
    if sum(map(body.count, (b"{", b"[", b","))) > MOST_VALUES:
        raise TooLargeError(f"the review has over {MOST_VALUES} values")
    asked = _decode_asked(body)
    request = {}
    for name, part in asked.request.items():
        request[name] = _decode_any(part)
        await asyncio.sleep(0)
    return {"apiVersion": asked.apiVersion, "kind": asked.kind, "request": request}
