"""The door lets in those whom the API server knows, and says what they may see."""

import asyncio
from collections.abc import AsyncIterator, Collection, MutableMapping
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI, Request, WebSocket
from nicegui import Client
from typing_extensions import override

from extender.kube.reviews import Access, User
from extender.server.access import Guard
from gang_tools.page.access import Door, Viewer, viewer_of
from tests.makers import ManualClock
from tests.unit.server import test_access

ALL = Access("kueue.x-k8s.io", "workloads", verb="list")
ONE = Access("kueue.x-k8s.io", "workloads", namespace="a", verb="list")
SCOPE_OF_ANN = {"type": "http", "viewer": Viewer("ann"), "headers": []}
BEARER = {"Authorization": "Bearer good"}


class Server(test_access.Server):
    """Knows one user for as long as `knows`, and counts how many ask at once."""

    def __init__(self, *allowed: Access) -> None:
        super().__init__(*allowed)
        self.knows, self.most, self._now = True, 0, 0

    @override
    async def user(self, token: str) -> User | None:
        return await super().user(token) if self.knows else None

    @override
    async def may(self, user: User, access: Access) -> bool:
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            await asyncio.sleep(0)
            return await super().may(user, access)
        finally:
            self._now -= 1


def door(
    server: Server,
    clock: ManualClock | None = None,
    shown: Collection[str] | None = ("a/one", "a/two", "b/one"),
) -> Door:
    """Return the door of a page that names the person, and echoes over a websocket."""
    app = FastAPI()

    @app.get("/queues")
    def queues(request: Request) -> dict[str, object]:
        viewer = viewer_of(request)
        seen = None if viewer.namespaces is None else sorted(viewer.namespaces)
        return {"name": viewer.name, "sees": seen}

    @app.get("/prefix")
    def prefix(request: Request) -> str:
        return request.headers.get("x-forwarded-prefix", "none")

    @app.get("/readyz")
    def ready() -> str:
        return "ok"

    @app.websocket("/_nicegui_ws/socket.io/")
    async def live(socket: WebSocket) -> None:
        await socket.accept()
        async for asked in socket.iter_text():
            await socket.send_text(asked)

    return Door(app, Guard(server), lambda: shown, clock=clock or ManualClock())


def client(*allowed: Access, server: Server | None = None) -> httpx.AsyncClient:
    """Return a browser without scripts."""
    transport = httpx.ASGITransport(door(server or Server(*allowed)))
    return httpx.AsyncClient(transport=transport, base_url="http://page")


class Socket:
    """A live connection of a page."""

    def __init__(
        self,
        to: Door,
        page: str = "gone",
        header: tuple[str, str] = ("authorization", "Bearer good"),
    ) -> None:
        self._asks = asyncio.Queue[MutableMapping[str, Any]]()
        self._gets = asyncio.Queue[MutableMapping[str, Any]]()
        self._asks.put_nowait({"type": "websocket.connect"})
        scope = {
            "type": "websocket", "path": "/_nicegui_ws/socket.io/", "scheme": "ws",
            "query_string": f"client_id={page}".encode(),
            "headers": [(header[0].encode(), header[1].encode())],
        }  # fmt: skip
        self.task = asyncio.ensure_future(to(scope, self._asks.get, self._gets.put))

    def end(self) -> None:
        """Close it, as a browser does."""
        self._asks.put_nowait({"type": "websocket.disconnect", "code": 1001})

    async def got(self, text: str = "") -> object:
        """Return what the next message is, after a question where there is one."""
        if text:
            self._asks.put_nowait({"type": "websocket.receive", "text": text})
        message = await self._gets.get()
        return message.get("text") or message.get("code") or message["type"]


@pytest.mark.parametrize(("allowed", "sees"), [((ALL,), None), ((ONE,), ["a"])], ids=["all", "one"])
async def test_a_person_sees_the_namespaces_whose_workloads_it_may_list(
    allowed: tuple[Access, ...], sees: list[str] | None
) -> None:
    async with client(*allowed) as page:
        answer = await page.get("/queues", headers=BEARER)
    assert answer.json() == {"name": "ann", "sees": sees}


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer bad"}, {"Cookie": "x=\x7f;;"}])
async def test_others_are_sent_to_the_form(headers: dict[str, str]) -> None:
    async with client(ALL) as page:
        answer = await page.get("/queues", headers=headers)
        wanted = await page.get("/workload/a/b?x=1&y=%2F", headers=headers)
        script = await page.get("/_nicegui/script.js", headers=headers)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/queues")
    assert parse_qs(urlsplit(wanted.headers["location"]).query) == {
        "next": ["/workload/a/b?x=1&y=%2F"]
    }
    assert script.status_code == 403  # a script that is sent to the form would go there


