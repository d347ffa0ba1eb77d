"""Pods for which kube-scheduler makes room by preemption, and what is decided about that room.

kube-scheduler judges each pod as if nominated pods of its priority or above were on their nodes. It
judges the members of a plan too, so a plan need not know; what is bound without it has to.
"""

from dataclasses import replace
from typing import Any

import pytest

from extender.gang import ahead
from extender.gang.ahead import Left
from extender.gang.fit import fitting
from extender.gang.wake import UngroupedPods
from extender.permit.group_memory import AwaitingBind
from extender.state.cluster import events as ev
from extender.state.cluster.records import Pattern, PodInfo
from extender.state.cluster.reservations import Claim
from extender.state.cluster.store import Cluster
from extender.steps import at_once
from tests.makers import (
    ManualClock,
    cluster_of,
    deleted,
    key,
    nodes,
    observe,
    planned,
    pod,
    pod_group,
    requests,
    shape,
)

OURS = "default-scheduler"
PATTERN = Pattern(shape(1), "ns", {"app": "x"}, frozenset())
MEMBERS = [pod(f"gang-{n}", PATTERN.shape, group="gang", pattern=PATTERN) for n in range(2)]
PREEMPTOR = pod("preemptor", 3, nominated="n0", unschedulable="0/2 nodes are available")


def bound_ahead(*facts: Any) -> ahead.Together:
    """Return which members may be bound, planned one to a node, after a look at all nodes."""
    cluster = cluster_of(nodes(4, 4), pod_group(min_member=2), MEMBERS, *facts)
    look = ahead.nodes_looked_at(PATTERN, ["n0", "n1"], view=cluster.view(), at=1.0)
    observe(cluster, look, planned(gang_0="n0", gang_1="n1"))
    steps = ahead.members_able(
        key("gang"),
        view=cluster.view(),
        schedulers=[OURS],
        proven=[OURS],
        in_hand=AwaitingBind(ManualClock()),
    )
    return at_once(steps)


ELSEWHERE: dict[str, list[PodInfo]] = {
    "no pod is nominated": [],
    "of a lower priority": [replace(PREEMPTOR, priority=-1)],
    "to another node": [replace(PREEMPTOR, nominated="n7")],
    "of a scheduler that does not ask us": [replace(PREEMPTOR, scheduler="other")],
    "it is on its node": [replace(PREEMPTOR, shape=shape(1), node="n0")],
    "it is nominated no more": [PREEMPTOR, replace(PREEMPTOR, nominated=None)],
}


@pytest.mark.parametrize("facts", ELSEWHERE.values(), ids=ELSEWHERE)
def test_members_are_bound_where_no_room_is_made_for_others(facts: list[PodInfo]) -> None:
    assert bound_ahead(facts).nodes.keys() == {"gang-0", "gang-1"}


IN_THE_WAY: dict[str, list[PodInfo]] = {
    "of the same priority": [PREEMPTOR],
    "of a higher priority": [replace(PREEMPTOR, priority=5)],
    "a member of another gang": [replace(PREEMPTOR, group=key("other"))],
}


@pytest.mark.parametrize("facts", IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_a_member_is_left_to_kube_scheduler_where_room_is_made_for_another_pod(
    facts: list[PodInfo],
) -> None:
    found = bound_ahead(facts)

    assert not found.nodes
    assert found.left == {Left.NOMINATED: 1, Left.QUORUM: 1}


def test_a_claim_and_a_nominated_pod_do_not_refuse_each_other() -> None:
    """The claim keeps its room from the pod, which must not keep it from the claim's gang too."""
    claim = Claim(key("gang"), 0, {"n0": requests(2)})
    cluster = cluster_of(nodes(4), pod_group(min_member=2), MEMBERS, PREEMPTOR)
    observe(cluster, ev.Claimed([claim]))

    found = at_once(fitting(MEMBERS, 2, group=key("gang"), view=cluster.view()))
    assert found.placements == {"gang-0": "n0", "gang-1": "n0"}


def test_a_nominated_pod_is_woken_for_the_room_that_is_made_for_it() -> None:
    waiting = UngroupedPods()
    waiting.add(PREEMPTOR)

    found, _ = at_once(waiting.with_room(cluster_of(nodes(3), PREEMPTOR).view()))
    assert found == [PREEMPTOR]


CHANGES: dict[str, Any] = {
    "it is nominated elsewhere": replace(PREEMPTOR, nominated="n1"),
    "it is nominated no more": replace(PREEMPTOR, nominated=None),
    "it is bound": replace(PREEMPTOR, node="n0"),
    "it is deleted": deleted(PREEMPTOR.uid),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_pods_are_found_by_the_node_that_they_are_nominated_to(change: Any) -> None:
    cluster: Cluster = cluster_of(nodes(4, 4), PREEMPTOR)
    assert [*cluster.view().nominated_to("n0")] == [PREEMPTOR]
    observe(cluster, change)

    assert [*cluster.view().nominated_to("n0")] == []
