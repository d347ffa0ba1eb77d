"""Tests of the nodes and pods that kube-scheduler has seen, or that are judged ahead of it."""

from dataclasses import replace
from typing import Any

import pytest

from extender.api.core_v1 import LabelSelector, Requirement
from extender.state.cluster import events as ev
from extender.state.cluster import seen
from extender.state.cluster.index import may_name
from extender.state.cluster.records import REMEMBERED, NodeInfo, Pattern, PodInfo, PodTerm, Shape
from extender.state.cluster.reservations import ReservationKind
from extender.state.cluster.seen import ExpiringSet, Unseen
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView
from tests.makers import (
    cluster_of,
    deleted,
    key,
    node,
    nodes,
    observe,
    planned,
    pod,
    pod_group,
    pods,
    requests,
    shape,
    taint,
)
from tests.recount import check_tables, check_unseen

GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


def pattern(of: Shape | None = None, namespace: str = "ns", **labels: str) -> Pattern:
    """Return a pattern that is equal to no other one."""
    return Pattern(of or shape(), namespace, labels or {"app": "x"}, frozenset((GROUP_LABEL,)))


def looked(at: float, of: Pattern, *names: str, agrees: bool = True) -> ev.Looked:
    """Return what a filter request says."""
    return ev.Looked(of, names, at, agrees)


def test_looks_at_different_nodes_add_up() -> None:
    one, other = pattern(), pattern()
    cluster = cluster_of(nodes(4, 4, 4), looked(0, one, "n0"), looked(1, one, "n1"))
    view = cluster.view()
    assert view.good_nodes(one) == {"n0", "n1"}
    assert view.is_good(one, "n1")
    assert not view.is_good(one, "n2")
    assert view.good_nodes(other) == set()
    assert view.look(other) is None


def test_names_are_kept_once() -> None:
    known = node("n0")
    of = pattern()
    cluster = cluster_of(known, looked(0, of, "".join(("n", "0"))))
    (kept,) = cluster.view().good_nodes(of)
    assert kept is known.name


