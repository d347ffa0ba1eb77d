"""The one writer of the state: facts, steps of our own, and which of them wins."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.api.wellknown import GANG_GATE, GROUP_SIGS, GROUP_X
from extender.state.cluster import events as ev
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.index import GroupTally
from extender.state.cluster.records import (
    BATCH_JOB,
    JobInfo,
    NodeInfo,
    PodGroupInfo,
    PodInfo,
    Refusal,
)
from extender.state.cluster.reservations import ReservationKind
from extender.state.cluster.store import Cluster
from tests.makers import (
    cluster_of,
    deleted,
    event_of,
    flat,
    key,
    node,
    nodes,
    observe,
    planned,
    pod,
    pod_group,
    pods,
    requests,
    reservation,
    shape,
)
from tests.recount import check_tables

GANG = key("gang")
A, B, C = pods(3)
GATED = replace(A, gates=(GANG_GATE,))
BOUND = replace(A, node="n0")
DYING = replace(A, terminating=True)
PLAIN = pod("plain")
NO_NODE = "0/3 nodes are available"
TOUCHED = ClusterChange(groups=frozenset((GANG,)))
ROOM = ClusterChange(groups=frozenset((GANG,)), room=True)
UNTOUCHED = ClusterChange()


def all_of(**more: Sequence[PodInfo]) -> GroupTally:
    """Return the tally of the pods named by stage; `others` are in none."""
    all_members = [member for group in more.values() for member in group]
    members = [member.uid for member in all_members]
    priorities = dict(Counter(member.priority for member in all_members))
    sets: dict[str, Any] = {
        name: {m.uid for m in group} for name, group in more.items() if name != "others"
    }
    return GroupTally(members=dict.fromkeys(members), priorities=priorities, **sets)


RAISED = replace(A, priority=3)


@dataclass(frozen=True)
class Case:
    """The event before, the event now, what is touched, and the gang's tally after it."""

    before: Sequence[Any]
    now: Any
    change: ClusterChange
    tally: GroupTally


