"""The four verbs, asked as a real kube-scheduler asked them (see `record.py`)."""

import asyncio
import json
from typing import Any

import pytest

from extender.api.wellknown import GROUP_X, POD_GROUP_LABEL
from extender.kube.pods import PodRef
from extender.server.verbs import LIKEWISE
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodGroupInfo
from tests.makers import deleted, observe, planned, pod, pod_group, until
from tests.protocol.service import FORMS, NODE_NAMES, VERBS, Service, recorded


def learn(service: Service, form: str, *, min_member: int | None = 2) -> str:
    """Have the service see the recorded gang's nodes and PodGroup, and return its namespace."""
    namespace = f"recorded-{form}"
    for name in NODE_NAMES:
        raw = recorded("nodes", "filter")["Nodes"]["items"][NODE_NAMES.index(name)]
        observe(service.scene.cluster, service.decoder.node(json.dumps(raw).encode()))
    if min_member is not None:
        group = PodGroupInfo(namespace, "gang", GROUP_X, min_member)
        observe(service.scene.cluster, group)
    return namespace


def sibling(form: str, verb: str, **changes: Any) -> dict[str, Any]:
    """Return the recorded request for another member of the gang."""
    request = recorded(form, verb)
    metadata = request["Pod"]["metadata"]
    metadata.update({"name": "member-x", "uid": "uid-x", **changes})
    return request


def plain(form: str) -> dict[str, Any]:
    """Return the recorded filter request for a pod without a group."""
    request = recorded(form, "filter")
    del request["Pod"]["metadata"]["labels"]
    return request


def seen(service: Service, form: str) -> None:
    """Have the service see a second member."""
    raw = json.dumps(sibling(form, "filter")["Pod"]).encode()
    observe(service.scene.cluster, service.decoder.pod(raw))


def sent_nodes(request: dict[str, Any]) -> list[str]:
    if request["NodeNames"] is not None:
        return list(request["NodeNames"])
    return [node["metadata"]["name"] for node in request["Nodes"]["items"]]


def answered_nodes(answer: dict[str, Any]) -> list[str]:
    if answer["NodeNames"] is not None:
        assert answer["Nodes"] is None
        return list(answer["NodeNames"])
    return [node["metadata"]["name"] for node in answer["Nodes"]["items"]]


FILTER_FIELDS = {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}


@pytest.mark.parametrize("form", FORMS)
async def test_recorded_requests_have_the_shape_that_the_contract_gives(form: str) -> None:
    wanted = {
        "filter": {"Pod", "Nodes", "NodeNames"},
        "prioritize": {"Pod", "Nodes", "NodeNames"},
        "preempt": {"Pod", "NodeNameToVictims", "NodeNameToMetaVictims"},
        "bind": {"PodName", "PodNamespace", "PodUID", "Node"},
    }
    assert {verb: set(recorded(form, verb)) for verb in VERBS} == wanted
    assert sorted(sent_nodes(recorded(form, "filter"))) == NODE_NAMES


