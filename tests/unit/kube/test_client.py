"""The client against a scripted server on a loopback address."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from socket import AI_NUMERICHOST
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientSession, web
from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override

from extender.kube.client import KubeClient, _Connector
from extender.kube.credentials import Credentials, Keyring
from extender.kube.errors import (
    ApiError,
    ConfigurationError,
    ConflictError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    SilentError,
    ThrottledError,
    UnauthorizedError,
    UnavailableError,
    UnknownOutcomeError,
)
from extender.kube.lease import LeaseElection, LeaseName, LeaseTimes
from tests.makers import LoopClock

Step = Callable[[web.Request], Awaitable[web.StreamResponse]]
TOO_LARGE = {
    "kind": "Status",
    "message": "Too large resource version: 90, current: 5",
    "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]},
}


def answer(status: int = 200, body: Any = None, **headers: str) -> Step:
    async def step(_: web.Request) -> web.StreamResponse:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response(body or {}, status=status, headers=given)

    return step


async def hang(request: web.Request) -> web.StreamResponse:
    """Answer nothing until the client gives up."""
    await asyncio.Event().wait()  # the server cancels it when the connection goes
    raise AssertionError(request)


async def half(request: web.Request) -> web.StreamResponse:
    """Promise a body and break off in it."""
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b'{"metadata":')
    assert request.transport is not None
    request.transport.close()
    return response


class Server:
    """Takes one step for each request; knows what was asked, with which token."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.asked: list[tuple[str, str]] = []
        self.tokens: list[str | None] = []
        self.good: str | None = None
        """The only token that counts, where one is given."""
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.method, request.path))
        self.tokens.append(request.headers.get("Authorization"))
        if self.good is not None and self.tokens[-1] != self.good:
            return web.json_response({"kind": "Status", "message": "Unauthorized"}, status=401)
        step = self.steps.pop(0) if self.steps else answer()
        return await step(request)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    yield server
    await runner.cleanup()


