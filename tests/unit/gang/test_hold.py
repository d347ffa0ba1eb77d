"""Tests of what bind answers, and of members that are tried again when siblings are held."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from extender.api.core_v1 import LabelSelector
from extender.api.reasons import Reason
from extender.api.wellknown import INDEX_LABEL
from extender.gang import hold
from extender.gang.verdicts import Allow, GangOptions, PermitVerdict, Refuse, Wait, is_ours
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo, PodTerm
from tests.makers import cluster_of, key, nodes, planned, pod, pod_group, pods, shape

A, B, C = pods(3, 4)
ROOM = nodes(4, 4, 4, 4)
WAITING = [ev.PodWaiting(A, "n0"), ev.PodWaiting(B, "n1")]
WAITING_ALL = [A, B, C, *WAITING, ev.PodWaiting(C, "n2")]
DEADLINE = 100.0

WANT: dict[str, tuple[Sequence[Any], float, PermitVerdict]] = {
    "the PodGroup is gone": (
        [A, B, C, *WAITING],
        0.0,
        Refuse(Reason.POD_GROUP_DELETED, "gang ns/gang: its PodGroup was deleted"),
    ),
    "two of three wait": ([pod_group(), A, B, C, *WAITING], 0.0, Wait(2, 3)),
    "planned ones do not count": (
        [pod_group(), A, B, C, *WAITING, planned(gang_2="n2")],
        0.0,
        Wait(2, 3),
    ),
    "all three wait": ([pod_group(), A, B, C, *WAITING, ev.PodWaiting(C, "n2")], 0.0, Allow()),
    "another scheduler has filled the node of one": (
        [pod_group(), *WAITING_ALL, pod("other", 1, on="n1", scheduler="other")],
        0.0,
        Refuse(
            Reason.ROOM_TAKEN,
            "gang ns/gang: another scheduler has filled a node on which one of its pods waits",
        ),
    ),
    "another scheduler has left room on the node of one": (
        [pod_group(), *WAITING_ALL, pod("other", 0, on="n1", scheduler="other")],
        0.0,
        Allow(),
    ),
    "our books are behind, and no other scheduler is there": (
        [pod_group(), *WAITING_ALL, pod("other", 1, on="n1")],
        0.0,
        Allow(),
    ),
    "another scheduler has filled another node": (
        [pod_group(), *WAITING_ALL, pod("other", 5, on="n3", scheduler="other")],
        0.0,
        Allow(),
    ),
    "bound ones count": (
        [pod_group(), A, B, pod("c", 4, group="gang", on="n2"), *WAITING],
        0.0,
        Allow(),
    ),
    "those being bound count": (
        [pod_group(), A, B, C, *WAITING, ev.PodBinding(C, "n2")],
        0.0,
        Allow(),
    ),
    "more than minMember": (
        [pod_group(min_member=1), A, B, C, *WAITING],
        0.0,
        Allow(),
    ),
    "too few pods are left": (
        [pod_group(), A, B, *WAITING],
        0.0,
        Refuse(Reason.NOT_ENOUGH_PODS, "gang ns/gang: 2 of the 3 pods that it needs are left"),
    ),
    "just before the deadline": ([pod_group(), A, B, C, *WAITING], DEADLINE - 0.1, Wait(2, 3)),
    "at the deadline": (
        [pod_group(), A, B, C, *WAITING],
        DEADLINE,
        Refuse(
            Reason.SCHEDULE_TIMEOUT,
            "gang ns/gang: 2 of 3 pods got a node before the time-out",
            deny=True,
        ),
    ),
    "quorum after the deadline is quorum": (
        [pod_group(min_member=2), A, B, C, *WAITING],
        DEADLINE + 1,
        Allow(),
    ),
    "too few pods weighs more than the deadline: the group did not fail": (
        [pod_group(), A, B, *WAITING],
        DEADLINE,
        Refuse(Reason.NOT_ENOUGH_PODS, "gang ns/gang: 2 of the 3 pods that it needs are left"),
    ),
}


@pytest.mark.parametrize(("there", "now", "want"), WANT.values(), ids=WANT)
def test_permit(there: Sequence[Any], now: float, want: PermitVerdict) -> None:
    view = cluster_of(ROOM, there).view()

    assert hold.bind_or_wait(key("gang"), view=view, now=now, deadline=DEADLINE) == want


NO_PLACE = "0/3 nodes are available: 3 Insufficient cpu."
FAILED = pod("failed", 1, group="gang", unschedulable=NO_PLACE)
PLAN = planned(failed="n0")


def waiting(count: int) -> list[Any]:
    members = pods(count, 0)
    return [*members, *(ev.PodWaiting(member, "n0") for member in members)]


def refusal(gap: int) -> Refuse:
    text = f"gang ns/gang: no node for one of its pods, and {gap} more are needed"
    return Refuse(Reason.MEMBER_UNSCHEDULABLE, text, deny=True)


FAILURES: dict[str, tuple[Sequence[Any], int, Refuse | None]] = {
    "the gap is exactly ten per cent": ([pod_group(min_member=10), waiting(9), PLAN], 10, None),
    "the gap is more than ten per cent": (
        [pod_group(min_member=10), waiting(8), PLAN],
        10,
        refusal(2),
    ),
    "ten per cent of nine is less than one pod": (
        [pod_group(min_member=9), waiting(8), PLAN],
        10,
        refusal(1),
    ),
    "ten per cent of nineteen is one pod, not two": (
        [pod_group(min_member=19), waiting(17), PLAN],
        10,
        refusal(2),
    ),
    "ten per cent of twenty is two pods": ([pod_group(min_member=20), waiting(18), PLAN], 10, None),
    "at zero per cent every gap counts": (
        [pod_group(min_member=10), waiting(9), PLAN],
        0,
        refusal(1),
    ),
    "at zero per cent no gap is no failure": (
        [pod_group(min_member=10), waiting(10), PLAN],
        0,
        None,
    ),
    "at a hundred per cent no gap counts": ([pod_group(min_member=10), PLAN], 100, None),
    "no member waits yet": ([pod_group(min_member=10), PLAN], 99, refusal(10)),
    "the pod is being bound": (
        [pod_group(min_member=10), waiting(1), ev.PodBinding(FAILED, "n0")],
        10,
        None,
    ),
    "quorum is there": ([pod_group(min_member=2), waiting(2), PLAN], 10, None),
    "more than quorum is there": ([pod_group(min_member=2), waiting(3), PLAN], 10, None),
    "a member that no plan counts on": ([pod_group(min_member=10), waiting(2)], 10, None),
    "a member that waits again already": (
        [pod_group(min_member=10), waiting(2), ev.PodWaiting(FAILED, "n0")],
        10,
        None,
    ),
    "there is no PodGroup": ([waiting(2), PLAN], 10, None),
}


@pytest.mark.parametrize(("there", "percentage", "want"), FAILURES.values(), ids=FAILURES)
def test_post_filter(there: Sequence[Any], percentage: int, want: Refuse | None) -> None:
    view = cluster_of(nodes(8), FAILED, there).view()
    options = GangOptions(reject_percentage=percentage)

    assert hold.no_node(FAILED, key("gang"), view=view, options=options) == want


WANT_OURS: dict[str, tuple[str, bool]] = {
    "a refusal of ours": (
        "0/3 nodes are available: 3 gang ns/gang: 1 of 2 pods got a node before the time-out.",
        True,
    ),
    "a refusal of another gang's": (
        "0/3 nodes are available: 3 gang ns/gang-2: there is no such PodGroup.",
        False,
    ),
    "kube-scheduler's own": (NO_PLACE, False),
    "no text": ("", False),
}


@pytest.mark.parametrize(("message", "want"), WANT_OURS.values(), ids=WANT_OURS)
def test_our_own_text_is_known_again(message: str, want: bool) -> None:
    assert is_ours(message, key("gang")) is want


WANT_STUCK: dict[str, tuple[Sequence[Any], str | None]] = {
    "a planned member that had no node": ([FAILED, PLAN], "failed"),
    "a planned member that we had refused": (
        [pod("failed", group="gang", unschedulable="gang ns/gang: no"), PLAN],
        None,
    ),
    "a planned member of which nothing is known": ([pod("failed", group="gang"), PLAN], None),
    "a member that had no node and is not planned": ([FAILED], None),
    "a member that had no node and waits now": ([FAILED, ev.PodWaiting(FAILED, "n0")], None),
}


@pytest.mark.parametrize(("there", "want"), WANT_STUCK.values(), ids=WANT_STUCK)
def test_stuck(there: Sequence[Any], want: str | None) -> None:
    found = hold.stuck_member(key("gang"), view=cluster_of(nodes(8), there).view())

    assert (found and found.uid) == want


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


FIRST, SECOND = worker("a", shape=NEAR), worker("b", shape=NEAR)
EVEN_1, EVEN_2 = worker("e", shape=EVEN), worker("f", shape=EVEN)
FOUND: dict[str, tuple[Sequence[PodInfo], dict[str, bool]]] = {
    "near the leader": ([FIRST, SECOND], {FIRST.uid: False, SECOND.uid: False}),
    "near the pod of an index": ([replace(FIRST, shape=BY_INDEX)], {FIRST.uid: False}),
    "of those that are spread the first by priority": (
        [EVEN_1, replace(EVEN_2, priority=1)],
        {EVEN_2.uid: True},
    ),
    "each shape has its own": (
        [EVEN_1, replace(EVEN_2, shape=BOTH), FIRST],
        {EVEN_1.uid: True, EVEN_2.uid: True, FIRST.uid: False},
    ),
    "refused by the extender": ([replace(FIRST, unschedulable="gang ns/gang: no room")], {}),
    "not refused": ([replace(FIRST, unschedulable=None)], {}),
    "about pods of another namespace": ([replace(FIRST, shape=ELSEWHERE)], {}),
    "about nobody": ([replace(FIRST, shape=shape())], {}),
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
    alone = replace(FIRST, shape=replace(shape(), seeks=(term(role="worker"),)))
    assert not hold.are_sought(alone, view=cluster_of(alone).view())
    assert hold.are_sought(alone, view=cluster_of(alone, SECOND).view())


def test_those_that_have_to_be_near_another_come_later() -> None:
    alike = replace(SECOND, shape=replace(shape(), seeks=(term(app="gang"),)))
    view = cluster_of(LEADER, FIRST, alike, EVEN_1, pod("other", group="gang")).view()
    assert hold.come_later(key("gang"), view=view) == {FIRST.uid}
    assert hold.come_later(key("gang"), view=cluster_of(FIRST, EVEN_1).view()) == set()
