"""What pods may use of nodes on which kube-scheduler has not seen all pods."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from extender.api.core_v1 import LabelSelector
from extender.api.reasons import Reason
from extender.gang import preempt
from extender.gang.filter import usable
from extender.gang.verdicts import Refuse
from extender.state.cluster import events as ev
from extender.state.cluster.records import Pattern, PodInfo, PodTerm, Shape
from extender.state.cluster.reservations import SYSTEM_CRITICAL
from tests.makers import NAMESPACE, cluster_of, deleted, nodes, planned, pod, pod_group, pods, shape

A, B = pods(2, 3)
PLANS = [nodes(4, 4), pod_group(min_member=2), A, B, planned(gang_0="n0", gang_1="n1")]
FIRST = ev.BoundAhead({"gang-0": "n0"})
BOTH = ev.BoundAhead({"gang-0": "n0", "gang-1": "n1"})
BEFORE: Any = ev.AllUnseen(is_so=True)


def with_ports(*ports: int) -> Shape:
    found = frozenset(("TCP", number, "") for number in ports)
    return replace(shape(1), host_ports=found, one_per_node=True)


WITH_PORT = pod("gang-0", with_ports(80), group="gang")
PORT_TAKEN = [nodes(8, 8), WITH_PORT, planned(gang_0="n0"), FIRST]
FULL = pod("full", 4, on="n0")
NOT_SEEN = "kube-scheduler has not seen all pods on the nodes to choose from"


@dataclass(frozen=True)
class Case:
    """What there is, the pod that asks, and the nodes that it may use of n0 and n1."""

    facts: list[Any]
    pod: PodInfo
    want: list[str]


CASES: dict[str, Case] = {
    "nothing is unseen: a node that is full by our books is left to kube-scheduler": Case(
        [nodes(4, 4), FULL], pod("plain", 4), ["n0", "n1"]
    ),
    "a node with room passes": Case([*PLANS, FIRST], pod("plain", 1), ["n0", "n1"]),
    "a plain pod": Case([*PLANS, FIRST], pod("plain", 2), ["n1"]),
    "a pod of a higher priority": Case([*PLANS, FIRST], pod("high", 2, priority=9), ["n1"]),
    "a pod of the cluster's own": Case(
        [*PLANS, FIRST], pod("system", 2, priority=SYSTEM_CRITICAL), ["n1"]
    ),
    "a DaemonSet's pod": Case([*PLANS, FIRST], pod("agent", 2, only_node="n0"), ["n1"]),
    "a member of another gang": Case([*PLANS, FIRST], pod("other-0", 2, group="other"), ["n1"]),
    "a member of the same gang": Case([*PLANS, FIRST], pod("gang-7", 2, group="gang"), ["n1"]),
    "a member keeps its planned node": Case([*PLANS, FIRST], B, ["n1"]),
    "a pod whose bind is held has its room": Case(
        [*PLANS, pod("other", 1, on="n1"), ev.PodWaiting(B, "n1"), BEFORE], B, ["n0", "n1"]
    ),
    "our watch has shown the unseen pod": Case(
        [*PLANS, FIRST, replace(A, node="n0")], pod("plain", 2), ["n1"]
    ),
    "kube-scheduler has seen it": Case(
        [*PLANS, FIRST, ev.Sighted(["gang-0"])], pod("plain", 2), ["n0", "n1"]
    ),
    "the unseen pod is gone": Case(
        [*PLANS, FIRST, deleted("gang-0")], pod("plain", 2), ["n0", "n1"]
    ),
    "another node that is full is left to kube-scheduler": Case(
        [*PLANS, FIRST, pod("full", 4, on="n1")], pod("plain", 2), ["n1"]
    ),
    "room that a plan keeps is judged elsewhere": Case(
        [*PLANS, ev.BoundAhead({"gang-0": "n0"})], pod("plain", 4), ["n1"]
    ),
    "places for pods": Case(
        [nodes(8, 8, slots=1), A, planned(gang_0="n0"), FIRST], pod("plain", 1), ["n1"]
    ),
    "a resource that the node does not have is left to kube-scheduler": Case(
        [*PLANS, FIRST], pod("plain", shape(1, gpu=1)), ["n0", "n1"]
    ),
    "a pod that asks for nothing": Case([*PLANS, FIRST], pod("tiny", 0), ["n0", "n1"]),
    "the same host port": Case(PORT_TAKEN, pod("plain", with_ports(443, 80)), ["n1"]),
    "another host port": Case(PORT_TAKEN, pod("plain", with_ports(443)), ["n0", "n1"]),
    "its own host port": Case(
        [*PORT_TAKEN, replace(WITH_PORT, node="n0")], WITH_PORT, ["n0", "n1"]
    ),
    "a host port that only a plan keeps": Case(
        [
            *(nodes(8, 8), A, pod("gang-1", with_ports(80), group="gang")),
            *(planned(gang_0="n0", gang_1="n0"), FIRST),
        ],
        pod("plain", with_ports(80)),
        ["n0", "n1"],
    ),
    "after a restart every node is judged": Case(
        [nodes(4, 4), FULL, BEFORE], pod("plain", 1), ["n1"]
    ),
    "until kube-scheduler must have seen everything": Case(
        [nodes(4, 4), FULL, BEFORE, ev.AllUnseen(is_so=False)], pod("plain", 1), ["n0", "n1"]
    ),
    "a node that is unknown here": Case([nodes(4), FULL, BEFORE], pod("plain", 1), ["n1"]),
}


def pattern(*dropped: str, **labels: str) -> Pattern:
    return Pattern(shape(3), NAMESPACE, labels, frozenset(dropped))


def about(*namespaces: str, **labels: str) -> PodTerm:
    return PodTerm(LabelSelector(labels), frozenset(namespaces))


def constrained(
    *, shuns: Sequence[PodTerm] = (), seeks: Sequence[PodTerm] = (), namespace: str = NAMESPACE
) -> PodInfo:
    terms = replace(shape(1), shuns=tuple(shuns), seeks=tuple(seeks))
    return replace(pod("asks", terms), namespace=namespace)


WORKER, GANG = about(app="worker"), about(job="1")
RUNNING: Any = [nodes(4, 4), pod("m", 1, on="n0", group="gang")]
ABOUT: dict[str, tuple[list[Any], PodInfo, bool]] = {
    "anti-affinity": ([pattern(app="worker")], constrained(shuns=[WORKER]), True),
    "affinity, or spread": ([pattern(app="worker")], constrained(seeks=[WORKER]), True),
    "other pods": ([pattern(app="server")], constrained(shuns=[WORKER], seeks=[WORKER]), False),
    "the second of two terms": (
        [pattern(app="worker")],
        constrained(shuns=[about(app="x"), WORKER]),
        True,
    ),
    "a label that differs from pod to pod": ([pattern("job")], constrained(shuns=[GANG]), True),
    "pods of another namespace": (
        [pattern(app="worker")],
        constrained(shuns=[WORKER], namespace="other"),
        False,
    ),
    "pods of a named namespace": (
        [pattern(app="worker")],
        constrained(shuns=[about(NAMESPACE, app="worker")], namespace="other"),
        True,
    ),
    "pods of which no pattern is known": ([None], constrained(shuns=[WORKER]), True),
}


@pytest.mark.parametrize(("patterns", "asks", "refused"), ABOUT.values(), ids=ABOUT)
def test_terms_that_may_be_about_unseen_pods_wait(
    patterns: list[Pattern | None], asks: PodInfo, *, refused: bool
) -> None:
    members = [replace(A, pattern=each) for each in patterns]
    facts = [nodes(8, 8), pod_group(min_member=1), members, planned(gang_0="n0")]
    view = cluster_of(facts, FIRST).view()

    want = Refuse(Reason.NOT_SEEN_YET, NOT_SEEN) if refused else ["n0", "n1"]
    assert usable(asks, ["n0", "n1"], view=view) == want
    assert usable(asks, ["n0", "n1"], view=cluster_of(facts).view()) == ["n0", "n1"]


AFTER_RESTART: dict[str, tuple[list[Any], PodInfo, bool]] = {
    "its namespace has a gang": (RUNNING, constrained(shuns=[WORKER]), True),
    "another one has": (RUNNING, constrained(shuns=[WORKER], namespace="other"), False),
    "a named one has": (RUNNING, constrained(seeks=[about(NAMESPACE)], namespace="other"), True),
    "labels of namespaces select": (
        RUNNING,
        constrained(seeks=[PodTerm(None, by_labels=True)], namespace="other"),
        True,
    ),
    "no gang has a pod on a node": (
        [nodes(4, 4), pod("m", 1, group="gang"), pod("plain", 1, on="n0")],
        constrained(shuns=[WORKER]),
        False,
    ),
    "no terms": (RUNNING, pod("asks", 1), False),
}


@pytest.mark.parametrize(("facts", "asks", "refused"), AFTER_RESTART.values(), ids=AFTER_RESTART)
def test_after_a_restart_terms_about_namespaces_with_gangs_wait(
    facts: list[Any], asks: PodInfo, *, refused: bool
) -> None:
    view = cluster_of(facts, BEFORE).view()

    assert isinstance(usable(asks, ["n0", "n1"], view=view), Refuse) is refused


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_pod_has_room_beside_the_pods_that_kube_scheduler_has_not_seen(case: Case) -> None:
    view = cluster_of(*case.facts).view()

    assert usable(case.pod, ["n0", "n1"], view=view) == case.want


@pytest.mark.parametrize(("group", "prefix"), [(None, ""), ("other", "gang ns/other: ")])
def test_a_pod_without_any_node_is_refused(group: str | None, prefix: str) -> None:
    view = cluster_of(*PLANS, BOTH).view()

    found = usable(pod("asks", 2, group=group), ["n0", "n1"], view=view)
    assert found == Refuse(Reason.NOT_SEEN_YET, prefix + NOT_SEEN)


def test_nothing_is_read_where_nothing_is_unseen() -> None:
    view, sent = cluster_of(nodes(4), FULL).view(), ["n0"]

    assert usable(pod("plain", 4), sent, view=view) is sent


LOW = pod("low", 1, on="n0", priority=-9)
PREEMPTION: dict[str, tuple[list[Any], PodInfo, set[str]]] = {
    "there would be too little room": ([FIRST], pod("high", 3, priority=9), {"n1"}),
    "there would be room": ([FIRST], pod("high", 1, priority=9), {"n0", "n1"}),
    "nothing is unseen": ([ev.PodBinding(A, "n0")], pod("high", 3, priority=9), {"n0", "n1"}),
    "a resource that the node does not have": (
        [FIRST],
        pod("high", shape(1, gpu=1), priority=9),
        {"n0", "n1"},
    ),
    "unseen pods take it on all nodes": (
        [B, planned(gang_1="n1"), BOTH],
        pod("high", 3, priority=9),
        set(),
    ),
    "pods may be unseen everywhere, and none is known": (
        [ev.PodBinding(A, "n0"), BEFORE],
        pod("high", 3, priority=9),
        {"n0", "n1"},
    ),
    "our watch still shows a pod that kube-scheduler has seen go": (
        [FIRST, pod("went", 2, on="n0")],
        pod("high", 3, priority=9),
        {"n0", "n1"},
    ),
}


@pytest.mark.parametrize(("facts", "asks", "want"), PREEMPTION.values(), ids=PREEMPTION)
def test_no_pod_is_evicted_for_room_that_an_unseen_pod_takes(
    facts: list[Any], asks: PodInfo, want: set[str]
) -> None:
    view = cluster_of(nodes(4, 4), pod_group(min_member=2), A, LOW, planned(gang_0="n0"), facts)
    victims = {"n0": ["low", "gone"], "n1": []}

    assert {*preempt.decide_proposals(asks, victims, view=view.view())} == want


def test_after_a_restart_kube_scheduler_goes_on_where_it_has_begun() -> None:
    """It has seen that one-0 is gone, and not yet that one-1 is going: it names only that one."""
    asks = pod("asks", 3, priority=9, nominated="n0")
    one = [pod("one-0", 2, group="one", on="n0"), pod("one-1", 2, group="one", on="n0")]
    two = [pod("two-0", 3, group="two", on="n1"), pod("two-1", 3, group="two", on="n2")]
    facts = [nodes(4, 4, 4), pod_group("one", 2), pod_group("two", 2), asks, two, BEFORE]
    victims = {"n0": ["one-0"], "n1": ["two-0"], "n2": ["two-1"]}

    view = cluster_of(facts, one[0], replace(one[1], terminating=True)).view()
    assert {*preempt.decide_proposals(asks, victims, view=view)} == {"n0"}
    assert {*preempt.decide_proposals(asks, victims, view=cluster_of(facts, one).view())} == {"n0"}
