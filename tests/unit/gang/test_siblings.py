"""Which members are tried again when siblings are held."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from extender.api.core_v1 import LabelSelector
from extender.api.wellknown import INDEX_LABEL
from extender.gang import hold
from extender.state.cluster.records import PodInfo, PodTerm
from tests.makers import cluster_of, key, nodes, planned, pod, pod_group, shape

NO_NODE = "0/3 nodes are available: 3 node(s) didn't match pod affinity rules."


def term(**labels: str) -> PodTerm:
    return PodTerm(LabelSelector(match_labels={**labels}))


NEAR = replace(shape(), seeks=(term(role="leader"),))
EVEN = replace(shape(), seeks=(replace(term(app="gang"), spread=True),))
BOTH = replace(shape(), seeks=(*NEAR.seeks, *EVEN.seeks))
BY_INDEX = replace(shape(), seeks=(term(**{INDEX_LABEL: "0"}),))
ELSEWHERE = replace(shape(), seeks=(PodTerm(LabelSelector(), frozenset(("other",))),))
LABELS = {"role": "leader", "app": "gang"}
LEADER = pod("leader", group="gang", labels=LABELS, index=0)


def worker(name: str, **options: Any) -> PodInfo:
    labels = {"role": "worker", "app": "gang"}
    return pod(name, group="gang", labels=labels, **{"unschedulable": NO_NODE, **options})


A, B = worker("a", shape=NEAR), worker("b", shape=NEAR)
E, F = worker("e", shape=EVEN), worker("f", shape=EVEN)
FOUND: dict[str, tuple[Sequence[PodInfo], dict[str, bool]]] = {
    "near the leader": ([A, B], {A.uid: False, B.uid: False}),
    "near the pod of an index": ([replace(A, shape=BY_INDEX)], {A.uid: False}),
    "of those that are spread the first by priority": ([E, replace(F, priority=1)], {F.uid: True}),
    "each shape has its own": (
        [E, replace(F, shape=BOTH), A],
        {E.uid: True, F.uid: True, A.uid: False},
    ),
    "refused by the extender": ([replace(A, unschedulable="gang ns/gang: no room")], {}),
    "not refused": ([replace(A, unschedulable=None)], {}),
    "about pods of another namespace": ([replace(A, shape=ELSEWHERE)], {}),
    "about nobody": ([replace(A, shape=shape())], {}),
}


@pytest.mark.parametrize(("members", "want"), FOUND.values(), ids=FOUND)
def test_members_are_tried_again_where_a_held_sibling_may_help(
    members: Sequence[PodInfo], want: dict[str, bool]
) -> None:
    plan = planned(**{each.name: "n0" for each in members})
    view = cluster_of(nodes(8), pod_group(), LEADER, members, plan).view()

    found = hold.refused_beside([LEADER], key("gang"), view=view, tried=())
    assert hold.to_patch(found, [LEADER]) == want
    tried = {each.uid for each in found}
    assert hold.refused_beside([LEADER], key("gang"), view=view, tried=tried) == []
    assert hold.refused_beside([], key("gang"), view=view, tried=()) == []


def test_a_pod_is_no_sibling_of_itself() -> None:
    alone = replace(A, shape=replace(shape(), seeks=(term(role="worker"),)))
    assert not hold.are_sought(alone, view=cluster_of(alone).view())
    assert hold.are_sought(alone, view=cluster_of(alone, B).view())


def test_those_that_have_to_be_near_another_come_later() -> None:
    alike = replace(B, shape=replace(shape(), seeks=(term(app="gang"),)))
    view = cluster_of(LEADER, A, alike, E, pod("other", group="gang")).view()
    assert hold.come_later(key("gang"), view=view) == {A.uid}
    assert hold.come_later(key("gang"), view=cluster_of(A, E).view()) == set()