CHANGES: dict[str, Any] = {
    "a taint": ev.ObjectApplied(node("n0", taints=(taint(),))),
    "a label": ev.ObjectApplied(node("n0", labels={"a": "b"})),
    "less room": ev.ObjectApplied(node("n0", 3)),
    "cordoned": ev.ObjectApplied(node("n0", unschedulable=True)),
    "not ready": ev.ObjectApplied(node("n0", ready=False)),
    "features": ev.ObjectApplied(node("n0", features=frozenset("a"))),
    "gone": deleted("n0", NodeInfo),
    "no longer listed": ev.ObjectsListed(NodeInfo, [node("n1")]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_look_ends_when_its_node_changes(change: ev.ClusterEvent | ev.ObjectsListed) -> None:
    of = pattern()
    cluster = cluster_of(nodes(4, 4), looked(0, of, "n0", "n1"))
    cluster.apply(change)
    check_tables(cluster)
    assert cluster.view().good_nodes(of) == {"n1"}


def test_a_look_does_not_end_with_a_heartbeat() -> None:
    of = pattern()
    cluster = cluster_of(nodes(4), looked(0, of, "n0"), nodes(4))
    assert cluster.view().is_good(of, "n0")


def test_a_node_that_was_made_anew_has_to_be_looked_at() -> None:
    of = pattern()
    cluster = cluster_of(nodes(4), looked(0, of, "n0"), deleted("n0", NodeInfo), nodes(4))
    assert not cluster.view().is_good(of, "n0")


@pytest.mark.parametrize(
    "change",
    [[node("n0", features=frozenset("a"))], [deleted("n0", NodeInfo), node("n0")]],
    ids=["changed", "made anew"],
)
def test_a_look_may_be_at_features_that_the_node_had_before(change: Any) -> None:
    """kube-scheduler may ask for one that is unknown here, and its watch may be behind ours."""
    of = pattern()
    cluster = cluster_of(nodes(4, 4), change, looked(100, of, "n0", "n1"))
    view = cluster.view()
    assert view.good_nodes(of) == {"n1"}
    observe(cluster, looked(104.9, of, "n0"))
    assert not view.is_good(of, "n0")
    observe(cluster, looked(105, of, "n0"))
    assert view.is_good(of, "n0")


def test_nodes_that_are_not_known_are_not_kept() -> None:
    of = pattern()
    assert cluster_of(looked(0, of, "n0")).view().good_nodes(of) == set()


def test_while_the_books_differ_no_look_counts() -> None:
    of = pattern()
    cluster = cluster_of(nodes(4, 4, 4), looked(0, of, "n0"))
    view = cluster.view()
    observe(cluster, looked(1, of, "n1", agrees=False))
    assert view.good_nodes(of) == set()
    found = view.look(of)
    assert found is not None
    assert not found.agrees
    observe(cluster, looked(2, of, "n2"))
    assert view.good_nodes(of) == {"n0", "n2"}


def test_a_look_counts_for_a_minute() -> None:
    """A kube-scheduler with other settings may have come meanwhile."""
    of, other = pattern(), pattern()
    cluster = cluster_of(nodes(4, 4), looked(0, of, "n0"), looked(30, other, "n0"))
    view = cluster.view()
    observe(cluster, looked(seen.SECONDS, other))
    assert view.is_good(of, "n0")
    observe(cluster, looked(seen.SECONDS + 1, other))
    assert view.look(of) is None
    assert view.is_good(other, "n0")


def test_of_many_patterns_the_first_are_forgotten() -> None:
    every = [pattern() for _ in range(seen.MOST + 1)]
    view = cluster_of(nodes(4), [looked(0, each, "n0") for each in every]).view()
    assert view.look(every[0]) is None
    assert all(view.is_good(each, "n0") for each in every[1:])


def test_what_is_in_doubt_is_so_for_a_time_from_the_next_moment() -> None:
    expiring = ExpiringSet[str](5)
    assert expiring.add("a") is None
    assert "a" in expiring
    assert [*expiring.pass_time(100)] == []
    expiring.add("b")
    assert [*expiring.pass_time(104)] == []
    assert [*expiring.pass_time(105)] == ["a"]
    assert "a" not in expiring
    expiring.add("b")
    assert [*expiring.pass_time(109)] == []
    assert "b" in expiring
    assert [*expiring.pass_time(114)] == ["b"]


def test_without_any_time_only_so_much_is_in_doubt() -> None:
    expiring = ExpiringSet[int](5)
    ended = [expiring.add(number) for number in range(REMEMBERED + 1)]
    assert ended == [*[None] * REMEMBERED, 0]
    assert 0 not in expiring


# --- terms of other pods


def exactly(**labels: str) -> LabelSelector:
    return LabelSelector(match_labels=labels)


def where(name: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=[Requirement(name, operator, list(values))])


APP = exactly(app="x")
TERMS: dict[str, tuple[PodTerm, bool]] = {
    "its labels": (PodTerm(APP), True),
    "other labels": (PodTerm(exactly(app="y")), False),
    "a label more": (PodTerm(exactly(app="x", team="a")), False),
    "all pods": (PodTerm(LabelSelector()), True),
    "no pod": (PodTerm(None), False),
    "an expression": (PodTerm(where("app", "In", "x", "y")), True),
    "an expression about others": (PodTerm(where("app", "NotIn", "x")), False),
    "a label that it lacks": (PodTerm(where("team", "DoesNotExist")), True),
    "a label that is dropped": (PodTerm(LabelSelector({GROUP_LABEL: "other"})), True),
    "an expression about one": (PodTerm(where(GROUP_LABEL, "In", "other")), True),
    "one that is dropped and one that is not": (
        PodTerm(LabelSelector({GROUP_LABEL: "other", "app": "y"})),
        False,
    ),
    "its namespace": (PodTerm(APP, frozenset(("other", "ns"))), True),
    "another namespace": (PodTerm(APP, frozenset(("other",))), False),
    "labels of namespaces": (PodTerm(APP, frozenset(("other",)), by_labels=True), True),
}


@pytest.mark.parametrize(("term", "expected"), TERMS.values(), ids=TERMS)
def test_a_term_may_be_about_a_pattern(term: PodTerm, *, expected: bool) -> None:
    assert may_name((term,), "ns", pattern()) is expected


def test_a_term_is_about_the_namespace_of_its_pod() -> None:
    assert not may_name((PodTerm(APP),), "other", pattern())


def shunning(*terms: PodTerm) -> Shape:
    return Shape(requests(1), shuns=terms)


def seeking(*terms: PodTerm) -> Shape:
    return Shape(requests(1), seeks=terms)


def test_anti_affinity_counts_while_its_pod_is_there() -> None:
    of, of_other = pattern(), pattern(app="y")
    alone = shunning(PodTerm(APP))
    cluster = cluster_of(nodes(4, 4))
    view = cluster.view()
    assert not view.is_named(of)
    observe(cluster, pod("a", alone))
    assert view.is_named(of)
    assert not view.is_named(of_other)
    observe(cluster, pod("a", alone, on="n0"), pod("b", alone, on="n1"))
    assert view.is_named(of)
    observe(cluster, deleted("a"))
    assert view.is_named(of)
    observe(cluster, deleted("b"))
    assert not view.is_named(of)


def test_affinity_and_spread_count_while_their_pod_has_no_node() -> None:
    of, near = pattern(), seeking(PodTerm(APP))
    cluster = cluster_of(nodes(4), pod("a", near))
    view = cluster.view()
    assert view.is_named(of)
    observe(cluster, ev.PodBinding(pod("a", near), "n0"))
    assert view.is_named(of)
    observe(cluster, pod("a", near, on="n0"))
    assert not view.is_named(of)


# --- pods that kube-scheduler has not judged yet

NO_NODE = "0/1 nodes are available: 1 Insufficient cpu."


def highest(cluster: Cluster, *schedulers: str) -> int | None:
    check_tables(cluster)
    return cluster.view().highest_fresh(schedulers or ("default-scheduler",))


def test_a_pod_is_fresh_until_something_is_said_of_it() -> None:
    cluster = cluster_of(nodes(4), pod("low", priority=1), pod("high", priority=5))
    assert highest(cluster) == 5
    observe(cluster, pod("high", priority=5, unschedulable=NO_NODE))
    assert highest(cluster) == 1
    observe(cluster, pod("low", priority=1, on="n0"))
    assert highest(cluster) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"gates": ("a",)},
        {"terminating": True},
        {"on": "n0"},
        {"unschedulable": NO_NODE},
        {"scheduler": "another"},
    ],
    ids=str,
)
def test_some_pods_are_not_fresh(fields: dict[str, Any]) -> None:
    assert highest(cluster_of(nodes(4), pod("a", **fields))) is None


