"""What the extender remembers, over HTTP."""

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from typing_extensions import override

from extender.api.reasons import Reason
from extender.config.settings import Settings
from extender.gang.verdicts import Refuse
from extender.kube.reviews import Access, User
from extender.runtime.clock import Pacer, SystemClock
from extender.server.access import Guard
from extender.server.health import PATH, add_snapshot
from tests.makers import key, nodes, observe, pod_group, pods, until
from tests.protocol.service import NOT_SEEN, Service
from tests.unit.server.scene import Reviewer


async def taken(service: Service) -> dict[str, Any]:
    answer = await service.http.get(PATH)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    found: dict[str, Any] = answer.json()
    return found


async def test_holds_plans_and_verdicts_are_shown(service: Service) -> None:
    scene, members = service.scene, pods(3, 1)
    observe(scene.cluster, pod_group(schedule_timeout=600.0), members, nodes(4, 2, 1))
    observe(scene.cluster, pod_group("failed", 1), pods(1, 1, group="failed"))
    scene.filter("gang-0", ["n0"], group="gang")
    held = asyncio.create_task(scene.hold(members[0], "n0"))
    await until(lambda: scene.waiting.held == 1)
    scene.verdicts.failed(key("failed"), Refuse(Reason.SCHEDULE_TIMEOUT, "gang ns/failed: late"))

    found = await taken(service)

    kinds = {each["pod"]: each["kind"] for each in found["pods"]}
    assert kinds == {key("gang-0"): "waiting", key("gang-1"): "planned", key("gang-2"): "planned"}
    assert {each["group"] for each in found["pods"]} == {key("gang")}
    [failed] = [each for each in found["verdicts"] if each["group"] == key("failed")]
    assert failed["deniedFor"] == failed["lastFailure"] == "gang ns/failed: late"
    assert failed["deniedUntil"] is not None
    [gang] = [each for each in found["verdicts"] if each["group"] == key("gang")]
    assert gang["startsBy"] is not None
    assert (found["process"], found["leads"], found["unready"]) == ("extender", True, "")
    assert Settings.model_validate(found["settings"]).gang == Settings().gang

    others = [asyncio.create_task(scene.hold(each, "n0")) for each in members[1:]]
    assert await asyncio.gather(held, *others) == [None] * 3


async def test_it_is_there_before_the_extender_is_ready(service: Service) -> None:
    service.synced = False
    assert (await taken(service))["unready"] == NOT_SEEN


def allows(user: User, access: Access) -> bool:
    assert (access.path, access.verb) == (PATH, "get")
    return user.name == "may"


@pytest.mark.parametrize(
    ("token", "code"), [(None, 401), ("unknown", 401), ("may-not", 403), ("may", 200)]
)
async def test_elsewhere_than_on_loopback_it_needs_a_right(
    service: Service, token: str | None, code: int
) -> None:
    app, clock = FastAPI(), SystemClock()
    guard = Guard(Reviewer("may", "may-not", allows=allows))
    add_snapshot(app, service.memory, pacer=Pacer(clock), guard=guard)
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://reconciler") as client:
        answer = await client.get(PATH, headers=headers)

    assert answer.status_code == code
    if code != 200:
        assert answer.json()["kind"] == "Status"
        assert b"verdicts" not in answer.content


async def test_more_clients_than_may_wait_are_sent_away(service: Service) -> None:
    began, go = asyncio.Event(), asyncio.Event()
    observe(service.scene.cluster, pod_group(), pods(3, 1))

    class SlowPacer(Pacer):
        @override
        async def rest(self) -> None:
            began.set()
            await go.wait()

    app = FastAPI()
    add_snapshot(app, service.memory, pacer=SlowPacer(SystemClock(), at_once=-1.0))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        first = [asyncio.create_task(client.get(PATH)) for _ in range(2)]
        await began.wait()
        await asyncio.sleep(0)
        answer = await client.get(PATH)
        go.set()
        done = await asyncio.gather(*first)

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert [each.status_code for each in done] == [200, 200]
