"""Errors in the API server's form: a `Status` with the code of the answer."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError

from extender.api.visibility_v1beta2 import Status

_REASONS: Final[Mapping[int, str]] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}

REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    401: {"model": Status, "description": "The bearer token is missing or not valid."},
    403: {"model": Status, "description": "The user may not get this."},
    429: {"model": Status, "description": "Too many requests; Retry-After says when to come."},
    503: {"model": Status, "description": "The user's rights are not known."},
}
"""Answers to a user who may not read, for the OpenAPI document."""


class StatusError(Exception):
    """The answer is a Status with this code; `headers` go with it."""

    def __init__(
        self, code: int, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = Status(message=message, reason=_REASONS[code], code=code)
        self.headers = dict(headers or {})


def add_statuses(app: FastAPI) -> None:
    """Answer with a Status where a handler raises StatusError, or a parameter is wrong."""
    app.add_exception_handler(StatusError, _as_status)
    app.add_exception_handler(RequestValidationError, _as_bad_request)


async def _as_status(_: Request, error: Exception) -> Response:
    assert isinstance(error, StatusError)
    return _answer(error.status, error.headers)


async def _as_bad_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    words = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors())
    return _answer(Status(message=words, reason=_REASONS[400], code=400), {})


def _answer(status: Status, headers: Mapping[str, str]) -> Response:
    body = status.model_dump_json(by_alias=True)
    return Response(body, status.code, headers=dict(headers), media_type="application/json")
