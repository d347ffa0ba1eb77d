"""Authenticates the people who open the page, and finds the namespaces that each may see.

On loopback everyone on the machine sees all. Elsewhere a request has a bearer token, which an
authenticating proxy adds, or the cookie of a session, which `/login` begins with one. The API
server says whose it is, and of which namespaces that person may list the workloads.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from http import HTTPStatus
from secrets import token_urlsafe
from typing import Final
from urllib.parse import parse_qs, quote

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
from gang_tools.page.looks import template

_COOKIE: Final = "gang-extender-session"
_HEALTH: Final = ("/livez", "/readyz")
_LONGEST_TOKEN: Final = 16 * 1024
_LONGEST_BODY: Final = 128 * 1024
"""The longest form or file that is read: NiceGUI would write any file to the disk."""
_REVIEW_SECONDS: Final = 60.0
_SESSION_SECONDS: Final = 12 * 3600.0
_AT_ONCE: Final = 8
"""The largest number of concurrent reviews for all people together."""
_MOST_PAGES: Final = 30
"""The largest number of pages, and of live connections, that one person may have open."""
_MAY_NOT: Final = (
    "{} may not list Workloads (kueue.x-k8s.io) in any namespace that has a LocalQueue, a "
    "Workload or a gang"
)


@dataclass(frozen=True, slots=True)
class Viewer:
    """A person who looks at the page."""

    name: str = ""
    namespaces: frozenset[str] | None = None
    """The namespaces that this person may see; None: all."""

    def sees(self, namespace: str) -> bool:
        """Return whether this person may see a namespace."""
        return self.namespaces is None or namespace in self.namespaces


def viewer_of(request: Request) -> Viewer:
    """Return the person who sent a request: the door has let it in."""
    found = request.scope.get("viewer")
    return found if isinstance(found, Viewer) else Viewer(namespaces=frozenset())


class Door:
    """Admits people whom the API server authenticates; without a guard it admits everyone.

    An answer of the API server counts for a minute, for a page that is open too.
    """

    def __init__(
        self,
        app: ASGIApp,
        guard: Guard | None,
        shown: Callable[[], Iterable[str] | None],
        *,
        clock: Clock,
    ) -> None:
        """Guard an application that shows objects, `namespace/name`: None while that is unknown."""
        self._app, self._guard, self._shown = app, guard, shown
        self._namespaces = set[str]()
        """The namespaces that have had something to show; no others are reviewed."""
        self._live = Counter[str]()
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
        # NiceGUI puts this one before the address of each script, whoever sends it.
        headers = [each for each in scope["headers"] if each[0] != b"x-forwarded-prefix"]
        scope, said = {**scope, "headers": headers}, dict(headers)
        if self._shown() is None:
            await _refuse(_html("loading.html", 503), scope, send)
        # Too long, or of a length that nobody knows.
        elif b"transfer-encoding" in said or int(said.get(b"content-length", 0)) > _LONGEST_BODY:
            await _refuse(PlainTextResponse("that is too long", 413), scope, send)
        elif self._guard is not None and (scope["type"], scope["path"]) == ("http", "/login"):
            await (await self._login(Request(scope, receive)))(scope, receive, send)
        else:
            await self._let_in(scope, receive, send)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        viewer: Viewer | None = Viewer()
        if self._guard is not None:
            try:
                viewer = await self._viewer(self._token(HTTPConnection(scope)))
            except StatusError as error:
                await _refuse(PlainTextResponse(str(error), error.status.code), scope, send)
                return
        refused = self._refusal(viewer, scope)
        if viewer is None or refused is not None:
            await _refuse(refused, scope, send)
            return
        scope = {**scope, "viewer": viewer}
        if scope["type"] == "http":
            await self._app(scope, receive, send)
            return
        self._live[viewer.name] += 1
        try:
            await self._app(scope, receive, self._checked(scope, send))
        finally:
            self._live -= Counter([viewer.name])  # keeps no zeros

    def _refusal(self, viewer: Viewer | None, scope: Scope) -> Response | None:
        """Return the response that refuses a request, or None if it is allowed."""
        of_page = scope["path"].startswith("/_nicegui")
        if viewer is None and not of_page:
            query = scope["query_string"].decode(errors="replace")
            path = quote(scope["path"]) + (f"?{query}" if query else "")
            return RedirectResponse(f"/login?next={quote(path)}", 303)
        # A script would follow a redirection.
        if viewer is None or not _is_of(viewer, scope):
            return PlainTextResponse("sign in", 403)
        if viewer.namespaces is not None and not viewer.namespaces:
            return PlainTextResponse(_MAY_NOT.format(viewer.name), 403)
        pages = (viewer_of(page.request).name == viewer.name for page in Client.instances.values())
        there = sum(pages) if not of_page else self._live[viewer.name] * (scope["type"] != "http")
        return PlainTextResponse("too many open pages", 429) if there >= _MOST_PAGES else None

    def _checked(self, scope: Scope, send: Send) -> Send:
        """Return a `send` that closes the websocket once the session or its rights have ended."""
        ended = False

        async def checked(message: Message) -> None:
            nonlocal ended
            if ended:
                return
            if message["type"] == "websocket.send" and self._guard is not None:
                try:
                    token = self._token(HTTPConnection(scope))
                    ended, code = await self._viewer(token) != scope["viewer"], 1008
                except StatusError:
                    ended, code = True, 1013  # try again later
                if ended:
                    message = {"type": "websocket.close", "code": code}
            await send(message)

        return checked

    async def _viewer(self, token: str) -> Viewer | None:
        """Return the person of a token; None where that is nobody. Raises StatusError."""
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
        self._namespaces.update(each.partition("/")[0] for each in self._shown() or ())
        try:
            async with asyncio.TaskGroup() as tasks:
                names = self._namespaces
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
        """Show the form, or end the session and begin another with the token of the form."""
        if request.method != "POST":
            return _html("login.html", to=request.query_params.get("next", ""))
        form = parse_qs((await request.body()).decode(errors="replace"))
        self._sessions.pop(request.cookies.get(_COOKIE, ""), None)
        token, to = (form.get(name, [""])[0].strip() for name in ("token", "next"))
        try:
            known = await self._viewer(token)
        except StatusError as error:
            return _html("login.html", error.status.code, str(error), to=to)
        if known is None:
            why = "The API server does not accept this token." if token else ""
            return _html("login.html", 401 if token else 200, why, to=to)
        to = to if to.startswith("/") and not to.startswith("//") else "/queues"
        answer = RedirectResponse(to, 303)
        session = token_urlsafe()
        self._sessions[session] = token
        schemes = request.url.scheme, request.headers.get("x-forwarded-proto", "")[:5]
        secure = "https" in schemes  # or a proxy ends TLS
        # A link from elsewhere finds the session; a form there does not, and no GET changes it.
        answer.set_cookie(_COOKIE, session, httponly=True, samesite="lax", secure=secure)
        return answer

    def _token(self, request: HTTPConnection) -> str:
        """Return the bearer token of a request: of its header, else of its session."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
        return self._sessions.get(request.cookies.get(_COOKIE, ""), "")


def _html(name: str, code: int = 200, why: str = "", *, to: str = "") -> Response:
    text = template(name)
    return HTMLResponse(text.replace("NEXT", escape(to)).replace("WHY", escape(why)), code)


def _is_of(viewer: Viewer, scope: Scope) -> bool:
    """Return whether a live connection is of the person, and the rights, of its page."""
    if not scope["path"].startswith("/_nicegui_ws/"):
        return True
    if scope["type"] == "http":
        return False  # long polls, whose answers nobody checks
    name = parse_qs(scope["query_string"].decode(errors="replace")).get("client_id", [""])[0]
    page = Client.instances.get(name)
    return bool(name) and (page is None or viewer_of(page.request) == viewer)


async def _refuse(response: Response | None, scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket" or response is None:
        await send({"type": "websocket.close", "code": 1008, "reason": ""})
        return

    async def nothing() -> dict[str, str]:
        return {"type": "http.disconnect"}

    await response(scope, nothing, send)
