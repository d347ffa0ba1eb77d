"""What a refusal says of nodes: the same at each attempt, whichever nodes were sent."""

from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.server.verbs import LIKEWISE
from extender.state.cluster import events as ev
from extender.state.cluster.records import NodeInfo
from extender.state.cluster.store import Cluster
from tests.makers import deleted, node, nodes, observe, planned, pod, pod_group, pods
from tests.unit.server.scene import Scene, said

pytestmark = pytest.mark.looptime

TOO_FEW = "gang ns/gang: 1 of the 3 pods that it needs exist"


def refused(scene: Scene, name: str, sent: list[str], **fields: Any) -> dict[str, str]:
    found: dict[str, str] = scene.filter(name, sent, **fields)["FailedAndUnresolvableNodes"]
    return found


async def test_a_gang_is_refused_every_node_in_the_same_way_whatever_was_sent(
    cluster: Cluster,
) -> None:
    scene = Scene(cluster, nodes(4, 4, 4), pod_group("gang", 3), pod("a", 1, group="gang"))

    answers = [refused(scene, "a", sent, group="gang") for sent in (["n2"], ["n1", "n0"])]

    assert answers == [{"n0": TOO_FEW, "n1": LIKEWISE, "n2": LIKEWISE}] * 2


async def test_nodes_that_come_and_go_are_in_the_next_refusal(cluster: Cluster) -> None:
    scene = Scene(cluster, nodes(4, 4), pod_group("gang", 3), pod("a", 1, group="gang"))
    refused(scene, "a", ["n0"], group="gang")

    observe(cluster, node("late", 4), deleted("n0", NodeInfo))

    assert refused(scene, "a", ["n1"], group="gang") == {"late": TOO_FEW, "n1": LIKEWISE}


async def test_one_node_and_no_node_that_is_known(cluster: Cluster) -> None:
    scene = Scene(cluster, pod_group("gang", 3), pod("a", 1, group="gang"))
    assert refused(scene, "a", ["unknown"], group="gang") == {"unknown": TOO_FEW}

    observe(cluster, node("n0", 4))
    assert refused(scene, "a", ["n0"], group="gang") == {"n0": TOO_FEW}


async def test_where_an_eviction_may_help_only_what_was_sent_is_refused(cluster: Cluster) -> None:
    """kube-scheduler's own filters have found which of the others it may look at."""
    rivals = pods(2, 4, group="rival")
    plan = planned(rival_0="n0", rival_1="n1")
    scene = Scene(cluster, nodes(4, 4, 4), pod_group("rival", 2), *rivals, plan)
    last = [pod_group("one", 1), pod("last", 4, group="one"), pod("plain", 4)]
    observe(cluster, *last, pod("old", 1, on="n2"))

    assert list(refused(scene, "plain", ["n0", "n1"], cpu=4)) == ["n0"]
    assert LIKEWISE not in refused(scene, "last", ["n0", "n1"], cpu=4, group="one").values()


async def test_nodes_that_are_left_out_have_each_text_once(cluster: Cluster) -> None:
    rivals = pods(3, 4, group="rival")
    plan = planned(rival_0="n0", rival_1="n1", rival_2="n2")
    scene = Scene(cluster, nodes(4, 4, 4, 4), pod_group("rival", 3), *rivals, plan)
    observe(cluster, ev.BoundAhead({"rival-2": "n2"}), pod("plain", 4))

    answer = scene.filter("plain", ["n0", "n1", "n2", "n3"], cpu=4)

    assert answer["NodeNames"] == ["n3"]
    assert list(answer["FailedAndUnresolvableNodes"]) == ["n0", "n2"]


async def test_the_text_of_a_refusal_is_found_among_the_others(cluster: Cluster) -> None:
    scene = Scene(cluster, nodes(4, 4), pod_group("gang", 3), pod("a", 1, group="gang"))
    assert said(scene.filter("a", ["n1"], group="gang")) == TOO_FEW
    assert scene.view.refused["a"].reason == Reason.NOT_ENOUGH_PODS
