"""Which clients may read what the reconciler serves."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from typing_extensions import override

from extender.explain.facts import Facts
from extender.kube.errors import UnavailableError
from extender.kube.reviews import Access, Reviews, User
from extender.runtime.clock import Pacer
from extender.server.access import Guard, StatusError, Turnstile, add_statuses
from extender.server.explanations import add_visibility
from extender.server.health import Probes, add_health
from tests.makers import ManualClock
from tests.queue_makers import Admissions, cluster_queue, local_queue, workload
from tests.unit.explain.scene import facts, holding

GROUP = "visibility.kueue.x-k8s.io"
CLUSTER_QUEUE = Access(GROUP, "clusterqueues/pendingworkloads", "cq")
LOCAL_QUEUE = Access(GROUP, "localqueues/pendingworkloads", "cq", "ns")
WORKLOAD = Access("kueue.x-k8s.io", "workloads", "waits", "ns")
PATHS = {
    "/clusterqueues/cq/pendingworkloads": CLUSTER_QUEUE,
    "/localqueues/ns/cq/pendingworkloads": LOCAL_QUEUE,
    "/workloads/ns/waits/explanation": WORKLOAD,
    "/metrics": Access(path="/metrics"),
}
PREFIX = "/apis/visibility.kueue.x-k8s.io/v1beta2"


async def numbers() -> bytes:
    return b"numbers"


class Server(Reviews):
    """Knows one user, and what it may."""

    def __init__(self, *allowed: Access) -> None:
        self.allowed = set(allowed)
        self.asked: list[object] = []
        self.away = False
        self.answers = asyncio.Event()
        self.answers.set()

    @override
    async def user(self, token: str) -> User | None:
        await self._answer(token)
        return User("ann", groups=("tenants",)) if token == "good" else None

    @override
    async def may(self, user: User, access: Access) -> bool:
        await self._answer(access)
        return access in self.allowed

    async def _answer(self, asked: object) -> None:
        self.asked.append(asked)
        await self.answers.wait()
        if self.away:
            raise UnavailableError("no answer")


class Scene:
    def __init__(self, *allowed: Access, seen: Callable[[], Facts | None] | None = None) -> None:
        queues = Admissions(cluster_queue(cpu=2), local_queue())
        theirs = holding("theirs", 2)
        queues.put(theirs, workload("waits", 1))
        self.queues, self.server = queues, Server(*allowed)
        guard = Guard(self.server)
        app = FastAPI()
        add_health(app, numbers, Probes(lambda: {"cache": None}), guard=guard)
        add_statuses(app)
        shown = seen or (lambda: facts(queues))
        add_visibility(app, shown, lambda: None, pacer=Pacer(ManualClock()), guard=guard)
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        self.client = httpx.AsyncClient(transport=transport, base_url="https://any")

    async def get(self, path: str, token: str | None = "good") -> httpx.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return await self.client.get(path, headers=headers)


def is_status(answer: httpx.Response, code: int, reason: str) -> None:
    reported = answer.json()
    assert answer.status_code == code
    assert (reported["kind"], reported["code"], reported["reason"]) == ("Status", code, reason)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("token", [None, "", "bad", "x" * 20_000])
async def test_a_caller_that_is_not_known_gets_nothing(path: str, token: str | None) -> None:
    scene = Scene(*PATHS.values())
    answer = await scene.get(path, token)
    is_status(answer, 401, "Unauthorized")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert all(token in (None, asked) for asked in scene.server.asked)


@pytest.mark.parametrize("path", PATHS)
async def test_a_user_gets_what_it_may_and_no_more(path: str) -> None:
    assert (await Scene(PATHS[path]).get(path)).status_code == 200
    others = [access for access in PATHS.values() if access != PATHS[path]]
    answer = await Scene(*others).get(path)
    is_status(answer, 403, "Forbidden")
    assert 'User "ann" cannot get' in answer.json()["message"]


@pytest.mark.parametrize(
    ("path", "access"),
    [
        (f"{PREFIX}/clusterqueues/cq/pendingworkloads", CLUSTER_QUEUE),
        (f"{PREFIX}/namespaces/ns/localqueues/cq/pendingworkloads", LOCAL_QUEUE),
        (f"{PREFIX}/namespaces/ns/workloads/waits/explanation", WORKLOAD),
    ],
)
async def test_the_paths_of_the_api_ask_for_the_same(path: str, access: Access) -> None:
    assert (await Scene(access).get(path)).status_code == 200
    assert (await Scene().get(path)).status_code == 403


async def test_a_text_says_what_is_missing() -> None:
    reported = (await Scene().get("/localqueues/ns/cq/pendingworkloads")).json()["message"]
    assert reported == (
        'localqueues.visibility.kueue.x-k8s.io "cq" is forbidden: User "ann" cannot get resource '
        '"localqueues/pendingworkloads" in API group "visibility.kueue.x-k8s.io" in the namespace '
        '"ns"'
    )


async def test_whether_a_queue_exists_is_for_users_that_may_read_it() -> None:
    scene = Scene(Access(GROUP, "clusterqueues/pendingworkloads", "no"))
    is_status(await scene.get("/clusterqueues/no/pendingworkloads"), 404, "NotFound")
    is_status(await Scene().get("/clusterqueues/no/pendingworkloads"), 403, "Forbidden")


async def test_a_replica_that_does_not_lead_asks_too() -> None:
    path = "/clusterqueues/cq/pendingworkloads"
    scene = Scene(CLUSTER_QUEUE, seen=lambda: None)
    is_status(await scene.get(path, None), 401, "Unauthorized")
    is_status(await scene.get(path), 503, "ServiceUnavailable")
    is_status(await Scene(seen=lambda: None).get(path), 403, "Forbidden")


async def test_health_is_open_to_all() -> None:
    scene = Scene()
    assert [(await scene.get(path, None)).status_code for path in ("/livez", "/readyz")] == [
        200
    ] * 2
    assert scene.server.asked == []


@pytest.mark.parametrize("token", ["good", "bad"])
async def test_without_an_answer_of_the_api_server_nothing_is_shown(token: str) -> None:
    scene = Scene(*PATHS.values())
    scene.server.away = True
    for path in PATHS:
        is_status(await scene.get(path, token), 503, "ServiceUnavailable")


@pytest.mark.parametrize(
    "path", ["/localqueues/ns/cq/pendingworkloads", "/workloads/ns/waits/explanation"]
)
async def test_a_tenant_does_not_see_the_workloads_of_others(path: str) -> None:
    def reported(answer: httpx.Response) -> tuple[list[Any], int]:
        body = answer.json()
        [lack] = (body["items"][0] if "items" in body else body)["waitingFor"]
        return [each["name"] for each in lack["holders"]], lack["moreHolders"]

    mine = Scene(PATHS[path])
    assert reported(await mine.get(path)) == (["theirs"], 0)  # it is of the same namespace

    def elsewhere(scene: Scene) -> None:
        held = holding("theirs", 2)
        scene.queues.drop(held)
        away = holding("away", 2)
        object.__setattr__(away.meta, "namespace", "other")
        scene.queues.put(away)

    tenant, admin = Scene(PATHS[path]), Scene(PATHS[path], CLUSTER_QUEUE)
    for each in (tenant, admin):
        elsewhere(each)
    assert reported(await tenant.get(path)) == ([], 1)
    assert reported(await admin.get(path)) == (["away"], 0)


# -- how many at once


async def test_clients_beyond_the_limit_come_later() -> None:
    free = asyncio.Event()

    async def stay(turnstile: Turnstile, name: str) -> None:
        async with turnstile.turn(name):
            await free.wait()

    turnstile = Turnstile(at_once=1, most=3, each=2)
    here = [asyncio.create_task(stay(turnstile, name)) for name in ("a", "a", "b")]
    await asyncio.sleep(0)
    for name in ("a", "c"):
        with pytest.raises(StatusError, match="too many requests") as caught:
            await stay(turnstile, name)
        assert caught.value.headers == {"Retry-After": "1"}
    free.set()
    await asyncio.gather(*here)
    await stay(turnstile, "c")


async def test_one_caller_does_not_keep_the_others_away() -> None:
    turnstile = Turnstile(at_once=1, most=9, each=2)
    free = asyncio.Event()

    async def stay(name: str) -> None:
        async with turnstile.turn(name):
            await free.wait()

    here = [asyncio.create_task(stay("a")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Exception, match="too many requests"):
        await stay("a")
    other = asyncio.create_task(stay("b"))
    free.set()
    await asyncio.gather(*here, other)