def test_the_schedulers_count_that_are_asked_about() -> None:
    cluster = cluster_of(pod("a", priority=1), pod("b", priority=7, scheduler="b"))
    assert highest(cluster) == 1
    assert highest(cluster, "b") == 7
    assert highest(cluster, "b", "default-scheduler") == 7
    assert highest(cluster, "none") is None


def test_a_pod_that_filter_refused_is_not_fresh_until_it_is_tried() -> None:
    cluster = cluster_of(pod("a"), ev.PodRefused(pod("a"), "r"))
    assert highest(cluster) is None
    observe(cluster, pod("a", gang_ready=True))
    assert highest(cluster) is None
    observe(cluster, ev.PodsTried(("a",)))
    assert highest(cluster) == 0
    observe(cluster, deleted("a"))
    assert highest(cluster) is None


def test_a_pod_with_a_reservation_is_not_fresh() -> None:
    members = pods(1)
    cluster = cluster_of(nodes(4), pod_group(min_member=1), members)
    assert highest(cluster) == 0
    observe(cluster, planned(gang_0="n0"))
    assert highest(cluster) is None
    observe(cluster, ev.Unreserved(("gang-0",)))
    assert highest(cluster) == 0
    observe(cluster, ev.PodBinding(members[0], "n0"))
    assert highest(cluster) is None


# --- nodes of other schedulers


def has_others(view: ClusterView, node: str, ours: tuple[str, ...]) -> bool:
    return any(node in there for there in view.nodes_of_others(ours))


def test_a_node_is_another_schedulers_while_its_pod_is_there_and_a_minute_more() -> None:
    ours, of = ("default-scheduler",), pattern()
    cluster = cluster_of(nodes(4, 4), pod("a", on="n0"), pod("b", on="n0", scheduler="b"))
    view = cluster.view()
    assert has_others(view, "n0", ours)
    assert not has_others(view, "n0", ("b", *ours))
    assert not has_others(view, "n1", ours)
    observe(cluster, deleted("b"))
    assert has_others(view, "n0", ours)
    observe(cluster, looked(1000, of))
    observe(cluster, looked(1059, of))
    assert has_others(view, "n0", ours)
    observe(cluster, looked(1060, of))
    assert not has_others(view, "n0", ours)


