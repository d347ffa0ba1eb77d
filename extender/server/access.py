"""Access to the endpoints: a bearer token names the user, the API server checks the user's rights.

Reviews are remembered for some seconds, as aggregated API servers do, so that a dashboard does not
cost the API server two requests each time; a right that is taken away counts after that time.
"""

from hashlib import sha256
from typing import Final, Protocol

from cachetools import TTLCache
from fastapi import Request

from extender.kube.errors import ApiError
from extender.kube.reviews import Access, User
from extender.runtime.clock import Clock
from extender.server.status import StatusError
from extender.server.turnstile import Turnstile

REMEMBERED_SECONDS: Final = 10.0
_REMEMBERED: Final = 1024
"""Tokens, and rights, that are remembered at most."""
_REVIEWS: Final = 16
"""Reviews at once; more callers are asked to come later."""
_WAITING: Final = 256
_LONGEST_TOKEN: Final = 16 * 1024
"""Characters; a longer one is no token."""
_UNASKED: Final = User("")
_UNKNOWN: Final = {"WWW-Authenticate": "Bearer"}


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
        self._reviews = Turnstile(at_once=_REVIEWS, most=_WAITING)

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
        user = await self._user(token) if len(token) <= _LONGEST_TOKEN else None
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
