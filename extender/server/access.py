"""Access to the endpoints for users with a bearer token, limits for expensive requests, and errors.

The API server says which user a token names, and what that user may do. Its answers are remembered
for some seconds, as aggregated API servers do, so that a dashboard does not cost the API server two
requests each time. A right that is taken away counts after that time. Errors have the API server's
form, a `Status` with the code of the answer.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any, Final, Protocol

from cachetools import TTLCache
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError

from extender.api.explanations import Status
from extender.kube.errors import ApiError
from extender.kube.reviews import Access, User
from extender.runtime.clock import Clock

REMEMBERED_SECONDS: Final = 10.0
_REMEMBERED: Final = 1024
"""The most tokens, and the most rights, that are remembered."""
_UNASKED: Final = User("")
_UNKNOWN: Final = {"WWW-Authenticate": "Bearer"}

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


class AccessReviewer(Protocol):
    """Knows users and their rights; raises ApiError."""

    async def user(self, token: str) -> User | None:
        """Return the user of a bearer token; None where the API server does not know the token."""

    async def may(self, user: User, access: Access) -> bool:
        """Return whether a user may do something."""


class Guard:
    """Lets a user read what the API server allows."""

    def __init__(self, asked: AccessReviewer, clock: Clock) -> None:
        self._asked = asked
        seconds = REMEMBERED_SECONDS
        self._users: TTLCache[bytes, User | None] = TTLCache(
            _REMEMBERED, seconds, timer=clock.monotonic
        )
        self._rights: TTLCache[tuple[User, Access], bool] = TTLCache(
            _REMEMBERED, seconds, timer=clock.monotonic
        )
        self._reviews = Turnstile(at_once=16, most=256)

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
        user = await self._user(token) if not too_long else None
        if user is None:
            raise StatusError(401, "the bearer token is not valid", headers=_UNKNOWN)
        return user

    async def may(self, user: User, access: Access) -> bool:
        """Return whether a user may do something. Raises StatusError."""
        key = (user, access)
        known = self._rights.get(key)
        if known is None:
            async with self._reviews.turn():
                try:
                    known = await self._asked.may(user, access)
                except ApiError as error:
                    raise _unanswered(error) from error
            self._rights[key] = known
        return known

    async def _user(self, token: str) -> User | None:
        key = sha256(token.encode()).digest()  # a token itself is kept nowhere
        known = self._users.get(key, _UNASKED)
        if known is _UNASKED:
            async with self._reviews.turn():
                try:
                    known = await self._asked.user(token)
                except ApiError as error:
                    raise _unanswered(error) from error
            self._users[key] = known
        return known


def _unanswered(error: ApiError) -> StatusError:
    return StatusError(503, f"the API server does not say whether this user may read: {error}")


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
