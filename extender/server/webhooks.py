"""The webhooks that the API server calls: conversion, and jobs when they are created or changed."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request, Response

from extender.runtime.deep import deep_stack
from extender.runtime.faults import FAULTS
from extender.webhooks import conversion, jobs, reviews
from extender.webhooks.jobs import Kinds, Queues
from extender.webhooks.reviews import Refusal, Verdict

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Takes a review and returns the one that goes back; ValueError for what is no review."""

_JSON: Final = "application/json"
_LARGEST_REVIEW: Final = 8 * 2**20
_LARGEST_CONVERSION: Final = 64 * 2**20
"""A list is converted in one go."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


_TOO_DEEP: Final = Refusal("spec", "is nested too deeply to be queued: use fewer than 500 levels")


class TooLargeError(ValueError):
    """A request is larger than any that the API server has cause to send."""


def webhooks_app(kinds: Kinds, queues: Queues, *, ready: Callable[[], bool]) -> FastAPI:
    """Return the application; jobs are judged when `ready`, conversion does not wait for it."""
    app = FastAPI(title="gang-extender webhooks", docs_url=None, redoc_url=None)

    def judged(verdict: Callable[[reviews.Request, Kinds, Queues], Verdict]) -> Answer:
        def answer(review: Mapping[str, Any]) -> Mapping[str, Any]:
            request = reviews.read(review)
            return reviews.answer(request, verdict(request, kinds, queues))

        return answer

    for path, answer, summary in (
        ("/mutate-job", judged(jobs.mutate), "Hold new jobs of a queue"),
        ("/validate-job", judged(jobs.validate), "Refuse what is wrong with a job's queue"),
    ):
        route = _route(answer, limit=_LARGEST_REVIEW, ready=ready, deep=_too_deep)
        app.add_api_route(path, route, methods=["POST"], summary=summary, response_class=Response)
    app.add_api_route(
        "/convert",
        _route(_converted, limit=_LARGEST_CONVERSION, ready=lambda: True, deep=_converted),
        methods=["POST"],
        summary="Say objects in the words of another version",
        response_class=Response,
    )
    return app


def _converted(review: Mapping[str, Any]) -> Mapping[str, Any]:
    if review.get("kind") != "ConversionReview" or not isinstance(review.get("request"), dict):
        raise ValueError("should be a ConversionReview with a request")
    return conversion.review(review)


def _route(
    answer: Answer, *, limit: int, ready: Callable[[], bool], deep: Answer
) -> Callable[[Request], Awaitable[Response]]:
    async def route(request: Request) -> Response:
        if not ready():
            return Response("the queues are not known yet\n", 503, media_type="text/plain")
        try:
            return Response(_answered(await _body(request, limit), answer, deep), media_type=_JSON)
        except TooLargeError as error:
            return Response(f"{error}\n", 413, media_type="text/plain")
        except ValueError as error:  # msgspec's are of this kind too
            return Response(f"{error}\n", 400, media_type="text/plain")
        except Exception as error:  # noqa: BLE001 - a bug, which costs this one request
            FAULTS.report("webhooks", error, key=request.url.path)
            return Response("internal error, see the log\n", 500, media_type="text/plain")

    return route


def _answered(body: bytes, answer: Answer, deep: Answer) -> bytes:
    """Return what is answered to a review, or `deep` to one of an object that is nested deeply.

    Raises ValueError where it is no review.
    """
    try:
        return _encode(answer(_decode(body)))
    except RecursionError:
        with deep_stack():
            return _encode(deep(_decode(body)))


def _too_deep(review: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuse a new job that cannot be read; one that is there already must still be ended."""
    request = reviews.read(review)
    verdict = Verdict((_TOO_DEEP,)) if request.operation == "CREATE" else Verdict()
    return reviews.answer(request, verdict)


async def _body(request: Request, limit: int) -> bytes:
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise TooLargeError(f"the body is over the limit of {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)