class Given:
    """Credentials that a test changes."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.now = credentials(url, token)
        self.reads = 0
        self.broken = False
        self.keyring = Keyring(self.now, self.read, clock=LoopClock())

    async def read(self) -> Credentials:
        self.reads += 1
        if self.broken:
            raise ConfigurationError("half written")
        return self.now

    def change(self, token: str) -> None:
        self.now = credentials(self.now.host, token)


def credentials(url: str, token: str | None = None) -> Credentials:
    import ssl

    context = ssl.create_default_context()
    return Credentials(url, context, token, fingerprint=f"{url} {token}".encode())


def client(
    server: Server, given: Given | None = None, *, timeout: float = 5.0, posts: int = 0
) -> KubeClient:
    keyring = (given or Given(server.url)).keyring
    return KubeClient(keyring, timeout=timeout, posts=posts, all_writes=posts == ALL_WRITES)


ALL_WRITES = 8
WAYS = ["by aiohttp", "by connections for Bindings", "by connections for all writes"]


@pytest.fixture(params=[0, 4, ALL_WRITES], ids=WAYS)
def posts(request: pytest.FixtureRequest) -> int:
    """How many connections are for Bindings alone; without any they go as all else."""
    count: int = request.param
    return count


# By what a write and what a read makes of it.
ANSWERS: dict[str, tuple[Step, type[ApiError], type[ApiError]]] = {
    "408": (answer(408), UnknownOutcomeError, UnavailableError),
    "409": (answer(409), ConflictError, ConflictError),
    "410": (answer(410), GoneError, GoneError),
    "403": (answer(403), ForbiddenError, ForbiddenError),
    "401": (answer(401), UnauthorizedError, UnauthorizedError),
    "429 that names no time": (answer(429), ThrottledError, ThrottledError),
    "429 that names too long a time": (
        answer(429, Retry_After="60"),
        ThrottledError,
        ThrottledError,
    ),
    "500": (answer(500), UnknownOutcomeError, UnavailableError),
    "502": (answer(502), UnknownOutcomeError, UnavailableError),
    "503": (answer(503), UnavailableError, UnavailableError),
    "504": (answer(504), UnknownOutcomeError, UnavailableError),
    "504, the version is too large": (answer(504, TOO_LARGE), UnknownOutcomeError, GoneError),
    "a hang": (hang, UnknownOutcomeError, UnavailableError),
    "half an answer": (half, UnknownOutcomeError, UnavailableError),
}


@pytest.mark.parametrize(("step", "write", "read"), ANSWERS.values(), ids=ANSWERS)
async def test_what_an_answer_means(
    step: Step, write: type[ApiError], read: type[ApiError], server: Server, posts: int
) -> None:
    raised = []
    async with client(server, timeout=1.0, posts=posts) as asked:
        for send in (
            lambda: asked.request("POST", "/x", body=b"{}"),
            lambda: asked.post("/x", b"{}"),
            lambda: asked.request("GET", "/x"),
        ):
            server.steps = [step]
            with pytest.raises(ApiError) as error:
                await send()
            raised.append((type(error.value), str(error.value).partition(" ")[0]))

    assert raised == [(write, "POST"), (write, "POST"), (read, "GET")]
    assert [path for _, path in server.asked] == ["/x"] * 3, "each is sent once"


async def test_what_an_error_says_is_the_same_by_either_way(server: Server, posts: int) -> None:
    server.steps = [answer(404, {"kind": "Status", "message": "no such pod"}, Retry_After="7")]
    async with client(server, posts=posts) as asked:
        with pytest.raises(NotFoundError) as raised:
            await asked.post("/x", b"{}")

    error = raised.value
    assert (str(error), error.status, error.retry_after) == ("POST /x: 404 no such pod", 404, 7)


async def test_a_binding_carries_its_body_and_what_the_others_carry(
    server: Server, posts: int
) -> None:
    seen: list[tuple[Any, ...]] = []

    async def step(request: web.Request) -> web.StreamResponse:
        names = ("Host", "User-Agent", "Content-Type", "Authorization")
        carried = [request.headers.get(name) for name in names]
        seen.append((request.method, request.raw_path, await request.read(), *carried))
        return web.json_response({}, status=201)

    server.steps = [step, step]
    given = Given(f"{server.url}/prefix", "Bearer %d%s")
    async with client(server, given, posts=posts) as asked:
        await asked.post("/a%2Fb", b'{"a": "%s"}')
        await asked.post("/c", b"")

    host = server.url.removeprefix("http://")
    carried = (host, "gang-extender", "application/json", "Bearer %d%s")
    assert seen == [
        ("POST", "/prefix/a%2Fb", b'{"a": "%s"}', *carried),
        ("POST", "/prefix/c", b"", *carried),
    ]


async def test_a_connection_that_is_not_made_has_carried_nothing(posts: int) -> None:
    async with KubeClient(Given("http://127.0.0.1:1").keyring, posts=posts) as asked:
        for send in (asked.request("POST", "/x", body=b"{}"), asked.post("/x", b"{}")):
            with pytest.raises(UnavailableError) as raised:
                await send
            assert type(raised.value) is UnavailableError
            assert raised.value.is_unsent


async def test_a_busy_server_is_asked_again_when_it_said(server: Server, posts: int) -> None:
    async with client(server, posts=posts) as asked:
        for send in (lambda: asked.request("GET", "/x"), lambda: asked.post("/x", b"{}")):
            server.steps = [answer(429, Retry_After="0"), answer(429, Retry_After="0"), answer()]
            await send()

    assert server.asked == [("GET", "/x")] * 3 + [("POST", "/x")] * 3


async def test_a_busy_server_that_names_no_pause_is_not_flooded(server: Server, posts: int) -> None:
    async with client(server, timeout=1.0, posts=posts) as asked:
        for send in (asked.request("GET", "/x"), asked.post("/x", b"{}")):
            server.steps, server.asked = [answer(429, Retry_After="0")] * 10_000, []
            with pytest.raises(ThrottledError):
                await send
            assert 2 <= len(server.asked) <= 10


async def test_credentials_are_looked_at_again_after_an_error_that_no_code_expects(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, looks, enough = Given(server.url), 0, asyncio.Event()

    async def fails() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            enough.set()
        raise RuntimeError("a bug")

    monkeypatch.setattr("extender.kube.client.LOOK_SECONDS", 0.0)
    monkeypatch.setattr(given.keyring, "look", fails)
    async with client(server, given):
        async with asyncio.timeout(10):
            await enough.wait()


async def test_what_the_server_asks_to_wait_is_in_the_error(server: Server) -> None:
    server.steps = [answer(503, Retry_After="7")]
    async with client(server) as asked:
        with pytest.raises(UnavailableError) as raised:
            await asked.request("GET", "/x")

    assert raised.value.retry_after == 7


async def test_a_watch_that_hangs_is_cut_off(server: Server) -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{}\n")
        return await hang(request)

    server.steps = [silent]
    seen = []
    async with client(server) as asked:
        with pytest.raises(SilentError, match="GET /x: nothing came for"):
            async with asked.stream("/x", idle_seconds=0.2) as chunks:
                seen = [chunk async for chunk in chunks]

    assert seen == []


async def test_watches_leave_the_connections_to_requests(server: Server) -> None:
    async def watched(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"1\n")
        return await hang(request)

    server.steps = [watched] * 3
    keyring = Given(server.url).keyring
    async with (
        KubeClient(keyring, connections=1, timeout=2.0) as asked,
        AsyncExitStack() as watches,
    ):
        for _ in range(3):
            watch = asked.stream("/x", idle_seconds=60)
            assert await anext(await watches.enter_async_context(watch)) == b"1\n"
        assert await asked.request("GET", "/x") == b"{}"


async def test_an_election_waits_for_no_other_writes(server: Server) -> None:
    """Another replica would lead while this one writes much."""
    lease = LeaseName("ns", "lease", "us")
    stored = {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "us"}}
    begun = asyncio.Semaphore(0)

    async def held(request: web.Request) -> web.StreamResponse:
        begun.release()
        return await hang(request)

    server.steps = [held] * ALL_WRITES + [answer(200, stored)]
    async with client(server, posts=ALL_WRITES) as asked:
        many = [
            asyncio.ensure_future(asked.request("PATCH", f"/{n}", body=b"{}"))
            for n in range(2 * ALL_WRITES)
        ]
        async with asyncio.timeout(4):
            for _ in range(ALL_WRITES):
                await begun.acquire()
            await LeaseElection(asked, of=lease, times=LeaseTimes(), clock=LoopClock()).acquire()
        for each in many:
            each.cancel()
        await asyncio.wait(many)

    assert server.asked[ALL_WRITES:] == [("GET", lease.path), ("PUT", lease.path)]


async def test_a_refused_token_is_read_again_and_the_binding_goes_on(
    server: Server, posts: int
) -> None:
    server.good = "Bearer new"
    given = Given(server.url, "Bearer old")
    given.change("Bearer new")
    async with client(server, given, posts=posts) as asked:
        await asked.post("/x", b"{}")
        await asked.post("/y", b"{}")
        assert await asked.request("GET", "/x") == b"{}"
        assert asked._retired == [], "the old connections went with their last user"

    assert server.tokens == ["Bearer old", *["Bearer new"] * 3]
    assert given.keyring.counts == {"renewed": 1}


async def test_many_refusals_at_once_read_once(server: Server, posts: int) -> None:
    server.good = "Bearer new"
    given = Given(server.url, "Bearer old")
    given.change("Bearer new")
    async with client(server, given, posts=posts) as asked:
        await asyncio.gather(
            *(asked.request("GET", "/x") for _ in range(20)),
            *(asked.post("/x", b"{}") for _ in range(20)),
        )

    assert given.reads == 1


REFUSED = 10
"""Requests that are sent within the pause after a read, on a slow machine too."""


@pytest.mark.parametrize("broken", [False, True], ids=["the same", "unreadable"])
async def test_in_vain_it_is_read_seldom(broken: bool, server: Server, posts: int) -> None:
    server.good = "Bearer new"
    given = Given(server.url, "Bearer old")
    given.broken = broken
    async with client(server, given, posts=posts) as asked:
        for _ in range(REFUSED):
            with pytest.raises(UnauthorizedError):
                await asked.post("/x", b"{}")

    assert given.reads == 1
    assert len(server.asked) == REFUSED, "each request is sent once"
    assert given.keyring.refusals == REFUSED


async def test_a_watch_is_refused_and_then_goes_on(server: Server) -> None:
    server.good = "Bearer new"
    given = Given(server.url, "Bearer old")
    given.change("Bearer new")
    async with client(server, given) as asked:
        with pytest.raises(UnauthorizedError):
            async with asked.stream("/x", idle_seconds=1):
                pass
        async with asked.stream("/x", idle_seconds=1) as chunks:
            assert [chunk async for chunk in chunks] == [b"{}"]


async def test_a_watch_under_way_outlives_new_credentials(server: Server) -> None:
    more = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"1\n")
        await more.wait()
        await response.write(b"2\n")
        return response

    server.steps = [slow]
    given = Given(server.url, "Bearer old")
    async with client(server, given) as asked:
        async with asked.stream("/x", idle_seconds=5) as chunks:
            assert await anext(chunks) == b"1\n"
            given.change("Bearer new")
            given.keyring.current = given.now
            await asked.request("GET", "/x")
            more.set()
            assert await anext(chunks) == b"2\n"
        assert asked._retired == [], "the old connections went with their last user"

    assert server.tokens == ["Bearer old", "Bearer new"]


async def test_another_host_counts_from_the_next_request_on(server: Server, posts: int) -> None:
    given = Given("http://127.0.0.1:1")
    async with client(server, given, posts=posts) as asked:
        given.keyring.current = replace(given.now, host=server.url)
        assert await asked.request("GET", "/x") == b"{}"
        await asked.post("/x", b"{}")


# What a kubeconfig may have that connections for Bindings do not know, and the header it becomes.
ROUNDABOUT: dict[str, tuple[Callable[[Credentials], Credentials], str | None]] = {
    "a proxy": (lambda now: replace(now, host="http://api.invalid", proxy=now.host), None),
    "a user in the address": (
        lambda now: replace(now, host=now.host.replace("http://", "http://user:b@")),
        "Basic dXNlcjpi",
    ),
}


@pytest.mark.parametrize(("change", "token"), ROUNDABOUT.values(), ids=ROUNDABOUT)
async def test_a_roundabout_way_is_the_other_clients(
    change: Callable[[Credentials], Credentials], token: str | None, server: Server
) -> None:
    given = Given(server.url)
    given.keyring.current = change(given.now)
    async with client(server, given, posts=4) as asked:
        await asked.post("/x", b"{}")

    assert (server.asked, server.tokens) == ([("POST", "/x")], [token])


async def test_a_header_that_would_be_two_is_not_sent(server: Server, posts: int) -> None:
    given = Given(server.url, "Bearer a\r\nX-Remote-User: admin")
    async with client(server, given, posts=posts) as asked:
        with pytest.raises(ValueError, match="header"):
            await asked.post("/x", b"{}")

    assert server.asked == []


@pytest.mark.asyncio
async def test_sockets_are_made_by_the_event_loop(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that aiohttp makes belongs to two owners; uvloop aborts where that goes wrong."""
    loop = asyncio.get_running_loop()
    connected: list[dict[str, Any]] = []
    connect = loop.create_connection

    async def create_connection(*args: Any, **options: Any) -> Any:
        connected.append(options)
        return await connect(*args, **options)

    monkeypatch.setattr(loop, "create_connection", create_connection)
    async with client(server) as api:
        await api.request("GET", "/version")
    assert [(each.get("sock"), each.get("host")) for each in connected] == [(None, "127.0.0.1")]


class TwoAddresses(AbstractResolver):
    """Knows a host that has an address on which nothing listens, and one that answers."""

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        addresses = (("::1", socket.AF_INET6), ("127.0.0.1", socket.AF_INET))
        return [
            ResolveResult(
                hostname=host, host=address, port=port, family=of, proto=0, flags=AI_NUMERICHOST
            )
            for address, of in addresses
        ]

    @override
    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.asyncio
async def test_each_address_of_the_server_is_tried(server: Server) -> None:
    port = server.url.rpartition(":")[2]
    async with (
        ClientSession(connector=_Connector(resolver=TwoAddresses())) as session,
        session.get(f"http://api.test:{port}/version") as found,
    ):
        assert found.status == 200
