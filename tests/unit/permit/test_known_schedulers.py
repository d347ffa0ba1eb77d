"""What filter and bind requests show of kube-scheduler: its looks, and whether it asks of all."""

from typing import Any

import pytest

from extender.permit.group_memory import KnownSchedulers
from extender.state.cluster.records import Pattern, PodInfo, Shape
from extender.state.cluster.store import Cluster
from tests.makers import nodes, observe, pod, pod_group, requests, shape
from tests.unit.server.scene import Scene

GPU = Shape(requests(1), extended=True)
PLAIN = pod("plain")
OURS = PLAIN.scheduler


@pytest.mark.parametrize(
    ("filtered", "bound", "known"),
    [
        ([PLAIN], [PLAIN], True),
        ([PLAIN], [], False),
        ([], [PLAIN], False),
        ([pod("gpu", GPU)], [PLAIN], False),
        ([PLAIN], [pod("gpu", GPU)], False),
        ([PLAIN, pod("gpu", GPU)], [pod("gpu", GPU), PLAIN], True),
        ([PLAIN], [pod("other", scheduler="other")], False),
    ],
)
def test_a_scheduler_asks_about_all_pods_where_it_asks_about_one_of_no_extended_resource(
    filtered: list[PodInfo], bound: list[PodInfo], *, known: bool
) -> None:
    proven = KnownSchedulers()
    for each in filtered:
        proven.filtered(each)
    for each in bound:
        proven.bound(each)
    assert (OURS in proven) is known
    assert "other" not in proven


@pytest.mark.looptime
async def test_requests_prove_it(cluster: Cluster) -> None:
    scene = Scene(cluster, [*nodes(4), PLAIN])
    scene.decide(PLAIN, ["n0"])
    assert OURS not in scene.verdicts.known_schedulers
    assert await scene.bind(PLAIN, "n0") == ""
    assert OURS in scene.verdicts.known_schedulers


def member(**fields: Any) -> PodInfo:
    """Return a member with a pattern."""
    return pod("gang-0", group="gang", pattern=Pattern(shape(), "ns", {}, frozenset()), **fields)


@pytest.mark.looptime
async def test_a_filter_request_is_a_look(cluster: Cluster) -> None:
    subject = member()
    scene = Scene(cluster, [*nodes(4, 4), pod_group(min_member=1), subject])
    assert subject.pattern is not None
    scene.decide(subject, ["n0"])
    assert scene.view.good_nodes(subject.pattern) == {"n0"}
    scene.decide(subject, ["n1"])
    assert scene.view.good_nodes(subject.pattern) == {"n0", "n1"}


@pytest.mark.looptime
async def test_a_pod_that_filter_leaves_a_choice_may_be_assumed_anywhere(cluster: Cluster) -> None:
    scene = Scene(cluster, [*nodes(4, 4), PLAIN])
    in_hand = scene.verdicts.awaiting_bind
    scene.decide(PLAIN, ["n0", "n1"])
    assert [*in_hand.assumed_on(None)] == [PLAIN.uid]
    observe(scene.cluster, pod("plain", unschedulable="0/2 nodes are available"))
    assert [*in_hand.assumed_on(None)] == []
    scene.decide(PLAIN, ["n0", "n1"])
    assert await scene.bind(PLAIN, "n0") == ""
    assert [*in_hand.assumed_on(None)] == []
