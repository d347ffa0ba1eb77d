"""What the extender says of gangs over HTTP: its own belief, with held members and failures."""

import asyncio
from typing import Any

import httpx

from extender.api.reasons import Reason
from extender.gang.verdicts import Refuse
from tests.makers import key, nodes, observe, pod_group, pods, until
from tests.protocol.service import NOT_SEEN, Service


async def get(service: Service, path: str, **params: Any) -> dict[str, Any]:
    answer = await service.http.get(path, params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def refusing(found: dict[str, Any]) -> tuple[str, str]:
    """Return the gate that refuses, and its reason."""
    [refused] = [each for each in found["gates"] if each["answer"] == "Refused"]
    return refused["gate"], refused["reason"]


async def test_members_that_are_held_are_shown_with_their_time(service: Service) -> None:
    scene, members = service.scene, pods(3, 1)
    observe(scene.cluster, pod_group(schedule_timeout=600.0), members, nodes(4))
    scene.filter("gang-0", ["n0"], group="gang")
    held = asyncio.create_task(scene.hold(members[0], "n0"))
    await until(lambda: scene.waiting.held == 1)

    found = await get(service, "/podgroups/ns/gang")

    assert (found["source"], found["state"], found["reason"]) == (
        "Extender",
        "Held",
        "WaitingForBind",
    )
    assert refusing(found) == ("Quorum", "WaitingForBind")
    assert (found["pods"]["held"], found["pods"]["planned"]) == (1, 2)
    kept = {each["kind"]: each for each in found["kept"]}
    assert (kept["Held"]["pods"], kept["Plan"]["pods"]) == (1, 2)
    assert kept["Held"]["until"] is not None
    assert {each["name"]: each["state"] for each in found["members"]}["gang-0"] == "Held"
    [line] = (await get(service, "/podgroups"))["items"]
    assert (line["name"], line["state"], line["pods"]["held"]) == ("gang", "Held", 1)

    others = [asyncio.create_task(scene.hold(each, "n0")) for each in members[1:]]
    assert await asyncio.gather(held, *others) == [None] * 3
    assert (await get(service, "/podgroups/ns/gang"))["state"] == "Binding"


async def test_a_failure_that_is_remembered_is_a_gate(service: Service) -> None:
    scene = service.scene
    observe(scene.cluster, pod_group(), pods(3, 1), nodes(4))
    scene.verdicts.failed(key("gang"), Refuse(Reason.SCHEDULE_TIMEOUT, "gang ns/gang: late"))

    found = await get(service, "/podgroups/ns/gang")

    assert refusing(found) == ("RecentFailure", "RecentlyDenied")
    assert "looked at again" in found["wouldHelp"][0]
    [line] = (await get(service, "/podgroups"))["items"]
    assert (line["reason"], line["position"]) == ("RecentlyDenied", 0)
    service.stale = "pods"
    found = await get(service, "/podgroups/ns/gang")
    assert found["notes"] == ["the extender has not heard of pods for too long, and plans no gang"]


async def test_a_group_behind_another_that_never_fits_is_not_held_up(service: Service) -> None:
    scene = service.scene
    observe(scene.cluster, pod_group("large", 1, created=-1.0), pods(1, 99, group="large"))
    observe(scene.cluster, pod_group(), pods(3, 1), nodes(4))
    scene.filter("large-0", ["n0"], group="large", cpu="99")

    large = await get(service, "/podgroups/ns/large")
    assert refusing(large) == ("Room", "NeverFits")
    assert large["room"]["fitOnEmptyNodes"] == 0
    found = await get(service, "/podgroups/ns/gang")
    assert [each["name"] for each in found["ahead"]] == ["large"]
    assert found["room"]["fit"] == 3


async def test_lists_come_in_parts_and_by_namespace(service: Service) -> None:
    some = [pod_group(f"g{n}") for n in range(5)]
    observe(service.scene.cluster, some)

    page = await get(service, "/podgroups", offset=1, limit=2)
    assert [each["name"] for each in page["items"]] == ["g1", "g2"]
    assert page["more"] == 2
    assert [each["reason"] for each in page["items"]] == ["NotEnoughPods"] * 2
    assert len((await get(service, "/podgroups", namespace="ns"))["items"]) == 5
    assert (await get(service, "/podgroups", namespace="n"))["items"] == []
    assert (await get(service, "/podgroups", offset=10**30))["items"] == []


async def test_what_is_not_there_and_what_is_not_known_yet(service: Service) -> None:
    absent = await service.http.get("/podgroups/ns/gang")
    assert (absent.status_code, absent.json()["reason"]) == (404, "NotFound")
    assert 'podgroups "ns/gang" not found' in absent.json()["message"]
    wrong = await service.http.get("/podgroups", params={"limit": -1})
    assert (wrong.status_code, wrong.json()["kind"]) == (400, "Status")

    service.synced = False
    for path in ("/podgroups", "/podgroups/ns/gang"):
        answer: httpx.Response = await service.http.get(path)
        assert (answer.status_code, answer.json()["message"]) == (503, NOT_SEEN)
