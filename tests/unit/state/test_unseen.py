"""Pods that are bound ahead of kube-scheduler: until it has seen them on their nodes."""

from dataclasses import replace
from typing import Any

import pytest

from extender.state.cluster import events as ev
from extender.state.cluster.records import NodeInfo, PodInfo
from extender.state.cluster.reservations import ReservationKind
from extender.state.cluster.seen import Unseen
from extender.state.cluster.store import Cluster
from tests.makers import deleted, key, nodes, observe, planned, pod, pod_group, pods
from tests.recount import check_unseen

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


NOT_AHEAD: dict[str, list[Any]] = {
    "a pod without room": [nodes(4), A],
    "a pod whose bind is held": [nodes(4), A, ev.PodWaiting(A, "n0")],
    "a pod that kube-scheduler asked to be bound": [nodes(4), A, ev.PodBinding(A, "n0")],
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