def test_another_pod_may_come_meanwhile() -> None:
    of, foreign = pattern(), {"on": "n0", "scheduler": "b"}
    cluster = cluster_of(nodes(4), pod("a", **foreign), deleted("a"), looked(0, of))
    observe(cluster, pod("b", **foreign), looked(100, of))
    assert has_others(cluster.view(), "n0", ("default-scheduler",))


# --- pods without a group that wait


def highest_plain(cluster: Cluster) -> int | None:
    check_tables(cluster)
    return cluster.view().highest_plain(("default-scheduler",))


def test_a_plain_pod_waits_until_it_has_a_node_or_its_binding_is_on_its_way() -> None:
    plain = pod("a", priority=3)
    cluster = cluster_of(nodes(4), plain, pod("m", group="gang", priority=9))
    assert highest_plain(cluster) == 3
    observe(cluster, pod("a", priority=3, unschedulable=NO_NODE))
    observe(cluster, ev.PodRefused(pod("a", priority=3, unschedulable=NO_NODE), "r"))
    assert highest_plain(cluster) == 3
    observe(cluster, ev.PodBinding(plain, "n0"))
    assert highest_plain(cluster) is None
    observe(cluster, ev.Unreserved(("a",)))
    assert highest_plain(cluster) == 3
    observe(cluster, pod("a", priority=3, on="n0"))
    assert highest_plain(cluster) is None
    observe(cluster, deleted("a"))
    assert highest_plain(cluster) is None


# --- pods that are bound ahead of kube-scheduler, until it has seen them on their nodes


A, B = pods(2, 2)
PLANS = [nodes(4, 4), pod_group(min_member=2), A, B, planned(gang_0="n0", gang_1="n1")]
AHEAD = ev.BoundAhead({"gang-0": "n0", "gang-1": "n1"})
ON = replace(A, node="n0")


def unseen(cluster: Cluster) -> dict[str, str | None]:
    found = cluster.view().unseen
    return {pod.uid: found.node(pod.uid) for pod in found.pods}


def test_pods_with_planned_room_are_bound_ahead(cluster: Cluster) -> None:
    observe(cluster, *PLANS, AHEAD)

    assert unseen(cluster) == {"gang-0": "n0", "gang-1": "n1"}
    assert cluster.view().tally(key("gang")).binding == {"gang-0", "gang-1"}
    assert cluster.view().left.all()["n0"]["cpu"] == 2000
    assert [*cluster.view().unseen.nodes] == ["n0", "n1"]


def test_pods_go_to_the_node_to_which_they_are_bound_ahead(cluster: Cluster) -> None:
    observe(cluster, *PLANS, ev.BoundAhead({"gang-0": "n1"}))
    held = cluster.view().reservation("gang-0")

    assert held is not None
    assert (held.node, held.kind) == ("n1", ReservationKind.BINDING)
    assert unseen(cluster) == {"gang-0": "n1"}


def test_a_pod_whose_binding_kube_scheduler_gave_up_counts_as_bound_ahead(
    cluster: Cluster,
) -> None:
    observe(cluster, nodes(4), A, ev.PodBinding(A, "n0"), ev.BoundAhead({"gang-0": "n0"}))

    assert unseen(cluster) == {"gang-0": "n0"}
    assert cluster.view().bound_node(A) == "n0"
    assert cluster.view().used("n0") == A.shape.requests


NOT_AHEAD: dict[str, list[Any]] = {
    "a pod without room": [nodes(4), A],
    "a pod whose bind is held": [nodes(4), A, ev.PodWaiting(A, "n0")],
    "a pod on its node": [nodes(4), ON],
    "a pod that is gone": [nodes(4)],
}


@pytest.mark.parametrize("facts", NOT_AHEAD.values(), ids=NOT_AHEAD)
def test_only_pods_with_planned_room_are_bound_ahead(facts: list[Any], cluster: Cluster) -> None:
    observe(cluster, *facts, ev.BoundAhead({"gang-0": "n0"}))

    assert unseen(cluster) == {}