@pytest.mark.parametrize("form", FORMS)
async def test_filter_of_a_plain_pod_gives_back_what_was_sent(service: Service, form: str) -> None:
    learn(service, form)
    request = plain(form)

    answer = await service.ask("filter", request)

    assert answer == {
        "Nodes": request["Nodes"] and {"items": request["Nodes"]["items"]},
        "NodeNames": request["NodeNames"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


@pytest.mark.parametrize("form", FORMS)
async def test_filter_plans_a_gang_and_answers_with_one_node_of_those_sent(
    service: Service, form: str
) -> None:
    learn(service, form)
    seen(service, form)
    request = recorded(form, "filter")

    answer = await service.ask("filter", request)

    assert set(answer) == FILTER_FIELDS
    assert answered_nodes(answer) == sent_nodes(request)[:1]
    assert (answer["FailedNodes"], answer["FailedAndUnresolvableNodes"]) == ({}, {})
    assert answer["Error"] == ""
    if form == "nodes":
        assert answer["Nodes"]["items"] == request["Nodes"]["items"][:1]
    planned_pods = service.scene.view.tally(f"recorded-{form}/gang").planned
    assert planned_pods == {request["Pod"]["metadata"]["uid"], "uid-x"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("min_member", [None, 3, 1000])
async def test_filter_refuses_all_nodes_and_says_once_why(
    service: Service, form: str, min_member: int | None
) -> None:
    learn(service, form, min_member=min_member)
    request = recorded(form, "filter")

    answer = await service.ask("filter", request)

    assert set(answer) == FILTER_FIELDS
    assert answered_nodes(answer) == []
    refused = answer["FailedAndUnresolvableNodes"]
    assert sorted(refused) == NODE_NAMES
    text, likewise = sorted(refused.values())
    assert likewise == LIKEWISE
    assert text.startswith(f"gang recorded-{form}/gang: ")
    assert "%" not in text
    assert (answer["FailedNodes"], answer["Error"]) == ({}, "")


@pytest.mark.parametrize(
    ("bound_ahead", "text"),
    [
        (False, "room is kept for a gang that goes first"),
        (True, "kube-scheduler has not seen all pods on the nodes to choose from"),
    ],
)
@pytest.mark.parametrize("form", FORMS)
async def test_filter_says_why_a_node_is_kept_from_others(
    service: Service, form: str, *, bound_ahead: bool, text: str
) -> None:
    learn(service, form)
    rival = pod("rival-0", 1, group="rival")
    observe(service.scene.cluster, pod_group("rival", 1), rival, planned(rival_0="node-1"))
    if bound_ahead:
        observe(service.scene.cluster, ev.BoundAhead({"rival-0": "node-1"}))

    answer = await service.ask("filter", plain(form))

    assert answered_nodes(answer) == ["node-0"]
    assert answer["FailedAndUnresolvableNodes"] == {"node-1": text}


@pytest.mark.parametrize("form", FORMS)
async def test_prioritize_has_nothing_to_say_where_all_nodes_are_equal(
    service: Service, form: str
) -> None:
    learn(service, form)

    assert await service.ask("prioritize", recorded(form, "prioritize")) == []


@pytest.mark.parametrize("form", FORMS)
async def test_prioritize_answers_a_bare_array(service: Service, form: str) -> None:
    learn(service, form)
    rival = [pod_group("rival", 1), pod("rival-0", group="rival")]
    observe(service.scene.cluster, rival, planned(rival_0="node-1"))

    answer = await service.ask("prioritize", recorded(form, "prioritize"))

    points = {entry["Host"]: entry["Score"] for entry in answer}
    assert points == {"node-0": 10, "node-1": 0}
    assert all(set(entry) == {"Host", "Score"} for entry in answer)


def victims_of(request: dict[str, Any]) -> dict[str, Any]:
    if request["NodeNameToMetaVictims"] is not None:
        return dict(request["NodeNameToMetaVictims"])
    return {
        node: {
            "Pods": [{"UID": each["metadata"]["uid"]} for each in offer["Pods"]],
            "NumPDBViolations": offer["NumPDBViolations"],
        }
        for node, offer in request["NodeNameToVictims"].items()
    }


@pytest.mark.parametrize("form", FORMS)
async def test_preempt_lets_a_plain_pod_go_on_with_the_victims_by_uid(
    service: Service, form: str
) -> None:
    request = recorded(form, "preempt")

    answer = await service.ask("preempt", request)

    assert sorted(victims_of(request)) == NODE_NAMES
    assert answer == {"NodeNameToMetaVictims": victims_of(request)}


@pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "not seen yet"])
@pytest.mark.parametrize("form", FORMS)
async def test_preempt_stops_a_member_whose_gang_could_not_start(
    service: Service, form: str, *, is_seen: bool
) -> None:
    learn(service, form, min_member=3)
    request = recorded(form, "preempt")
    request["Pod"]["metadata"]["labels"] = {POD_GROUP_LABEL: "gang"}
    raw = json.dumps(request["Pod"]).encode()
    if is_seen:
        observe(service.scene.cluster, service.decoder.pod(raw))

    assert await service.ask("preempt", request) == {"NodeNameToMetaVictims": {}}


@pytest.mark.parametrize("form", FORMS)
async def test_preempt_without_offers_is_answered(service: Service, form: str) -> None:
    request = recorded(form, "preempt")
    request["NodeNameToVictims"] = request["NodeNameToMetaVictims"] = None

    assert await service.ask("preempt", request) == {"NodeNameToMetaVictims": {}}


@pytest.mark.parametrize("form", FORMS)
async def test_a_plain_pod_is_bound(service: Service, form: str) -> None:
    request = recorded(form, "bind")
    await service.ask("filter", plain(form))

    assert await service.ask("bind", request) == {"Error": ""}
    assert service.scene.binder.calls == [(request["PodName"], request["Node"])]


@pytest.mark.parametrize("form", FORMS)
async def test_a_whole_gang_is_filtered_and_bound(service: Service, form: str) -> None:
    learn(service, form)
    seen(service, form)
    placed: list[tuple[str, str, str]] = []
    for request in (recorded(form, "filter"), sibling(form, "filter")):
        metadata = request["Pod"]["metadata"]
        taken = {node for *_, node in placed}
        left = [name for name in NODE_NAMES if name not in taken]
        if form == "names":
            request["NodeNames"] = left
        else:
            items = request["Nodes"]["items"]
            request["Nodes"]["items"] = [i for i in items if i["metadata"]["name"] in left]
        (node,) = answered_nodes(await service.ask("filter", request))
        placed.append((metadata["name"], metadata["uid"], node))
    bodies = [
        {"PodName": name, "PodNamespace": f"recorded-{form}", "PodUID": uid, "Node": node}
        for name, uid, node in placed
    ]
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(service.ask("bind", bodies[0]))
        await until(lambda: service.scene.waiting.held == 1)
        assert service.scene.binder.calls == []
        second = tasks.create_task(service.ask("bind", bodies[1]))

    assert (first.result(), second.result()) == ({"Error": ""}, {"Error": ""})
    assert sorted(service.scene.binder.calls) == sorted((name, node) for name, _, node in placed)


@pytest.mark.parametrize("form", FORMS)
async def test_a_pod_that_is_being_bound_has_its_node_no_victims_and_one_write(
    service: Service, form: str
) -> None:
    learn(service, form, min_member=1)
    tried, request = recorded(form, "filter"), recorded(form, "bind")
    done = asyncio.Event()

    async def hold_up(_: PodRef) -> None:
        await done.wait()

    service.scene.binder.before = hold_up
    await service.ask("filter", tried)
    async with asyncio.TaskGroup() as tasks:
        binds = [tasks.create_task(service.ask("bind", request))]
        await until(lambda: service.scene.binder.calls)
        again = await service.ask("filter", tried)
        victims = await service.ask("preempt", {**recorded(form, "preempt"), "Pod": tried["Pod"]})
        binds.append(tasks.create_task(service.ask("bind", request)))
        await until(lambda: service.scene.binds.unfinished == 2)
        done.set()

    assert answered_nodes(again) == [request["Node"]]
    assert victims == {"NodeNameToMetaVictims": {}}
    assert [bind.result() for bind in binds] == [{"Error": ""}] * 2
    assert service.scene.binder.calls == [(request["PodName"], request["Node"])]


async def test_a_held_bind_ends_when_the_client_hangs_up(service: Service) -> None:
    learn(service, "names")
    seen(service, "names")
    raw = json.dumps(recorded("names", "filter")["Pod"]).encode()
    observe(service.scene.cluster, service.decoder.pod(raw))
    body = json.dumps({**recorded("names", "bind"), "PodUID": "uid-x"}).encode()
    messages = asyncio.Queue[dict[str, Any]]()
    messages.put_nowait({"type": "http.request", "body": body, "more_body": False})
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/bind", "headers": []}
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(service.app(scope, messages.get, send))
        await until(lambda: service.scene.waiting.held == 1)
        messages.put_nowait({"type": "http.disconnect"})

    (_, body_message) = sent
    assert b"kube-scheduler hung up" in body_message["body"]
    assert service.scene.binder.calls == []


async def test_a_pod_that_was_deleted_is_not_brought_back(service: Service) -> None:
    learn(service, "names")
    request = recorded("names", "filter")
    observe(service.scene.cluster, deleted(request["Pod"]["metadata"]["uid"]))

    await service.ask("filter", request)

    assert service.scene.view.pods == {}