async def test_who_may_see_nothing_is_told_which_right_is_missing() -> None:
    async with client() as page:
        answer = await page.get("/queues", headers=BEARER)
    assert (answer.status_code, "ann may not list Workloads" in answer.text) == (403, True)


async def test_of_namespaces_with_nothing_to_show_nobody_is_asked() -> None:
    server = Server(ONE)
    async with client(server=server) as page:
        await page.get("/queues", headers=BEARER)
    namespaces = [each.namespace for each in server.asked if isinstance(each, Access)]
    assert sorted(namespaces) == ["", "a", "b"]


async def test_a_person_has_no_more_than_some_pages_and_live_connections() -> None:
    opened = door(Server(ALL))
    pages = [f"page-{number}" for number in range(30)]
    of_ann = cast("Client", type("Page", (), {"request": Request(SCOPE_OF_ANN)})())
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(opened), base_url="http://page", headers=BEARER
    ) as browser:
        Client.instances.update(dict.fromkeys(pages, of_ann))
        try:
            assert (await browser.get("/queues")).status_code == 429
            assert (await browser.get("/_nicegui/script.js")).status_code == 404
            del Client.instances[pages.pop()]
            assert (await browser.get("/queues")).status_code == 200
        finally:
            for name in pages:
                del Client.instances[name]
    sockets = [Socket(opened) for _ in range(30)]
    assert [await each.got() for each in sockets] == ["websocket.accept"] * 30
    assert await Socket(opened).got() == 1008
    sockets[0].end()
    await sockets[0].task
    again = Socket(opened)
    assert await again.got() == "websocket.accept"
    for each in (*sockets, again):
        each.task.cancel()


async def test_no_header_says_from_where_scripts_come() -> None:
    async with client(ALL) as page:
        prefix = {"X-Forwarded-Prefix": "https://evil.example"}
        answer = await page.get("/prefix", headers={**BEARER, **prefix})
    assert answer.json() == "none"


async def test_the_form_takes_a_token_that_the_api_server_knows() -> None:
    async with client(ONE) as page:
        form = await page.get("/login", params={"next": '/x"<'})
        assert 'name="next" value="/x&quot;&lt;"' in form.text
        wrong = await page.post("/login", data={"token": "bad"})
        assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
        right = await page.post("/login", data={"token": " good "})
        assert right.status_code == 303
        assert "httponly; path=/; samesite=lax" in right.headers["set-cookie"].lower()
        assert (await page.get("/queues")).json()["sees"] == ["a"]


@pytest.mark.parametrize("path", ["/login", "/_nicegui/client/1/upload/2"])
async def test_of_a_body_that_is_too_long_or_has_no_length_nothing_is_read(path: str) -> None:
    read = list[int]()

    async def chunks() -> AsyncIterator[bytes]:
        read.append(1)
        yield b"x"

    async with client(ALL) as page:
        whole = [await page.post(path, content=b"x" * n, headers=BEARER) for n in (100, 200_000)]
        cut = await page.post(path, content=chunks(), headers=BEARER)
    assert whole[0].status_code in {200, 404}
    assert [whole[1].status_code, cut.status_code, read] == [413, 413, []]


@pytest.mark.parametrize(
    ("wanted", "leads"),
    [
        ("/workload/a/b?x=1", "/workload/a/b?x=1"),
        ("//evil.example", "/queues"),
        ("https://evil.example", "/queues"),
        ("/\\evil.example", "/%5Cevil.example"),
        ("/\t/evil.example", "/%09/evil.example"),
    ],
)
async def test_the_form_leads_to_the_wanted_page_and_to_no_other_host(
    wanted: str, leads: str
) -> None:
    async with client(ALL) as page:
        answer = await page.post("/login", data={"token": "good", "next": wanted})
    assert answer.headers["location"] == leads


async def test_a_session_ends_with_a_form_but_no_look_and_its_cookie_is_not_the_token() -> None:
    proxies = {"X-Forwarded-Proto": "https, http"}
    async with client(ALL) as page:
        await page.post("/login", data={"token": "good"}, headers=proxies)
        [cookie] = page.cookies.jar
        assert (cookie.secure, "good" in (cookie.value or "")) == (True, False)
        session = {"Cookie": f"{cookie.name}={cookie.value}"}
        page.cookies.clear()
        assert (await page.get("/queues", headers=session)).status_code == 200
        await page.get("/login", headers=session)
        assert (await page.get("/queues", headers=session)).status_code == 200
        assert (await page.post("/login", headers=session)).status_code == 200
        assert (await page.get("/queues", headers=session)).status_code == 303


