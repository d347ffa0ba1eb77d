"""Pods that are bound before kube-scheduler has seen it: no answer puts one on another node."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.cluster import faults
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import PATIENT, RESERVED, Gangs, await_bind_requests, bind_requests
from tests.harness.client import Api, Object
from tests.harness.gang_scheduler import GangScheduler

NAMES = ["g-0", "g-1", "g-2"]


@pytest.fixture
def alone(patient_gang: GangScheduler) -> Iterator[GangScheduler]:
    """The pair, without its kube-scheduler at first, which another test may need later."""
    patient_gang.scheduler.kill()
    yield patient_gang
    patient_gang.revive()


def ask(extender: GangScheduler, verb: str, request: Object) -> Any:
    answer = httpx.post(f"{extender.url}/{verb}", json=request, timeout=120)
    answer.raise_for_status()
    return answer.json()


def test_a_gang_that_has_begun_has_its_room_from_the_first_answer_on(
    alone: GangScheduler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """Without its extender and its kube-scheduler one member was bound, and two were not."""
    names = nodes(3, cpu="1")
    alone.extender.kill()
    gangs.create("g", 3, scheduler_name=PATIENT)
    faults.bind(api, gangs.namespace, "g-0", names[0])
    before = bind_requests(api)

    alone.extender.start()
    alone.wait_ready()

    assert alone.metric(RESERVED) == 2
    member = api.get("pods", "g-0", gangs.namespace)
    bound: Object = {"Pod": member, "Nodes": None}
    assert ask(alone, "filter", {**bound, "NodeNames": names})["NodeNames"] == [names[0]]
    assert ask(alone, "filter", {**bound, "NodeNames": names[1:]})["NodeNames"] == []
    victims = {names[1]: {"Pods": [{"UID": "any"}], "NumPDBViolations": 0}}
    assert ask(alone, "preempt", {**bound, "NodeNameToMetaVictims": victims}) == {
        "NodeNameToMetaVictims": {}
    }
    uid = member["metadata"]["uid"]
    request = {"PodName": "g-0", "PodNamespace": gangs.namespace, "PodUID": uid}
    assert ask(alone, "bind", {**request, "Node": names[0]}) == {"Error": ""}
    assert ask(alone, "bind", {**request, "Node": names[1]})["Error"]

    alone.scheduler.start()
    gangs.await_phases("g", Running=3, timeout=120)
    assert sorted(placement.pod for placement in gangs.placements()) == NAMES
    await_bind_requests(api, before + 2)
