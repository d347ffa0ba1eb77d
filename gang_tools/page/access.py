"""Who looks, and what that person may see.

On loopback everyone on the machine sees all. Elsewhere a request has a bearer token, which an
authenticating proxy adds, or the cookie of a session, which `/login` begins with one. The API
server says whose it is, and of which namespaces that person may list the workloads.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from http import HTTPStatus
from pathlib import Path
from secrets import token_urlsafe
from typing import Final
from urllib.parse import parse_qs

from cachetools import TTLCache
from fastapi import Request
from nicegui import Client
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from extender.api.wellknown import QUEUE_GROUP
from extender.kube.reviews import Access, User
from extender.runtime.clock import Clock
from extender.server.access import Guard, StatusError

_COOKIE: Final = "gang-extender-session"
_HEALTH: Final = ("/livez", "/readyz")
_LONGEST_TOKEN: Final = 16 * 1024
_LONGEST_FORM: Final = 4 * _LONGEST_TOKEN
_REVIEW_SECONDS: Final = 60.0
_SESSION_SECONDS: Final = 12 * 3600.0
_AT_ONCE: Final = 8
"""The most reviews at once, of all who look."""
STATIC: Final = Path(__file__).parent / "static"
"""What the browser reads."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """A person who looks."""

    name: str = ""
    namespaces: frozenset[str] | None = None
    """The namespaces that it may see; None: all."""

    def sees(self, namespace: str) -> bool:
        """Return whether it may see what is in a namespace."""
        return self.namespaces is None or namespace in self.namespaces


def viewer_of(request: Request) -> Viewer:
    """Return who sent a request: the door has let it in."""
    found = request.scope.get("viewer")
    return found if isinstance(found, Viewer) else Viewer(namespaces=frozenset())


class Door:
    """Lets in those whom the API server knows, to pages and to live updates; all without a guard.

    An answer of the API server counts for a minute, for a page that is open too.
    """

    def __init__(
        self,
        app: ASGIApp,
        guard: Guard | None,
        namespaces: Callable[[], Collection[str] | None],
        *,
        clock: Clock,
    ) -> None:
        """Guard an application; `namespaces` are all that there are, None while it is not known."""
        self._app, self._guard, self._namespaces = app, guard, namespaces
        self._known: TTLCache[bytes, asyncio.Task[Viewer | None]] = TTLCache(
            4096, _REVIEW_SECONDS, clock.monotonic
        )
        self._sessions: TTLCache[str, str] = TTLCache(4096, _SESSION_SECONDS, clock.monotonic)
        """The tokens that were given to `/login`: a cookie goes to other ports of its host, too."""
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] not in ("http", "websocket") or scope["path"] in _HEALTH:
            await self._app(scope, receive, send)
            return
        if self._namespaces() is None:
            await _refuse(_html("loading.html", 503), scope, send)
            return
        if self._guard is None:
            await self._app({**scope, "viewer": Viewer()}, receive, send)
            return
        if scope["path"] == "/login" and scope["type"] == "http":
            answer = await self._login(Request(scope, receive))
            await answer(scope, receive, send)
            return
        token = self._token(HTTPConnection(scope))
        try:
            viewer = await self._viewer(token)
        except StatusError as error:
            await _refuse(PlainTextResponse(str(error), error.status.code), scope, send)
            return
        if viewer is None or not _is_of(viewer, scope):
            await _refuse(RedirectResponse("/login", 303), scope, send)
            return
        if scope["type"] == "websocket":
            send = self._checked(send, token, viewer)
        await self._app({**scope, "viewer": viewer}, receive, send)

    def _checked(self, send: Send, token: str, viewer: Viewer) -> Send:
        """Return what sends for as long as the token is good, and its rights are the same."""
        ended = False

        async def checked(message: Message) -> None:
            nonlocal ended
            if ended:
                return
            if message["type"] == "websocket.send":
                try:
                    ended = await self._viewer(token) != viewer
                    code = 1008
                except StatusError:
                    ended, code = True, 1013  # try again later
                if ended:
                    message = {"type": "websocket.close", "code": code}
            await send(message)

        return checked

    async def _viewer(self, token: str) -> Viewer | None:
        """Return whose a token is; None where that is nobody. Raises StatusError."""
        if not token or len(token) > _LONGEST_TOKEN:
            return None
        key = sha256(token.encode(errors="replace")).digest()
        asked = self._known.get(key)
        if asked is None:
            asked = self._known[key] = asyncio.ensure_future(self._ask(token))
        try:
            return await asyncio.shield(asked)  # others wait for the same answer
        except Exception:
            if self._known.get(key) is asked:
                del self._known[key]
            raise

    async def _ask(self, token: str) -> Viewer | None:
        assert self._guard is not None
        header = (b"authorization", b"Bearer " + token.encode(errors="replace"))
        try:
            user = await self._guard.user(Request({"type": "http", "headers": [header]}))
        except StatusError as error:
            if error.status.code != HTTPStatus.UNAUTHORIZED:
                raise
            return None
        if await self._may_list(user, ""):
            return Viewer(user.name)
        try:
            async with asyncio.TaskGroup() as tasks:
                names = self._namespaces() or ()
                may = {name: tasks.create_task(self._may_list(user, name)) for name in names}
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return Viewer(user.name, frozenset(name for name, asked in may.items() if asked.result()))

    async def _may_list(self, user: User, namespace: str) -> bool:
        assert self._guard is not None
        access = Access(QUEUE_GROUP, "workloads", namespace=namespace, verb="list")
        async with self._turns:
            return await self._guard.may(user, access)

    async def _login(self, request: Request) -> Response:
        """Show the form, which ends the session, or take the token out of it."""
        if request.method != "POST":
            self._sessions.pop(request.cookies.get(_COOKIE, ""), None)
            return _html("login.html")
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _LONGEST_FORM:
                return PlainTextResponse("that is too long", 413)
        token = next(iter(parse_qs(body.decode(errors="replace")).get("token", ())), "").strip()
        try:
            known = await self._viewer(token)
        except StatusError as error:
            return _html("login.html", error.status.code, str(error))
        if known is None:
            return _html("login.html", 401, "The API server does not know it.")
        answer = RedirectResponse("/queues", 303)
        session = token_urlsafe()
        self._sessions[session] = token
        schemes = request.url.scheme, request.headers.get("x-forwarded-proto")
        secure = "https" in schemes  # or a proxy ends TLS
        answer.set_cookie(_COOKIE, session, httponly=True, samesite="strict", secure=secure)
        return answer

    def _token(self, request: HTTPConnection) -> str:
        """Return the bearer token of a request: of its header, else of its session."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
        return self._sessions.get(request.cookies.get(_COOKIE, ""), "")


def _html(name: str, code: int = 200, why: str = "") -> Response:
    return HTMLResponse((STATIC / name).read_text().replace("WHY", escape(why)), code)


def _is_of(viewer: Viewer, scope: Scope) -> bool:
    """Return whether a live connection is of the person, and the rights, of its page."""
    if not scope["path"].startswith("/_nicegui_ws/"):
        return True
    if scope["type"] == "http":
        return False  # long polls, whose answers nobody checks
    name = parse_qs(scope["query_string"].decode(errors="replace")).get("client_id", [""])[0]
    page = Client.instances.get(name)
    return bool(name) and (page is None or viewer_of(page.request) == viewer)


async def _refuse(response: Response, scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": ""})
        return

    async def nothing() -> dict[str, str]:
        return {"type": "http.disconnect"}

    await response(scope, nothing, send)
