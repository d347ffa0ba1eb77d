"""The whole belief of the extender over HTTP, and explanations from the file."""

import asyncio
import json

import httpx
import msgspec
import pytest
from fastapi import FastAPI
from typing_extensions import override

from extender.api.reasons import Reason
from extender.gang.verdicts import Refuse
from extender.kube.reviews import Access, User
from extender.runtime.clock import SystemClock
from extender.runtime.pacer import Pacer
from extender.server.access import Guard
from extender.server.snapshot import PATH, SnapshotSource, add_snapshot
from extender.snapshot.reading import read
from extender.snapshot.writing import Belief
from extender.wiring.explain_snapshot import group_then, pod_then
from tests.makers import key, nodes, observe, pod, pod_group, pods, until
from tests.protocol.service import Service

TIMES = ("until", "startsBy", "claimDue", "restsUntil")


async def taken(service: Service) -> bytes:
    answer = await service.http.get(PATH)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    return answer.content


def without_times(value: object) -> object:
    """Return JSON without the times that begin at the moment of the question."""
    if isinstance(value, dict):
        return {name: without_times(each) for name, each in value.items() if name not in TIMES}
    return [*map(without_times, value)] if isinstance(value, list) else value


async def test_what_is_explained_from_the_file_is_what_the_extender_says(service: Service) -> None:
    scene, members = service.scene, pods(3, 1)
    observe(scene.cluster, pod_group(schedule_timeout=600.0), members, nodes(4, 2, 1))
    observe(scene.cluster, pod_group("large", 2), pods(2, 3, group="large"), pod("plain", 1))
    observe(scene.cluster, pod_group("failed", 1), pods(1, 1, group="failed"))
    scene.filter("gang-0", ["n0"], group="gang")
    held = asyncio.create_task(scene.hold(members[0], "n0"))
    await until(lambda: scene.waiting.held == 1)
    scene.verdicts.failed(key("failed"), Refuse(Reason.SCHEDULE_TIMEOUT, "gang ns/failed: late"))

    snapshot = read(await taken(service))

    states = {}
    for group in ("gang", "large", "failed"):
        live = (await service.http.get(f"/podgroups/ns/{group}")).json()
        then = json.loads(group_then(key(group), snapshot).model_dump_json(by_alias=True))
        assert without_times(then) == without_times(live)
        states[group] = then["state"], then["reason"]
    assert states["gang"] == ("Held", "WaitingForBind")
    assert states["failed"] == ("Waiting", "RecentlyDenied")
    assert pod_then(key("gang-0"), snapshot).state == "Held"
    assert "it is no member of a gang" in pod_then(key("plain"), snapshot).message
    snapshot.cluster.validate()
    assert snapshot.header.process == "extender"

    others = [asyncio.create_task(scene.hold(each, "n0")) for each in members[1:]]
    assert await asyncio.gather(held, *others) == [None] * 3


async def test_a_client_that_takes_gzip_gets_it(service: Service) -> None:
    observe(service.scene.cluster, pod_group(), pods(3, 1), nodes(4))
    plain = await service.http.get(PATH, headers={"Accept-Encoding": "identity"})
    zipped = await service.http.get(PATH, headers={"Accept-Encoding": "gzip"})

    assert "content-encoding" not in plain.headers
    assert zipped.headers["content-encoding"] == "gzip"
    found = [msgspec.json.decode(each.content) for each in (plain, zipped)]
    assert found[0]["cluster"] == found[1]["cluster"]


async def test_it_is_there_before_the_extender_is_ready(service: Service) -> None:
    service.synced = False
    assert "has not seen the whole cluster" in read(await taken(service)).header.unready


class Reviewer:
    """Knows two users, of whom one may get the path."""

    async def user(self, token: str) -> User | None:
        return User(token) if token in ("may", "may-not") else None

    async def may(self, user: User, access: Access) -> bool:
        assert (access.path, access.verb) == (PATH, "get")
        return user.name == "may"


@pytest.mark.parametrize(
    ("token", "code"), [(None, 401), ("unknown", 401), ("may-not", 403), ("may", 200)]
)
async def test_elsewhere_than_on_loopback_it_needs_a_right(
    service: Service, token: str | None, code: int
) -> None:
    app, clock = FastAPI(), SystemClock()
    guard = Guard(Reviewer(), clock)
    add_snapshot(app, SnapshotSource(service.belief, Pacer(clock), guard))
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://reconciler") as client:
        answer = await client.get(PATH, headers=headers)

    assert answer.status_code == code
    if code != 200:
        assert answer.json()["kind"] == "Status"
        assert b"podGroups" not in answer.content


async def test_more_clients_than_may_wait_are_sent_away(service: Service) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    class SlowPacer(Pacer):
        @override
        async def rest(self) -> None:
            began.set()
            await go.wait()

    def belief() -> Belief:
        return service.belief()

    app = FastAPI()
    add_snapshot(app, SnapshotSource(belief, SlowPacer(SystemClock(), at_once=-1.0)))
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