@pytest.mark.parametrize("end", ["form", "time"])
async def test_a_live_connection_ends_with_its_session(end: str) -> None:
    clock = ManualClock()
    opened = door(Server(ALL), clock)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(opened), base_url="http://page"
    ) as page:
        await page.post("/login", data={"token": "good"})
        [cookie] = page.cookies.jar
        socket = Socket(opened, header=("cookie", f"{cookie.name}={cookie.value}"))
        await socket.got()
        assert await socket.got("secret") == "secret"
        if end == "form":
            await page.post("/login")
        else:
            clock.now += 13 * 3600
    assert await socket.got("secret") == 1008
    socket.task.cancel()


@pytest.mark.parametrize("what", ["token", "right"])
async def test_a_live_connection_ends_with_the_token_and_with_the_right(what: str) -> None:
    server, clock = Server(ONE), ManualClock()
    socket = Socket(door(server, clock))
    assert await socket.got() == "websocket.accept"
    assert await socket.got("secret") == "secret"
    if what == "token":
        server.knows = False
    else:
        server.allowed = set()
    assert await socket.got("secret") == "secret"  # an answer counts for a minute
    clock.now += 61
    assert await socket.got("secret") == 1008
    socket.task.cancel()


async def test_a_live_connection_ends_where_the_api_server_does_not_say() -> None:
    server, clock = Server(ONE), ManualClock()
    socket = Socket(door(server, clock))
    await socket.got()
    server.away = True
    clock.now += 61
    assert await socket.got("secret") == 1013
    socket.task.cancel()


async def test_nobody_takes_up_the_page_of_another_person_or_of_other_rights() -> None:
    scope = {"type": "http", "viewer": Viewer("bob"), "headers": []}
    page = cast("Client", type("Page", (), {"request": Request(scope)})())
    Client.instances["of-bob"] = page
    try:
        taken = Socket(door(Server(ALL)), page="of-bob")
        assert await taken.got() == 1008
        scope["viewer"] = Viewer("ann")
        own = Socket(door(Server(ALL)), page="of-bob")
        assert await own.got() == "websocket.accept"
        own.task.cancel()
    finally:
        del Client.instances["of-bob"]
    assert await Socket(door(Server(ALL)), page="").got() == 1008
    async with client(ALL) as polling:
        path = f"/_nicegui_ws/socket.io/?client_id={uuid4()}"
        assert (await polling.get(path, headers=BEARER)).status_code == 403


async def test_nothing_is_shown_or_asked_before_all_is_listed() -> None:
    server = Server(ALL)
    loading = httpx.ASGITransport(door(server, shown=None))
    async with httpx.AsyncClient(transport=loading, base_url="http://page") as page:
        answer = await page.get("/queues", headers=BEARER)
        assert (answer.status_code, "refresh" in answer.text) == (503, True)
        assert (await page.get("/readyz")).status_code == 200
    assert server.asked == []


async def test_those_who_ask_at_once_wait_for_one_answer_of_a_few_reviews_at_once() -> None:
    server = Server(ONE)
    names = [f"n{number}/one" for number in range(300)]
    many = httpx.ASGITransport(door(server, shown=["a/one", *names]))
    async with httpx.AsyncClient(transport=many, base_url="http://page") as page:
        got = await asyncio.gather(*(page.get("/queues", headers=BEARER) for _ in range(6)))
    assert [each.json()["sees"] for each in got] == [["a"]] * 6
    assert len(server.asked) == 303  # the token, everything, and each namespace
    assert 1 < server.most <= 8


async def test_tokens_that_no_authority_issues_are_neither_asked_about_nor_kept() -> None:
    server = Server(ALL)
    guarded = door(server)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(guarded), base_url="http://page"
    ) as page:
        for number in range(3):
            long = f"Bearer {number}{'x' * 16 * 1024}"
            assert (await page.get("/queues", headers={"Authorization": long})).status_code == 303
        await page.get("/queues", headers={"Authorization": f"Bearer {'y' * 16_000}"})
    assert len(server.asked) == 1
    assert [len(key) for key in guarded._known] == [32]


async def test_the_api_server_is_asked_once_a_minute_and_health_asks_nothing() -> None:
    server = Server(ALL)
    async with client(server=server) as page:
        for _ in range(3):
            assert (await page.get("/queues", headers=BEARER)).status_code == 200
        assert len(server.asked) == 2  # whose token it is, and what that person may
        server.away = True
        assert (await page.get("/readyz")).status_code == 200
        away = await page.get("/queues", headers={"Authorization": "Bearer other"})
        assert away.status_code == 503
