"""Pods of native PodGroups over HTTP: an Error puts their whole group off, and nothing is held."""

import asyncio
from typing import Any

from extender.api.reasons import Reason
from extender.api.wellknown import GROUP_NATIVE
from extender.permit.filter import NOT_FOUND, UNDECIDED
from extender.permit.timing import SETTLED_SECONDS
from extender.state.cluster import events as ev
from tests.makers import NAMESPACE, key, nodes, observe, planned, pod, pod_group, pod_json
from tests.protocol.service import Service

GANG = key("gang")
SPEC: dict[str, Any] = {"schedulingGroup": {"podGroupName": "gang"}}


def request(name: str, *names: str, **more: Any) -> dict[str, Any]:
    return {"Pod": pod_json(name, **SPEC, **more), "NodeNames": names, "Nodes": None}


def bind_request(name: str, node: str) -> dict[str, Any]:
    return {"PodName": name, "PodNamespace": NAMESPACE, "PodUID": name, "Node": node}


def native(service: Service, count: int = 2, *, ours: bool | None) -> None:
    """Have the service see a native gang and its pods, and a node with room for them."""
    scene = service.scene
    observe(scene.cluster, pod_group("gang", count, api_group=GROUP_NATIVE), nodes(count))
    if ours is not None:
        scene.cluster.apply(ev.NativesDecided(ours))
    for number in range(count):
        observe(scene.cluster, pod(f"gang-{number}", group="gang", native=GANG))


async def test_a_pod_of_kube_schedulers_gang_has_all_nodes_and_is_bound_at_once(
    service: Service,
) -> None:
    native(service, ours=False)

    found = await service.ask("filter", request("gang-0", "n0"))
    assert (found["NodeNames"], found["Error"]) == (["n0"], "")
    assert not service.scene.view.keeps_room
    assert await service.ask("bind", bind_request("gang-0", "n0")) == {"Error": ""}


async def test_a_pod_that_no_watch_has_shown_is_treated_alike(service: Service) -> None:
    native(service, ours=False)

    found = await service.ask("filter", request("new", "n0", group="gang"))

    assert (found["NodeNames"], found["Error"]) == (["n0"], "")
    assert service.scene.view.pods["new"].group is None


async def test_where_others_keep_all_room_the_group_is_put_off(service: Service) -> None:
    native(service, ours=False)
    others = [pod(f"other-{number}", 2, group="other") for number in range(1)]
    observe(service.scene.cluster, pod_group("other", 1), others)
    service.scene.cluster.apply(planned(**{"other-0": "n0"}))

    found = await service.ask("filter", request("gang-0", "n0"))

    assert found["Error"] == "room is kept for a gang that goes first"
    assert not found["NodeNames"]
    assert not found["FailedAndUnresolvableNodes"]


async def test_while_it_is_not_known_the_group_is_put_off(service: Service) -> None:
    native(service, ours=None)

    found = await service.ask("filter", request("gang-0", "n0"))

    assert found["Error"] == UNDECIDED


async def test_a_native_gang_that_is_ours_is_planned_and_held(service: Service) -> None:
    native(service, ours=True)

    found = await service.ask("filter", request("gang-0", "n0"))
    assert (found["NodeNames"], found["Error"]) == (["n0"], "")
    assert len(service.scene.view.planned) == 2
    first = asyncio.create_task(service.ask("bind", bind_request("gang-0", "n0")))
    await asyncio.sleep(0.05)
    assert service.scene.waiting.held == 1

    await service.ask("filter", request("gang-1", "n0"))
    assert await service.ask("bind", bind_request("gang-1", "n0")) == {"Error": ""}
    assert await first == {"Error": ""}


async def test_while_native_groups_are_not_heard_of_theirs_alone_wait(service: Service) -> None:
    native(service, ours=True)
    scene = service.scene
    observe(scene.cluster, pod_group("labelled", 1), pod("labelled-0", group="labelled"))
    scene.natives_stale = "podgroups.scheduling.k8s.io"

    found = await service.ask("filter", request("gang-0", "n0"))
    (why,) = found["FailedAndUnresolvableNodes"].values()
    assert "has not heard of podgroups.scheduling.k8s.io for too long" in why
    assert scene.view.refused["gang-0"].reason == Reason.CACHE_STALE

    plain = {"Pod": pod_json("plain"), "NodeNames": ["n0"], "Nodes": None}
    labelled = {**plain, "Pod": pod_json("labelled-0", group="labelled")}
    for each in (plain, labelled):
        assert (await service.ask("filter", each))["NodeNames"] == ["n0"]


async def test_kube_schedulers_gangs_need_no_look_at_their_pod_groups(service: Service) -> None:
    native(service, ours=False)
    service.scene.natives_stale = "podgroups.scheduling.k8s.io"

    assert (await service.ask("filter", request("gang-0", "n0")))["NodeNames"] == ["n0"]


async def test_a_group_that_is_not_seen_here_is_put_off_and_decides_nothing(
    service: Service,
) -> None:
    observe(service.scene.cluster, nodes(1), pod("gang-0", group="gang", native=GANG))

    for _ in range(2):
        found = await service.ask("filter", request("gang-0", "n0"))
        assert found["Error"] == NOT_FOUND
        await asyncio.sleep(SETTLED_SECONDS)
    assert service.scene.view.natives_are_ours is None