CASES: dict[str, Case] = {
    # facts about pods
    "a member appears": Case([], A, TOUCHED, all_of(others=[A])),
    "a gated member appears": Case([], GATED, TOUCHED, all_of(gated_by_us=[A])),
    "a member appears behind a foreign gate": Case(
        [], replace(A, gates=("x",)), TOUCHED, all_of(gated=[A])
    ),
    "a bound member appears": Case([], BOUND, TOUCHED, all_of(bound=[A])),
    "a pod of no gang appears": Case([], PLAIN, UNTOUCHED, GroupTally()),
    "nothing new about a member": Case([A], replace(A), UNTOUCHED, all_of(others=[A])),
    "a member's gate is taken away": Case([GATED], A, TOUCHED, all_of(others=[A])),
    "a member is bound": Case([A], BOUND, TOUCHED, all_of(bound=[A])),
    "a member is being deleted": Case([A], DYING, TOUCHED, all_of(leaving=[A])),
    "a member changes its size": Case([A], replace(A, shape=shape(2)), TOUCHED, all_of(others=[A])),
    "a member finds no node": Case(
        [A],
        replace(A, unschedulable=NO_NODE),
        ClusterChange(unschedulable=frozenset((A.uid,))),
        all_of(others=[A]),
    ),
    "a member still finds no node": Case(
        [replace(A, unschedulable=NO_NODE)],
        replace(A, unschedulable=NO_NODE),
        UNTOUCHED,
        all_of(others=[A]),
    ),
    "a member finds no node for another reason": Case(
        [replace(A, unschedulable=NO_NODE)],
        replace(A, unschedulable="0/4 nodes are available"),
        ClusterChange(unschedulable=frozenset((A.uid,))),
        all_of(others=[A]),
    ),
    "a member that was never seen finds no node": Case(
        [],
        replace(A, unschedulable=NO_NODE),
        ClusterChange(groups=frozenset((GANG,)), unschedulable=frozenset((A.uid,))),
        all_of(others=[A]),
    ),
    "a member goes": Case([A, B], deleted(A.uid), TOUCHED, all_of(others=[B])),
    "a member that was being deleted goes": Case(
        [DYING, B], deleted(A.uid), TOUCHED, all_of(others=[B])
    ),
    "the last member goes": Case([A], deleted(A.uid), TOUCHED, GroupTally()),
    "a bound member goes": Case([BOUND, B], deleted(A.uid), TOUCHED, all_of(others=[B])),
    "a finished member goes": Case(
        [BOUND, B], replace(BOUND, finished=True), TOUCHED, all_of(others=[B])
    ),
    "an unknown pod goes": Case([A], deleted("other"), UNTOUCHED, all_of(others=[A])),
    "a planned member goes": Case(
        [A, B, planned(gang_0="n0")], deleted(A.uid), ROOM, all_of(others=[B])
    ),
    "a waiting member goes": Case(
        [A, B, ev.PodWaiting(A, "n0")], deleted(A.uid), ROOM, all_of(others=[B])
    ),
    "a planned member is bound": Case([A, planned(gang_0="n0")], BOUND, TOUCHED, all_of(bound=[A])),
    "a waiting member is bound": Case(
        [A, ev.PodWaiting(A, "n0")], BOUND, TOUCHED, all_of(bound=[A])
    ),
    "a waiting member is bound elsewhere": Case(
        [A, ev.PodWaiting(A, "n1")], BOUND, ROOM, all_of(bound=[A])
    ),
    "a member that is being bound is bound": Case(
        [A, ev.PodBinding(A, "n0")], BOUND, TOUCHED, all_of(bound=[A])
    ),
    "a planned member changes": Case(
        [A, planned(gang_0="n0")], replace(A, priority=3), UNTOUCHED, all_of(planned=[RAISED])
    ),
    "a waiting member changes": Case(
        [A, ev.PodWaiting(A, "n0")], replace(A, priority=3), UNTOUCHED, all_of(waiting=[RAISED])
    ),
    # what kube-scheduler shows
    "kube-scheduler shows a new member": Case([], ev.PodSeen(A), TOUCHED, all_of(others=[A])),
    "kube-scheduler shows a known member": Case(
        [BOUND], ev.PodSeen(A), UNTOUCHED, all_of(bound=[A])
    ),
    "kube-scheduler shows a deleted member": Case(
        [A, deleted(A.uid)], ev.PodSeen(A), UNTOUCHED, GroupTally()
    ),
    "kube-scheduler shows one whose deletion came first": Case(
        [deleted(A.uid)], ev.PodSeen(A), UNTOUCHED, GroupTally()
    ),
    "kube-scheduler shows one that a relist lacked": Case(
        [A, ev.ObjectsListed(PodInfo, [])], ev.PodSeen(A), UNTOUCHED, GroupTally()
    ),
    "a request says that a pod has a node": Case(
        [], ev.PodSeen(BOUND), TOUCHED, all_of(others=[A])
    ),
    "a request says that a pod has ended": Case(
        [], ev.PodSeen(replace(A, finished=True)), TOUCHED, all_of(others=[A])
    ),
    "a list lacks a pod that was only seen": Case(
        [ev.PodSeen(A), B], ev.ObjectsListed(PodInfo, [B]), UNTOUCHED, all_of(others=[A, B])
    ),
    "no watch shows a pod that was seen": Case(
        [ev.PodSeen(A), B], ev.SeenEnded([A.uid]), TOUCHED, all_of(others=[B])
    ),
    "no watch shows a planned pod that was seen": Case(
        [ev.PodSeen(A), B, planned(gang_0="n0")], ev.SeenEnded([A.uid]), ROOM, all_of(others=[B])
    ),
    "a seen pod is being bound": Case(
        [ev.PodSeen(A), ev.PodBinding(A, "n0")],
        ev.SeenEnded([A.uid]),
        UNTOUCHED,
        all_of(binding=[A]),
    ),
    "the watch has shown a pod that was seen": Case(
        [ev.PodSeen(A), A], ev.SeenEnded([A.uid]), UNTOUCHED, all_of(others=[A])
    ),
    "a pod that was dropped is seen again": Case(
        [ev.PodSeen(A), ev.SeenEnded([A.uid])], ev.PodSeen(A), TOUCHED, all_of(others=[A])
    ),
    "the watch shows one that was taken for deleted": Case(
        [deleted(A.uid)], A, TOUCHED, all_of(others=[A])
    ),
    # relists
    "a list replaces what there was": Case(
        [A, B, BOUND],
        ev.ObjectsListed(PodInfo, [replace(B, node="n1"), C]),
        TOUCHED,
        all_of(bound=[B], others=[C]),
    ),
    "a list without news": Case(
        [A, B], ev.ObjectsListed(PodInfo, [A, B]), UNTOUCHED, all_of(others=[A, B])
    ),
    "a list keeps assumptions of pods without a node": Case(
        [A, B, planned(gang_0="n0"), ev.PodWaiting(B, "n1")],
        ev.ObjectsListed(PodInfo, [A, B]),
        UNTOUCHED,
        all_of(planned=[A], waiting=[B]),
    ),
    "a list drops assumptions of pods that it lacks": Case(
        [A, B, planned(gang_0="n0"), ev.PodWaiting(B, "n1")],
        ev.ObjectsListed(PodInfo, [A]),
        ROOM,
        all_of(planned=[A]),
    ),
    "a list shows a held member bound": Case(
        [A, ev.PodBinding(A, "n0")], ev.ObjectsListed(PodInfo, [BOUND]), TOUCHED, all_of(bound=[A])
    ),
    # nodes
    "a node appears": Case([A], node("n9"), UNTOUCHED, all_of(others=[A])),
    "a node with a plan goes": Case(
        [A, planned(gang_0="n0")], deleted("n0", NodeInfo), ROOM, all_of(others=[A])
    ),
    "a node without a plan goes": Case(
        [A], deleted("n0", NodeInfo), ClusterChange(room=True), all_of(others=[A])
    ),
    "an unknown node goes": Case([A], deleted("n9", NodeInfo), UNTOUCHED, all_of(others=[A])),
    "a node where a member waits goes": Case(
        [A, ev.PodWaiting(A, "n0")], deleted("n0", NodeInfo), ROOM, all_of(others=[A])
    ),
    "a list of nodes lacks one with a plan": Case(
        [A, B, planned(gang_0="n0", gang_1="n1")],
        ev.ObjectsListed(NodeInfo, nodes(8)),
        ROOM,
        all_of(planned=[A], others=[B]),
    ),
    # PodGroups
    "a PodGroup appears": Case([A], pod_group(), TOUCHED, all_of(others=[A])),
    "a PodGroup without news": Case([A, pod_group()], pod_group(), UNTOUCHED, all_of(others=[A])),
    "a PodGroup changes": Case([A, pod_group()], pod_group(min_member=1), ROOM, all_of(others=[A])),
    "a PodGroup goes": Case(
        [A, pod_group()], deleted((GROUP_X, GANG), PodGroupInfo), TOUCHED, all_of(others=[A])
    ),
    "an unknown PodGroup goes": Case(
        [A], deleted((GROUP_X, GANG), PodGroupInfo), UNTOUCHED, all_of(others=[A])
    ),
    "a PodGroup of the other API group goes": Case(
        [A, pod_group()], deleted((GROUP_SIGS, GANG), PodGroupInfo), UNTOUCHED, all_of(others=[A])
    ),
    "a list of PodGroups lacks one": Case(
        [A, pod_group()], ev.ObjectsListed(PodGroupInfo, [], GROUP_X), TOUCHED, all_of(others=[A])
    ),
    "a list of the other API group lacks it": Case(
        [A, pod_group()],
        ev.ObjectsListed(PodGroupInfo, [], GROUP_SIGS),
        UNTOUCHED,
        all_of(others=[A]),
    ),
    "a list of PodGroups has another one": Case(
        [A, pod_group()],
        ev.ObjectsListed(PodGroupInfo, [pod_group(), pod_group("other")], GROUP_X),
        ClusterChange(groups=frozenset((key("other"),))),
        all_of(others=[A]),
    ),
    # steps of our own
    "members are planned": Case(
        [A, B], planned(gang_0="n0", gang_1="n1"), TOUCHED, all_of(planned=[A, B])
    ),
    "a plan moves": Case(
        [A, planned(gang_0="n0")],
        planned(gang_0="n1"),
        ClusterChange(room=True),
        all_of(planned=[A]),
    ),
    "a plan grows": Case(
        [A, B, planned(gang_0="n0")],
        planned(gang_0="n0", gang_1="n1"),
        TOUCHED,
        all_of(planned=[A, B]),
    ),
    "a plan for a bound pod": Case([BOUND], planned(gang_0="n1"), UNTOUCHED, all_of(bound=[A])),
    "a plan for an unknown pod": Case([A], planned(other="n1"), UNTOUCHED, all_of(others=[A])),
    "a planned member waits": Case(
        [A, planned(gang_0="n0")], ev.PodWaiting(A, "n1"), UNTOUCHED, all_of(waiting=[A])
    ),
    "a waiting member is being bound": Case(
        [A, ev.PodWaiting(A, "n0")], ev.PodBinding(A, "n0"), UNTOUCHED, all_of(binding=[A])
    ),
    "a bound member cannot wait": Case(
        [BOUND], ev.PodWaiting(A, "n1"), UNTOUCHED, all_of(bound=[A])
    ),
    "an unknown member cannot wait": Case(
        [B], ev.PodWaiting(A, "n1"), UNTOUCHED, all_of(others=[B])
    ),
    "a gated member is planned": Case([GATED], planned(gang_0="n0"), TOUCHED, all_of(planned=[A])),
    "a gated member gives its room back": Case(
        [GATED, planned(gang_0="n0")], ev.Unreserved([A.uid]), ROOM, all_of(gated_by_us=[A])
    ),
    "a planned member gives its room back": Case(
        [A, planned(gang_0="n0")], ev.Unreserved([A.uid]), ROOM, all_of(others=[A])
    ),
    "a waiting member gives its room back": Case(
        [A, ev.PodWaiting(A, "n0")], ev.Unreserved([A.uid]), ROOM, all_of(others=[A])
    ),
    "a pod of no gang gives its room back": Case(
        [PLAIN, ev.PodBinding(PLAIN, "n0")],
        ev.Unreserved([PLAIN.uid]),
        ClusterChange(room=True),
        GroupTally(),
    ),
    "a member without room gives nothing back": Case(
        [A], ev.Unreserved([A.uid, "other"]), UNTOUCHED, all_of(others=[A])
    ),
    "a member is refused": Case([A], ev.PodRefused(A, Reason.GATED), UNTOUCHED, all_of(others=[A])),
    "a member is tried": Case([A], ev.PodsTried([A.uid]), UNTOUCHED, all_of(others=[A])),
    # what touches nothing for the group, yet frees room that kube-scheduler does not know of
    "a planned member is being deleted": Case(
        [A, planned(gang_0="n0")], DYING, ROOM, all_of(leaving=[A])
    ),
    "a member moves to another gang": Case(
        [A, B],
        replace(A, group=key("other")),
        ClusterChange(groups=frozenset((GANG, key("other")))),
        all_of(others=[B]),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_event_changes_the_tally_of_its_group_once(case: Case, cluster: Cluster) -> None:
    observe(cluster, nodes(8, 8), case.before)

    # Which statuses a pod's progress changes has tests of its own.
    assert replace(cluster.apply(event_of(case.now)), statuses=frozenset()) == case.change
    assert cluster.view().tally(GANG) == case.tally
    check_tables(cluster)

    again = cluster.apply(event_of(case.now))
    assert (again.groups, again.unschedulable) == (frozenset(), frozenset())
    assert cluster.view().tally(GANG) == case.tally


def test_room_is_counted_once_whichever_comes_first(cluster: Cluster) -> None:
    view = cluster.view()
    taken = requests(1)
    observe(cluster, nodes(8, 8), A, planned(gang_0="n0"))
    assert (view.used("n0"), view.planned_on("n0")) == ({}, {A.uid: reservation(A, "n0")})
    observe(cluster, ev.PodWaiting(A, "n0"))
    assert (view.used("n0"), view.planned_on("n0")) == (taken, {})
    observe(cluster, ev.PodBinding(A, "n0"))
    assert view.used("n0") == taken
    observe(cluster, BOUND)
    assert view.used("n0") == taken
    assert view.reservation(A.uid) is None
    observe(cluster, ev.PodBinding(A, "n0"), ev.PodWaiting(A, "n1"), planned(gang_0="n1"))
    assert (view.used("n0"), view.used("n1"), view.planned_on("n1")) == (taken, {}, {})


def test_a_fact_on_another_node_wins_over_the_reservation(cluster: Cluster) -> None:
    observe(cluster, nodes(8, 8), A, ev.PodBinding(A, "n1"), BOUND)
    view = cluster.view()

    assert (view.used("n0"), view.used("n1")) == (requests(1), {})


@pytest.mark.parametrize("grows_first", [False, True])
def test_a_reservation_is_of_the_newest_version_of_its_pod(
    cluster: Cluster, grows_first: bool
) -> None:
    grown, waits = replace(A, shape=shape(3)), ev.PodWaiting(A, "n0")
    observe(cluster, nodes(8, 8), [grown, waits] if grows_first else [A, waits, grown])

    assert cluster.view().reservation(A.uid) == reservation(grown, "n0", ReservationKind.WAITING)
    assert cluster.view().used("n0") == requests(3)


def test_refusals_are_remembered_until_the_pod_is_tried_bound_or_gone(cluster: Cluster) -> None:
    view = cluster.view()
    observe(cluster, ev.PodRefused(A, Reason.GATED))
    assert view.refused == {}, "it is not known"
    observe(cluster, nodes(8), A, B, C, *(ev.PodRefused(each, Reason.GATED) for each in (A, B, C)))
    assert view.refused == {each.uid: Refusal(each, Reason.GATED) for each in (A, B, C)}
    observe(cluster, BOUND, deleted(B.uid), ev.PodsTried([C.uid, "other"]))
    assert view.refused == {}


GAINED: dict[str, tuple[Sequence[Any], Any, set[str]]] = {
    "a new node": ([], node("n9"), {"n9"}),
    "a node that grew": ([], node("n0", 9), {"n0"}),
    "a node without news": ([], node("n0", 8), set()),
    "a list of the same nodes": ([], ev.ObjectsListed(NodeInfo, nodes(8, 8)), set()),
    "a list with another node": ([], ev.ObjectsListed(NodeInfo, nodes(8, 8, 8)), {"n2"}),
    "a list without a node": ([], ev.ObjectsListed(NodeInfo, nodes(8)), set()),
    "a pod that appears": ([], A, set()),
    "a pod that is bound": ([A], BOUND, set()),
    "a planned pod that is bound where it was to go": ([A, planned(gang_0="n0")], BOUND, set()),
    "a planned pod that is bound elsewhere": ([A, planned(gang_0="n1")], BOUND, {"n1"}),
    "a pod that goes": ([BOUND], deleted(A.uid), {"n0"}),
    "a pod without a node that goes": ([A], deleted(A.uid), set()),
    "a planned pod that goes": ([A, planned(gang_0="n1")], deleted(A.uid), {"n1"}),
    "a pod that finished": ([BOUND], replace(BOUND, finished=True), {"n0"}),
    "a pod that changed its size": ([BOUND], replace(BOUND, shape=shape(2)), {"n0"}),
    "a plan": ([A], planned(gang_0="n0"), set()),
    "a plan that moves": ([A, planned(gang_0="n0")], planned(gang_0="n1"), {"n0"}),
    "room given back": ([A, planned(gang_0="n0")], ev.Unreserved([A.uid]), {"n0"}),
    "no room given back": ([A], ev.Unreserved([A.uid]), set()),
    "a PodGroup": ([A], pod_group(), set()),
}


@pytest.mark.parametrize(("before", "now", "want"), GAINED.values(), ids=GAINED)
def test_the_nodes_that_gained_room_are_known(
    before: Sequence[Any], now: Any, want: set[str], cluster: Cluster
) -> None:
    observe(cluster, nodes(8, 8), before)
    view = cluster.view()
    version = view.capacity_version
    observe(cluster, now)

    assert set(view.gained_since(version)) == want
    assert (view.capacity_version > version) is bool(want)


CHANGED: dict[str, tuple[Any, set[str]]] = {
    "a label": (node("n0", 8, labels={"a": "b"}), {"n0"}),
    "no news": (node("n0", 8), set()),
    "a node that goes": (deleted("n1", NodeInfo), {"n1"}),
    "a pod that goes": (deleted(A.uid), set()),
}


@pytest.mark.parametrize(("now", "want"), CHANGED.values(), ids=CHANGED)
def test_the_nodes_that_changed_are_known(now: Any, want: set[str], cluster: Cluster) -> None:
    observe(cluster, nodes(8, 8), BOUND)
    view = cluster.view()
    version = view.nodes_version
    observe(cluster, now)

    assert set(view.changed_since(version)) == want


def test_nodes_that_went_are_forgotten_at_last(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.state.cluster.store.REMEMBERED", 3)
    view = cluster.view()
    observe(cluster, node("stays"), node("returns"), deleted("returns", NodeInfo))
    for number in range(9):
        observe(cluster, node(f"n{number}"), pod(f"p{number}", on=f"n{number}"))
        observe(cluster, deleted(f"p{number}"), deleted(f"n{number}", NodeInfo))
        if number == 0:
            observe(cluster, node("returns"))

    assert set(view.changed_since(0)) == {"stays", "returns", "n6", "n7", "n8"}
    assert set(view.gained_since(0)) == {"stays", "returns", "n6", "n7", "n8"}


def test_an_update_of_a_planned_pod_is_no_sign_of_room(cluster: Cluster) -> None:
    """kube-scheduler's own status patch on a held pod ends every denied window."""
    observe(cluster, nodes(8), A, planned(gang_0="n0"))
    version = cluster.view().capacity_version
    observe(cluster, replace(A, unschedulable=NO_NODE))

    assert cluster.view().capacity_version == version


def test_the_newer_api_group_wins(cluster: Cluster) -> None:
    newer, older = pod_group(min_member=2), pod_group(min_member=5, api_group=GROUP_SIGS)
    observe(cluster, newer, older)
    assert cluster.view().pod_group(GANG) == newer
    observe(cluster, deleted((GROUP_X, GANG), PodGroupInfo))
    assert cluster.view().pod_group(GANG) == older


def test_members_come_in_order_of_arrival(cluster: Cluster) -> None:
    observe(cluster, B, A, C, replace(B, priority=4), BOUND)

    assert [each.uid for each in cluster.view().members(GANG)] == [B.uid, A.uid, C.uid]


def test_a_relabelled_member_that_goes_leaves_nothing_behind(cluster: Cluster) -> None:
    """The old gang's members can no longer be listed at all."""
    observe_unchecked(cluster, A, B, replace(A, group=key("other")), deleted(A.uid))

    assert [each.uid for each in cluster.view().members(GANG)] == [B.uid]


def observe_unchecked(cluster: Cluster, *facts: Any) -> None:
    for fact in flat(facts):
        cluster.apply(event_of(fact))


def test_listeners_hear_in_order_and_may_apply_more(cluster: Cluster) -> None:
    heard: list[tuple[str, ClusterChange]] = []

    def first(change: ClusterChange) -> None:
        heard.append(("first", change))
        if change.room:
            check_tables(cluster)
            cluster.apply(ev.PodRefused(A, Reason.RESERVED))

    observe(cluster, A)
    cluster.subscribe(first)
    cluster.subscribe(lambda change: heard.append(("second", change)))
    observe(cluster, nodes(8), planned(gang_0="n0"), planned(gang_0="n0"), ev.Unreserved([A.uid]))

    assert heard == [
        ("first", TOUCHED),
        ("second", TOUCHED),
        ("first", ROOM),
        ("second", ROOM),
    ]


def test_only_so_many_deleted_pods_are_remembered(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.state.cluster.store.REMEMBERED", 2)
    observe(cluster, A, B, C, *(deleted(each.uid) for each in (A, B, C)))
    observe(cluster, *(ev.PodSeen(each) for each in (A, B, C)))

    assert list(cluster.view().pods) == [A.uid]


@pytest.mark.parametrize("table", ["used", "on_node", "kept", "groups", "pods", "twice"])
def test_a_recount_finds_what_is_missing_or_counted_twice(table: str) -> None:
    broken = cluster_of(nodes(8), A, B, planned(gang_0="n0"), ev.PodWaiting(B, "n0"))
    tables = broken._tables
    if table == "twice":
        tables.reservations.used["n0"]["cpu"] += 1
    else:
        getattr(tables if table == "groups" else tables.reservations, table).clear()

    with pytest.raises(AssertionError, match=r"is not the recount"):
        check_tables(broken)


WANT_FREE: dict[str, tuple[Sequence[Any], dict[str, Any], int]] = {
    "an empty node": ([], {}, 8000),
    "a bound pod of low priority": ([replace(PLAIN, node="n0", priority=-5)], {}, 7000),
    "one's own plan": ([A, B, planned(gang_0="n0", gang_1="n0")], {"without": A.uid}, 7000),
    "more than there is": ([pod("big", 9, on="n0")], {}, -1000),
    "another node": ([pod("big", 9, on="n1")], {}, 8000),
}


@pytest.mark.parametrize(("there", "asked", "want"), WANT_FREE.values(), ids=WANT_FREE)
def test_free_room_of_a_node_is_what_others_leave(
    there: Sequence[Any], asked: dict[str, Any], want: int, cluster: Cluster
) -> None:
    observe(cluster, nodes(8, 8), there)
    free = cluster.view().free(node("n0", 8), **{"priority": 0, **asked})

    assert free["cpu"] == want


def test_tallies_count_what_permit_and_plans_count() -> None:
    tally = all_of(bound=[A], binding=[B], waiting=[C], planned=pods(2, group="x"))

    assert (tally.assigned, tally.committed) == (3, 5)


@pytest.mark.parametrize("owner", ["controller", "workload"])
def test_pods_are_found_by_their_owner(owner: str, cluster: Cluster) -> None:
    view = cluster.view()
    of = view.controlled_by if owner == "controller" else view.of_workload
    one, two = (pod(name, **{owner: "ns/w"}) for name in ("one", "two"))
    observe(cluster, one, two, pod("other", **{owner: "ns/v"}), pod("one"))
    assert set(of("ns/w")) == {"two"}
    observe(cluster, replace(two, phase="Succeeded", finished=True))
    assert not of("ns/w")


def test_jobs_are_found_by_their_owner(cluster: Cluster) -> None:
    observe(cluster, [ev.ObjectApplied(JobInfo(name, maker="set")) for name in ("a", "b", "c")])
    observe(cluster, ev.ObjectApplied(JobInfo("b")), deleted("c", JobInfo))
    assert set(cluster.view().made_by("set")) == {"a"}
    observe(cluster, ev.ObjectsListed(JobInfo, [], BATCH_JOB))
    assert not cluster.view().made_by("set")


ROOM_FACTS: dict[str, tuple[list[Any], Any, bool]] = {
    "a node comes": ([], node("n0"), True),
    "a node is the same": ([node("n0")], node("n0"), False),
    "a plain pod goes": ([node("n0"), replace(PLAIN, node="n0")], deleted(PLAIN.uid), True),
    "a pod ends": ([BOUND], replace(BOUND, phase="Succeeded", finished=True), True),
    "a member gets its node": ([A], BOUND, True),
    "a pod gets ready": ([BOUND], replace(BOUND, ready=True), False),
    "a plan gives back": ([node("n0"), A, planned(gang_0="n0")], ev.Unreserved([A.uid]), True),
}


@pytest.mark.parametrize(("before", "now", "called"), ROOM_FACTS.values(), ids=ROOM_FACTS)
def test_listeners_for_room_are_called(
    cluster: Cluster, before: list[Any], now: Any, called: bool
) -> None:
    observe(cluster, *before)
    calls: list[int] = []
    cluster.watch_room(lambda: calls.append(1))
    observe(cluster, now)
    assert bool(calls) is called


def test_only_groups_that_ask_for_a_label_and_wait_are_touched_when_a_node_gets_it() -> None:
    asks = pod_group(required_topology="rack")
    cluster = cluster_of(node("n0", 8), asks, A, pod_group("other", preferred_topology="zone"))
    labelled = [node("n0", 8, labels={"rack": str(number)}) for number in range(4)]

    def changed(number: int) -> ClusterChange:
        change = cluster.apply(ev.ObjectApplied(labelled[number]))
        check_tables(cluster)
        return change

    assert changed(0) == ClusterChange()  # its pods were not refused
    cluster.apply(ev.PodRefused(A, Reason.NOT_ENOUGH_RESOURCES))
    assert changed(1) == ROOM
    observe(cluster, pod_group(required_topology="zone"))
    assert changed(2) == ClusterChange()
    observe(cluster, asks, deleted((asks.api_group, GANG), PodGroupInfo))
    assert changed(3) == ClusterChange()
