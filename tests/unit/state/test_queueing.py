"""What is in the queue, what Jobs have done, what has finished, and what claims keep."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.api.wellknown import GANG_GATE
from extender.state.cluster import events as ev
from extender.state.cluster.index import GroupQueue, Turn
from extender.state.cluster.records import BATCH_JOB, JobInfo, PodGroupInfo, PodInfo
from extender.state.cluster.reservations import Claim
from extender.state.cluster.store import Cluster
from tests.makers import cluster_of, key, nodes, observe, planned, pod, pod_group, pods

GANG, OTHER = key("gang"), key("other")
THREE = pods(3)


def queued(cluster: Cluster) -> list[str]:
    return [group.removeprefix("ns/") for group in cluster.view().queue]


IN_QUEUE: dict[str, tuple[list[Any], bool]] = {
    "all pods": ([pod_group(), THREE], True),
    "no PodGroup": ([THREE], False),
    "no pods": ([pod_group()], False),
    "a pod too few": ([pod_group(), THREE[:2]], False),
    "one is gated": (
        [pod_group(), THREE[:2], pod("gang-2", group="gang", gates=("x", GANG_GATE))],
        False,
    ),
    "one is behind our own gate": (
        [pod_group(), THREE[:2], pod("gang-2", group="gang", gates=(GANG_GATE,))],
        True,
    ),
    "all are planned": (
        [pod_group(), THREE, planned(gang_0="n0", gang_1="n0", gang_2="n0")],
        False,
    ),
    "one is planned": ([pod_group(), THREE, planned(gang_0="n0")], True),
    "one is bound": ([pod_group(), THREE[:2], pod("gang-2", group="gang", on="n0")], True),
    "minMember was lowered": ([pod_group(), THREE[:2], pod_group(min_member=2)], True),
    "minMember was raised": ([pod_group(), THREE, pod_group(min_member=4)], False),
    "its PodGroup went": (
        [pod_group(), THREE, ev.ObjectDeleted(PodGroupInfo, (pod_group().api_group, GANG))],
        False,
    ),
    "its plan was given up": (
        [
            pod_group(),
            THREE,
            planned(gang_0="n0", gang_1="n0", gang_2="n0"),
            ev.Unreserved(["gang-0"]),
        ],
        True,
    ),
    "a pod is going": (
        [pod_group(), THREE[:2], pod("gang-2", group="gang", on="n0", terminating=True)],
        False,
    ),
    "a pod went": ([pod_group(), THREE, ev.ObjectDeleted(PodInfo, "gang-1")], False),
    "its Job has done the rest": (
        [pod_group(), THREE[:1], JobInfo("j", GANG, 3, 2)],
        True,
    ),
    "the Job has ended": (
        [
            pod_group(),
            THREE[:1],
            JobInfo("j", GANG, 3, 2),
            JobInfo("j", GANG),
        ],
        False,
    ),
}


@pytest.mark.parametrize(("reported", "inside"), IN_QUEUE.values(), ids=IN_QUEUE)
def test_a_group_is_in_the_queue_while_room_is_all_it_lacks(
    reported: list[Any], inside: bool, cluster: Cluster
) -> None:
    observe(cluster, nodes(8), *reported)

    assert queued(cluster) == (["gang"] if inside else [])


def test_the_order_is_priority_then_age_then_name(cluster: Cluster) -> None:
    for name, priority, created in (("d", 0, 5.0), ("c", 0, 5.0), ("old", 0, 1.0), ("vip", 9, 8.0)):
        observe(
            cluster, pod_group(name, 1, created=created), pods(1, group=name, priority=priority)
        )

    assert queued(cluster) == ["vip", "old", "c", "d"]


def test_a_group_is_worth_its_least_member(cluster: Cluster) -> None:
    observe(cluster, pod_group("mixed", 2, created=1.0), pod_group("plain", 1, created=2.0))
    observe(cluster, pod("a", group="mixed", priority=9), pod("b", group="mixed", priority=1))
    observe(cluster, pods(1, group="plain", priority=5))
    assert queued(cluster) == ["plain", "mixed"]

    observe(cluster, pod("b", group="mixed", priority=7))
    assert queued(cluster) == ["mixed", "plain"]


def test_a_failure_sends_a_group_behind_until_it_starts_or_is_another(cluster: Cluster) -> None:
    observe(cluster, nodes(8))
    for number, name in enumerate("ab"):
        observe(cluster, pod_group(name, 1, created=float(number)), pods(1, group=name))

    observe(cluster, ev.GroupFailed(key("a"), at=50.0))
    assert queued(cluster) == ["b", "a"]
    observe(cluster, ev.ObjectDeleted(PodGroupInfo, (pod_group().api_group, key("a"))))
    observe(cluster, pod_group("a", 1, created=0.5))
    assert queued(cluster) == ["a", "b"]

    observe(cluster, ev.GroupFailed(key("a"), at=50.0), pod_group("a", 1, created=0.5, uid="new"))
    assert queued(cluster) == ["a", "b"]

    observe(cluster, ev.GroupFailed(key("a"), at=50.0), pod("a-0", group="a", on="n0"))
    observe(cluster, ev.ObjectDeleted(PodInfo, "a-0"), pod("a-1", group="a"))
    assert queued(cluster) == ["a", "b"]


QUORUM: dict[str, tuple[int, list[tuple[int, int]], int]] = {
    "no Jobs": (4, [], 4),
    "nothing done": (4, [(4, 0)], 4),
    "three of four done": (4, [(4, 3)], 1),
    "all done, and not ended yet": (4, [(4, 4)], 1),
    "more pods than are needed": (4, [(10, 5)], 4),
    "fewer left than are needed": (4, [(10, 8)], 2),
    "a fresh Job beside one that is nearly through": (10, [(10, 9), (10, 0)], 10),
    "a launcher without a Job and its workers": (5, [(4, 3)], 2),
    "two Jobs that are one gang": (8, [(4, 4), (4, 0)], 4),
    "an older PodGroup that asks for nothing": (0, [(4, 2)], 0),
}


@pytest.mark.parametrize(("need", "jobs", "quorum"), QUORUM.values(), ids=QUORUM)
def test_the_quorum_is_what_jobs_have_not_done_yet(
    need: int, jobs: list[tuple[int, int]], quorum: int, cluster: Cluster
) -> None:
    for number, (begun, done) in enumerate(jobs):
        observe(cluster, JobInfo(str(number), GANG, begun, done))
    observe(cluster, JobInfo("other", OTHER, 9, 9))

    assert cluster.view().quorum(pod_group(min_member=need)) == quorum


BEHIND: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "they follow those that are done": ({}, {"created": 9.0}, 2),
    "nothing has succeeded": ({"succeeded": 0}, {"created": 9.0}, 9),
    "the group has never begun": ({"started": None}, {"created": 9.0}, 9),
    "another run of the group": ({}, {"created": 11.0}, 9),
    "those that are left have nodes": ({}, {"created": 9.0, "on": "n0"}, 2),
    "enough are there for a gang": ({"min_member": 2}, {"created": 9.0}, 2),
    "a Job says what is done": ({"done": 1}, {"created": 9.0}, 8),
}


@pytest.mark.parametrize(("said", "left", "quorum"), BEHIND.values(), ids=BEHIND)
def test_members_that_were_left_behind_at_a_start_are_to_follow(
    said: dict[str, Any], left: dict[str, Any], quorum: int, cluster: Cluster
) -> None:
    fields = {"min_member": 9, "started": 10.0, "succeeded": 7, **said}
    for name in ("a", "b"):
        observe(cluster, pod(name, group="gang", **left))

    assert cluster.view().quorum(pod_group(**fields)) == quorum


def test_jobs_are_counted_once_and_leave_nothing(cluster: Cluster) -> None:
    group = pod_group(min_member=9)
    observe(
        cluster,
        JobInfo("j", GANG, 4, 2),
        JobInfo("j", GANG, 4, 3),
    )
    observe(cluster, JobInfo("k", GANG, 4, 1))
    assert cluster.view().quorum(group) == 5

    change = cluster.apply(
        ev.ObjectsListed(JobInfo, [JobInfo("k", GANG, 4, 2), JobInfo("l", None)], BATCH_JOB)
    )
    assert change.groups == {GANG}
    assert cluster.view().quorum(group) == 7

    observe(cluster, ev.ObjectDeleted(JobInfo, "k"), ev.ObjectDeleted(JobInfo, "unknown"))
    assert cluster.view().quorum(group) == 9


def test_finished_members_are_remembered_until_they_are_deleted(cluster: Cluster) -> None:
    ended = pod("gang-0", group="gang", phase="Succeeded", finished=True)
    observe(cluster, THREE)

    assert cluster.apply(ev.ObjectApplied(ended)).statuses == {GANG}
    assert cluster.apply(ev.ObjectApplied(ended)).statuses == frozenset()
    view = cluster.view()
    assert list(view.finished(GANG)) == ["gang-0"]
    assert "gang-0" not in view.tally(GANG).members

    assert cluster.apply(ev.ObjectDeleted(PodInfo, "gang-0")).statuses == {GANG}
    assert not view.finished(GANG)


def test_a_list_without_a_finished_member_says_that_it_is_gone(cluster: Cluster) -> None:
    ended = pod("gang-0", group="gang", phase="Failed", finished=True)
    observe(cluster, ended, pod("alone", phase="Failed", finished=True))
    observe(cluster, ev.ObjectsListed(PodInfo, [ended]))
    assert cluster.view().finished(GANG)

    assert cluster.apply(ev.ObjectsListed(PodInfo, [])).statuses == {GANG}
    assert not cluster.view().finished(GANG)


REPORTED: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing new": ({}, False),
    "running": ({"phase": "Running"}, True),
    "ready": ({"ready": True}, True),
    "its condition says that its gang is ready": ({"gang_ready": True}, True),
    "bound": ({"on": "n0"}, True),
    "owned": ({"owners": ("ns/job",)}, True),
    "unschedulable": ({"unschedulable": "no room"}, True),
}


@pytest.mark.parametrize(("fields", "reported"), REPORTED.values(), ids=REPORTED)
def test_a_members_progress_is_counted(
    fields: dict[str, Any], reported: bool, cluster: Cluster
) -> None:
    observe(cluster, pod("a", group="gang"))

    change = cluster.apply(ev.ObjectApplied(pod("a", group="gang", **fields)))

    assert change.statuses == ({GANG} if reported else frozenset())


def claim(group: str = GANG, cpu: int = 3000, priority: int = 0) -> Claim:
    return Claim(group, priority, {"n0": {"cpu": cpu}})


def test_a_claim_ends_with_another_list_or_when_its_group_needs_no_room(cluster: Cluster) -> None:
    view = cluster.view()
    observe(cluster, nodes(4), pod_group(), THREE)
    version = view.capacity_version
    assert not cluster.apply(ev.Claimed([claim()])).room
    assert (view.keeps_room, view.is_kept("n0")) == (True, True)
    assert cluster.apply(ev.Claimed([claim(cpu=1000)])).room
    assert not cluster.apply(ev.Claimed([claim(cpu=1000)])).room
    assert cluster.apply(ev.ObjectDeleted(PodInfo, "gang-0")).room
    assert not view.claims
    assert (view.keeps_room, view.is_kept("n0")) == (False, False)
    assert view.capacity_version > version

    observe(cluster, pod("gang-3", group="gang"), ev.Claimed([claim()]))
    assert cluster.apply(planned(gang_1="n0", gang_2="n0", gang_3="n0")).room
    assert not view.claims


def test_within_one_second_the_first_to_come_stays_first() -> None:
    first, second = pod_group("b", 1, version=7), pod_group("a", 1, version=9)
    cluster = cluster_of(second, first, pods(1, group="a"), pods(1, group="b"))
    assert list(cluster.view().queue) == [key("b"), key("a")]
    observe(cluster, replace(first, version=20), replace(second, version=21, schedule_timeout=5.0))
    assert list(cluster.view().queue) == [key("b"), key("a")]
    observe(
        cluster,
        ev.ObjectDeleted(PodGroupInfo, (first.api_group, key("b"))),
        replace(first, version=30),
    )
    assert list(cluster.view().queue) == [key("a"), key("b")]


# --- the queue itself


NAMES = st.sampled_from("abcdef")
MOVES = st.lists(
    st.tuples(NAMES, st.one_of(st.none(), st.tuples(st.integers(-2, 2), st.floats(0, 3))))
)


def turn(place: tuple[int, float], name: str) -> Turn:
    """Return the turn of a group; all of them arrived at once."""
    return (*place, 0, name)


@given(MOVES)
def test_it_is_a_sorted_dictionary(moves: list[tuple[str, tuple[int, float] | None]]) -> None:
    queue, model = GroupQueue(), dict[str, Turn]()
    for name, place in moves:
        if place is None:
            assert queue.drop(name) == (model.pop(name, None) is not None)
        else:
            model[name] = turn(place, name)
            queue.put(model[name])

        assert list(queue) == [turn[-1] for turn in sorted(model.values())]
        assert len(queue) == len(model)
        assert all(name in queue for name in model)


def test_only_the_groups_ahead_are_returned() -> None:
    queue = GroupQueue()
    for each in ((0, 3.0, 0, "c"), (0, 1.0, 0, "b"), (-5, 9.0, 0, "a"), (0, 1.0, 0, "a2")):
        queue.put(each)

    assert list(queue.ahead_of((0, 3.0, 0, "c"))) == ["a", "a2", "b"]
    assert list(queue.ahead_of((0, 1.0, 0, "aa"))) == ["a", "a2"]
    assert list(queue.ahead_of((-9, 0.0, 0, "x"))) == []
    assert [
        queue.position(each) for each in ((0, 3.0, 0, "c"), (0, 1.0, 0, "aa"), (-9, 0.0, 0, "x"))
    ] == [
        3,
        2,
        0,
    ]