LASTS: dict[str, Any] = {
    "our watch shows it on its node": ON,
    "it runs": [ON, replace(ON, phase="Running")],
    "it leaves that node": [ON, replace(ON, terminating=True)],
    "a label of it changes": replace(A, pod_set="main"),
    "kube-scheduler asks for it too": ev.PodBinding(A, "n0"),
    "the node is gone": deleted("n0", NodeInfo),
    "all pods are listed": ev.ObjectsListed(PodInfo, [ON, B]),
}


@pytest.mark.parametrize("fact", LASTS.values(), ids=LASTS)
def test_a_pod_stays_unseen(fact: Any, cluster: Cluster) -> None:
    observe(cluster, *PLANS, AHEAD, fact)

    assert "gang-0" in cluster.view().unseen


ENDS: dict[str, Any] = {
    "kube-scheduler has seen it": ev.Sighted(["gang-0"]),
    "kube-scheduler has seen it on its node": [ON, ev.Sighted(["gang-0", "gang-7"])],
    "its Binding failed": planned(gang_0="n0"),
    "its Binding failed for good": ev.Unreserved(["gang-0"]),
    "it is bound to another node": replace(A, node="n1"),
    "it is deleted": deleted("gang-0"),
    "it has finished": [ON, replace(ON, finished=True)],
    "a list lacks it": ev.ObjectsListed(PodInfo, [B]),
}


@pytest.mark.parametrize("fact", ENDS.values(), ids=ENDS)
def test_a_pod_is_unseen_no_longer(fact: Any, cluster: Cluster) -> None:
    observe(cluster, *PLANS, AHEAD, fact)

    assert unseen(cluster) == {"gang-1": "n1"}


def test_pods_have_numbers_in_the_order_in_which_the_watch_shows_them(cluster: Cluster) -> None:
    observe(cluster, *PLANS, AHEAD, replace(B, node="n1"))
    found = cluster.view().unseen
    first = found.version
    observe(cluster, ON, replace(B, node="n1", phase="Running"))

    assert (found.number("gang-0"), found.number("gang-1")) == (first + 1, first)
    assert [*found.shown_until(first)] == ["gang-1"]
    assert [*found.shown_until(first + 1)] == ["gang-1", "gang-0"]


def test_a_pod_keeps_what_was_known_before_it_was_bound(cluster: Cluster) -> None:
    observe(cluster, *PLANS, AHEAD, ON)

    assert cluster.view().unseen.nodes["n0"] == {"gang-0": A}


GIVEN_UP: dict[str, tuple[list[Any], bool]] = {
    "its Binding was given up, and made all the same": ([AHEAD, planned(gang_0="n0")], True),
    "it was bound to another node than planned": ([planned(gang_0="n1")], True),
    "its bind was held": ([ev.PodWaiting(A, "n0")], False),
    "kube-scheduler asked for its Binding": ([ev.PodBinding(A, "n0")], False),
    "no room was kept for it": ([ev.Unreserved(["gang-0"])], False),
}


@pytest.mark.parametrize(("facts", "want"), GIVEN_UP.values(), ids=GIVEN_UP)
def test_a_pod_that_was_only_planned_is_unseen_when_it_is_on_a_node(
    facts: list[Any], *, want: bool, cluster: Cluster
) -> None:
    """kube-scheduler was answered no success for it, and counts it from its watch alone."""
    observe(cluster, *PLANS, *facts, ON)

    assert (unseen(cluster).get("gang-0") == "n0") is want
    assert cluster.view().unseen.number("gang-0") == (1 if want else None)


def test_pods_may_be_unseen_everywhere(cluster: Cluster) -> None:
    observe(cluster, ev.AllUnseen(is_so=True))
    assert cluster.view().unseen.everywhere
    observe(cluster, ev.AllUnseen(is_so=False))
    assert not cluster.view().unseen.everywhere


WRONG: dict[str, tuple[str, dict[str, tuple[str, bool]]]] = {
    "the pod is nowhere": ("n0", {}),
    "the pod is elsewhere": ("n0", {"gang-0": ("n1", False)}),
    "the pod has no number": ("n0", {"gang-0": ("n0", True)}),
}


@pytest.mark.parametrize(("node", "there"), WRONG.values(), ids=WRONG)
def test_a_table_that_disagrees_with_the_pods_is_an_error(
    node: str, there: dict[str, tuple[str, bool]]
) -> None:
    table = Unseen()
    table.put(pod("gang-0"), node)

    with pytest.raises(AssertionError):
        check_unseen(table, there)
