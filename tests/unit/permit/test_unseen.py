"""What filter and bind answer while kube-scheduler has not seen what was bound ahead of it."""

import asyncio
from dataclasses import replace

import pytest

from extender.api.reasons import Reason
from extender.gang.verdicts import AnyNode, FilterVerdict, OneNode, OneOf, Refuse
from extender.permit.timing import MOMENT_SECONDS
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from tests.makers import node, nodes, observe, planned, pod, pod_group, pods
from tests.unit.server.scene import Scene

pytestmark = pytest.mark.looptime

A, B = pods(2, 3)
AHEAD = [
    *(nodes(4, 4, 4), pod_group(min_member=2), A, B),
    *(planned(gang_0="n0", gang_1="n1"), ev.BoundAhead({"gang-0": "n0", "gang-1": "n1"})),
]
SENT = ("n0", "n1", "n2")
PLAIN = pod("plain", 2)
TEXT = "kube-scheduler has not seen all pods on the nodes to choose from"


def ask(scene: Scene, subject: PodInfo, sent: tuple[str, ...] = SENT) -> FilterVerdict:
    known = scene.view.pods.get(subject.uid, subject)
    return scene.decide(known, sent)


async def test_a_pod_passes_over_what_kube_scheduler_has_not_seen(cluster: Cluster) -> None:
    scene = Scene(cluster, AHEAD)

    assert ask(scene, PLAIN) == OneOf(("n2",), not_seen=frozenset({"n0", "n1"}))
    assert ask(scene, pod("small", 1)) == AnyNode()


async def test_what_is_unseen_and_what_plans_keep_have_texts_of_their_own(cluster: Cluster) -> None:
    other = pods(1, 3, group="other")
    scene = Scene(cluster, AHEAD, node("n3", 4), pod_group("other", 1), other)
    observe(cluster, planned(other_0="n2"))

    sent = (*SENT, "n3")
    assert ask(scene, PLAIN, sent) == OneOf(("n3",), not_seen=frozenset({"n0", "n1"}))


async def test_a_pod_that_finds_no_other_node_is_refused_and_woken(cluster: Cluster) -> None:
    scene = Scene(cluster, AHEAD)

    assert ask(scene, PLAIN, ("n0", "n1")) == Refuse(Reason.NOT_SEEN_YET, TEXT)
    assert scene.view.refused["plain"].reason == Reason.NOT_SEEN_YET
    assert scene.woken == [("plain", MOMENT_SECONDS)]


async def test_a_member_goes_to_its_planned_node_though_it_is_full_of_others(
    cluster: Cluster,
) -> None:
    other = pods(2, 1, group="other")
    scene = Scene(cluster, AHEAD, pod_group("other", 2), other, planned(other_0="n0", other_1="n1"))

    assert ask(scene, other[0]) == OneNode("n0")
    assert [ask(scene, each) for each in (other[1],)] == [OneNode("n1")]


async def test_the_room_of_a_plan_that_was_lost_to_an_unseen_pod_is_moved(
    cluster: Cluster,
) -> None:
    """One that outbids another for a node is beaten there by a Binding."""
    high = pods(1, 2, group="high", priority=9)
    scene = Scene(
        cluster,
        *(nodes(4, 4, 4), pod_group(min_member=2), A, B, planned(gang_0="n0", gang_1="n1")),
        *(pod_group("high", 1), high, planned(high_0="n0")),
        ev.BoundAhead({"gang-0": "n0"}),
    )

    assert ask(scene, high[0]) == OneNode("n1", reserve={"high-0": "n1"})


async def test_a_gang_is_planned_beside_what_kube_scheduler_has_not_seen(cluster: Cluster) -> None:
    other = pods(2, 2, group="other")
    scene = Scene(cluster, AHEAD, pod_group("other", 2), other)

    assert ask(scene, other[0], ("n0", "n1", "n2")) == OneNode(
        "n2", reserve={"other-0": "n2", "other-1": "n2"}
    )


async def test_few_nodes_that_are_left_of_a_sample_are_not_all_there_are(cluster: Cluster) -> None:
    """Members go to nodes that were not sent: more would have been, were there no limit."""
    many = [node(f"n{number}", 4) for number in range(110)]
    first, other = pods(99, 3), pods(13, 4, group="other")
    at = {each.uid: f"n{number}" for number, each in enumerate(first)}
    scene = Scene(cluster, many, pod_group(min_member=99), first)
    scene.cluster.apply(ev.Planned(at))
    scene.cluster.apply(ev.BoundAhead(at))
    scene = Scene(cluster, pod_group("other", 11), other)
    sent = tuple(each.name for each in many[:100])

    found = ask(scene, other[0], sent)
    assert isinstance(found, OneNode)
    assert found.node == "n99"
    assert len(found.reserve) == 11


async def test_a_bind_that_came_too_late_is_refused(cluster: Cluster) -> None:
    """The pod had its answer from filter before the gang was bound ahead."""
    scene = Scene(cluster, AHEAD, PLAIN)

    assert await scene.bind(PLAIN, "n0") == TEXT
    assert scene.binder.calls == []
    assert scene.view.reservation(PLAIN.uid) is None
    assert await scene.bind(PLAIN, "n2") == ""


async def test_a_bind_proves_that_kube_scheduler_has_seen_the_pod(cluster: Cluster) -> None:
    scene = Scene(cluster, AHEAD)

    assert await scene.bind(A, "n0") == ""
    assert [pod.uid for pod in scene.view.unseen.pods] == [B.uid]


async def test_a_bind_to_another_node_proves_nothing(cluster: Cluster) -> None:
    scene = Scene(cluster, AHEAD)

    assert await scene.bind(A, "n2") != ""
    assert A.uid in scene.view.unseen


async def test_a_bound_pod_that_is_brought_late_is_a_sign(cluster: Cluster) -> None:
    scene = Scene(cluster, AHEAD, bound := replace(A, node="n0"))
    scene.lag.look()
    await asyncio.sleep(3.0)

    assert ask(scene, bound) == OneNode("n0")
    assert scene.lag.behind
