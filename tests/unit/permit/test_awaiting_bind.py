"""The room of a member that kube-scheduler has just assumed is not exchanged with a sibling's."""

import asyncio
from dataclasses import replace

import pytest

from extender.api.reasons import Reason
from extender.gang.verdicts import FilterVerdict, GangOptions, OneNode, Refuse
from extender.permit.timing import BACK_OFF_SECONDS
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from tests.makers import nodes, observe, planned, pod_group, pods
from tests.unit.server.scene import Scene

pytestmark = pytest.mark.looptime

A, B, C = pods(3, 4)
EXCHANGED = OneNode("n0", reserve={B.uid: "n0", A.uid: "n1"})


def begin(cluster: Cluster) -> Scene:
    """Have two members planned, each on a full node of its own, and the first one answered."""
    facts = [*nodes(4, 4), A, B, C, pod_group(), planned(gang_0="n0", gang_1="n1")]
    scene = Scene(cluster, facts, options=GangOptions(reject_percentage=100))
    assert ask(scene, A, "n0", "n1") == OneNode("n0")
    return scene


def ask(scene: Scene, subject: PodInfo, *sent: str) -> FilterVerdict:
    return scene.decide(subject, sent)


async def test_its_room_is_not_given_to_a_sibling(cluster: Cluster) -> None:
    scene = begin(cluster)
    found = ask(scene, B, "n0")

    assert isinstance(found, Refuse)
    assert found.reason is Reason.RESERVED
    assert scene.view.planned_node(A.uid) == "n0"


async def test_another_siblings_is(cluster: Cluster) -> None:
    facts = [*nodes(8, 4), A, B, C, pod_group(), planned(gang_0="n0", gang_2="n0", gang_1="n1")]
    scene = Scene(cluster, facts)
    ask(scene, A, "n0", "n1")

    assert ask(scene, B, "n0") == OneNode("n0", reserve={B.uid: "n0", C.uid: "n1"})


async def test_no_bind_request_comes_for_so_long(cluster: Cluster) -> None:
    scene = begin(cluster)
    await asyncio.sleep(BACK_OFF_SECONDS)

    assert ask(scene, B, "n0") == EXCHANGED


async def test_kube_scheduler_tries_it_again_and_finds_no_node(cluster: Cluster) -> None:
    scene = begin(cluster)
    ask(scene, A, "elsewhere")

    assert ask(scene, B, "n0") == EXCHANGED


async def test_kube_scheduler_says_that_it_has_no_node(cluster: Cluster) -> None:
    scene = begin(cluster)
    observe(scene.cluster, replace(A, unschedulable="0/2 nodes are available"))

    assert ask(scene, B, "n0") == EXCHANGED


async def test_its_bind_request_has_come_and_ended(cluster: Cluster) -> None:
    scene = begin(cluster)

    async def at_once() -> None:
        """Hang up."""

    assert "hung up" in await scene.bind(A, "n0", at_once)
    assert ask(scene, B, "n0") == EXCHANGED


async def test_its_bind_request_finds_it_bound_already(cluster: Cluster) -> None:
    scene = begin(cluster)
    cluster.apply(ev.PodBinding(A, "n0"))
    ask(scene, A, "n0", "n1")

    assert await scene.bind(A, "n0") == ""
    assert A.uid not in scene.verdicts.awaiting_bind
