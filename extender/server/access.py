"""Access to the endpoints for users with a bearer token, limits for expensive requests, and errors.

The API server says which user a token names, and what that user may do. Errors have the API
server's form, a `Status` with the code of the answer.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError

from extender.api.explanations import Status
from extender.kube.errors import ApiError
from extender.kube.reviews import Access, Reviews, User

_UNKNOWN: Final = {"WWW-Authenticate": "Bearer"}

Responses = dict[int | str, dict[str, Any]]
"""The answers of a route by status, for the OpenAPI document."""
T = TypeVar("T")


ERRORS: Final[Responses] = {"default": {"model": Status, "description": "Why there is no answer"}}


class StatusError(Exception):
    """The answer is a Status with this code; `headers` go with it."""

    def __init__(
        self, code: int, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = _status(code, message)
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
    return _answer(_status(400, words), {})


def _status(code: int, message: str) -> Status:
    """Return a Status with the API server's word for the code, such as `NotFound`."""
    reason = HTTPStatus(code).phrase.replace(" ", "")
    return Status(message=message, reason=reason, code=code)


def _answer(status: Status, headers: Mapping[str, str]) -> Response:
    body = status.model_dump_json(by_alias=True)
    return Response(body, status.code, headers=dict(headers), media_type="application/json")


class Turnstile:
    """Serves requests one after the other, and refuses those beyond the limits at once."""

    def __init__(self, *, at_once: int = 1, most: int = 16, each: int = 4) -> None:
        """Serve `at_once` requests; `most` may be here, and `each` of one named caller."""
        self._slots = asyncio.Semaphore(at_once)
        self._most = most
        self._each = each
        self._here: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, caller: str = "") -> AsyncIterator[None]:
        """Wait for a turn; raises StatusError 429 where too many wait already."""
        if self._here.total() >= self._most or (caller and self._here[caller] >= self._each):
            raise StatusError(
                429,
                "too many requests are being answered, try again later",
                headers={"Retry-After": "1"},
            )
        self._here[caller] += 1
        try:
            async with self._slots:
                yield
        finally:
            self._here[caller] -= 1
            if not self._here[caller]:
                del self._here[caller]


class Guard:
    """Lets a user read what the API server allows."""

    def __init__(self, reviewer: Reviews) -> None:
        self._reviewer = reviewer
        self._turnstile = Turnstile(at_once=16, most=256)

    async def check(self, request: Request, access: Access) -> User:
        """Return the calling user. Raises StatusError: 401, 403, 429, or 503: not known."""
        user = await self.user(request)
        if not await self.may(user, access):
            raise StatusError(403, _forbidden(user, access))
        return user

    async def user(self, request: Request) -> User:
        """Return the calling user. Raises StatusError."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise StatusError(401, "a bearer token is required", headers=_UNKNOWN)
        too_long = len(token) > 16 * 1024  # no authority issues such tokens
        user = await self._review(partial(self._reviewer.user, token)) if not too_long else None
        if user is None:
            raise StatusError(401, "the bearer token is not valid", headers=_UNKNOWN)
        return user

    async def may(self, user: User, access: Access) -> bool:
        """Return whether a user may do something. Raises StatusError."""
        return await self._review(partial(self._reviewer.may, user, access))

    async def _review(self, ask: Callable[[], Awaitable[T]]) -> T:
        async with self._turnstile.turn():
            try:
                return await ask()
            except ApiError as error:
                why = f"the API server does not say whether this user may read: {error}"
                raise StatusError(503, why) from error


def _forbidden(user: User, access: Access) -> str:
    """Return the message of the API server for a request that it forbids."""
    if access.path:
        return f'forbidden: User "{user.name}" cannot {access.verb} path "{access.path}"'
    resource = access.resource.partition("/")[0]
    where = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    return (
        f'{resource}.{access.group} "{access.name}" is forbidden: User "{user.name}" cannot '
        f'{access.verb} resource "{access.resource}" in API group "{access.group}" {where}'
    )
