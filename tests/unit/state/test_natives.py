"""Which group a pod of a native PodGroup is a member of, and what changes that."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.api.wellknown import GROUP_NATIVE, POD_GROUP_LABEL, POD_GROUP_LABEL_SIGS
from extender.state.cluster import events as ev
from extender.state.cluster.records import ConditionInfo, PodGroupInfo, PodGroupStatusInfo, PodInfo
from extender.state.cluster.store import Cluster
from tests.makers import deleted, key, node, observe, planned, pod, pod_group
from tests.recount import check_tables

GANG = key("gang")
NATIVE = pod_group(api_group=GROUP_NATIVE, min_member=2, uid="native")
BASIC = replace(NATIVE, min_member=0)
TRIED = replace(
    NATIVE,
    status=PodGroupStatusInfo(conditions=(ConditionInfo("PodGroupScheduled", "False", "X"),)),
)
A, B = (pod(name, group="gang", native=GANG) for name in "ab")
LABELLED = pod("a", group="other", native=GANG)
SAME, SAME_SIGS = (
    replace(A, labels={label: "gang"}) for label in (POD_GROUP_LABEL, POD_GROUP_LABEL_SIGS)
)
OURS, THEIRS = ev.NativesDecided(ours=True), ev.NativesDecided(ours=False)


def cluster_of(*facts: Any) -> Cluster:
    cluster = Cluster()
    for each in facts:
        if isinstance(each, ev.NativesDecided):
            cluster.apply(each)
        else:
            observe(cluster, each)
        check_tables(cluster)
    return cluster


@pytest.mark.parametrize(
    ("facts", "group"),
    [
        ((A,), GANG),
        ((A, OURS), GANG),
        ((OURS, A), GANG),
        ((A, THEIRS), None),
        ((THEIRS, A), None),
        ((LABELLED, OURS), key("other")),
        ((LABELLED, THEIRS), None),
        ((LABELLED, THEIRS, OURS), key("other")),
        ((A, BASIC), None),
        ((BASIC, A), None),
        ((BASIC, A, deleted((GROUP_NATIVE, GANG), PodGroupInfo)), GANG),
        ((BASIC, A, NATIVE), GANG),
        ((BASIC, LABELLED), key("other")),
        ((BASIC, SAME), GANG),
        ((SAME_SIGS, BASIC, OURS), GANG),
        ((BASIC, SAME, THEIRS), None),
        ((BASIC, SAME, A), None),
        ((A, TRIED), None),
        ((TRIED, A), None),
        ((OURS, TRIED, A), None),
        ((ev.NativesDecided(ours=True, fixed=True), TRIED, A), GANG),
        ((ev.NativesDecided(ours=True, fixed=True), THEIRS, A), GANG),
    ],
)
def test_which_group_it_is_a_member_of(facts: Sequence[Any], group: str | None) -> None:
    view = cluster_of(*facts).view()

    assert view.pods["a"].group == group
    assert {each for each in view.groups if "a" in view.tally(each).members} == {group} - {None}
    pods = [each for each in facts if isinstance(each, PodInfo)]
    labelled = pods[-1].group if pods[-1].labels or pods[-1] is LABELLED else None
    assert view.member_of(view.pods["a"], labelled) == group


def test_a_native_pod_group_counts_where_gangs_are_ours() -> None:
    view = cluster_of(NATIVE).view()
    assert (view.pod_group(GANG), view.pod_groups) == (None, set())
    assert view.natives_are_ours is None

    view = cluster_of(NATIVE, OURS).view()
    assert (view.pod_group(GANG), view.pod_groups) == (NATIVE, {GANG})
    assert cluster_of(BASIC, OURS).view().pod_group(GANG) is None
    assert cluster_of(NATIVE, OURS, pod_group()).view().pod_group(GANG) == pod_group()
    assert cluster_of(NATIVE, THEIRS).view().pod_group(GANG) is None


def test_a_condition_of_kube_schedulers_says_that_it_tries_whole_groups() -> None:
    assert not cluster_of(NATIVE, OURS).view().has_group_cycles
    fixed = cluster_of(ev.NativesDecided(ours=True, fixed=True), TRIED).view()
    assert (fixed.has_group_cycles, fixed.natives_are_ours) == (True, True)


@pytest.mark.parametrize(("seen", "ours"), [(NATIVE, None), (TRIED, False)])
def test_the_question_is_open_again_unless_a_condition_answered_it(
    seen: Any, ours: bool | None
) -> None:
    again = ev.NativesDecided(ours=None)
    cluster = cluster_of(seen, A, THEIRS, again)
    view = cluster.view()
    assert view.natives_are_ours is ours
    assert view.pods["a"].group == (GANG if ours is None else None)


def test_a_pod_that_waits_is_woken_when_its_group_is_another_one() -> None:
    cluster = cluster_of(A)
    cluster.apply(ev.PodRefused(A, Reason.POD_GROUP_NOT_FOUND))

    change = cluster.apply(ev.ObjectApplied(BASIC))

    assert (change.room, GANG in change.groups) == (True, True)
    assert cluster.view().refused["a"].reason == Reason.RESERVED
    check_tables(cluster)

    change = cluster.apply(ev.ObjectApplied(NATIVE))
    assert GANG in change.groups
    assert [*cluster.view().refused_of(GANG)] == ["a"]
    check_tables(cluster)


def test_a_plan_ends_where_kube_scheduler_plans_itself() -> None:
    cluster = cluster_of(OURS, NATIVE, A, B, node("n", 4))
    cluster.apply(planned(a="n", b="n"))
    assert cluster.view().planned_node("a") == "n"

    cluster.apply(ev.ObjectApplied(TRIED))

    assert cluster.view().planned_node("a") is None
    assert not cluster.view().keeps_room
    check_tables(cluster)


def test_a_pod_that_only_a_request_has_shown_stays_one() -> None:
    cluster = Cluster()
    cluster.apply(ev.PodSeen(A))
    cluster.apply(THEIRS)

    assert [*cluster.view().seen] == ["a"]
    cluster.apply(ev.SeenEnded(("a",)))
    assert not cluster.view().pods
    check_tables(cluster)


def test_a_pod_that_is_gone_is_forgotten() -> None:
    cluster = cluster_of(A, B)
    ended: PodInfo = replace(B, finished=True)
    observe(cluster, deleted("a"), ended, ended, deleted("b"))

    check_tables(cluster)
    assert not cluster.view().pods
