"""What may make room for a gang: plain pods, members above minMember, whole gangs."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from extender.api.core_v1 import LabelSelector, Requirement
from extender.api.wellknown import INDEX_LABEL
from extender.gang import victims
from extender.gang.verdicts import GangOptions
from extender.gang.victims import Evictables, Unit
from extender.state.cluster import events as ev
from extender.state.cluster.records import BudgetInfo, PodInfo
from extender.state.cluster.store import Cluster
from tests.makers import NAMESPACE, cluster_of, key, node, planned, pod, pod_group, pods

PRIORITY = 5
OPTIONS = GangOptions()
NODES = [node("n0", 50), node("n1", 50)]
Named = tuple[tuple[str, ...], bool]
"""Names of the pods that go, and whether that is their whole gang."""


def units_of(
    *facts: Any,
    near: Collection[str] = ("n0", "n1"),
    now: float = 1000.0,
    options: GangOptions = OPTIONS,
) -> list[Unit]:
    """Return the units of all pods, the least important first."""
    view = cluster_of(NODES, *facts).view()
    found = Evictables(
        *(key("gang"), PRIORITY), view=view, now=now, options=options, near=near.__contains__
    )
    there = (pod for pod in view.pods.values() if pod.node is not None and not pod.terminating)
    units = dict.fromkeys(filter(None, map(found.of, there)))
    return sorted(units, key=lambda unit: unit.rank)


def named(units: Collection[Unit]) -> list[Named]:
    return [(tuple(sorted(pod.name for pod in unit.all_pods)), unit.whole) for unit in units]


def on(count: int, group: str = "low", **more: Any) -> list[PodInfo]:
    return pods(count, group=group, on="n0", **more)


PLAIN = pod("plain", on="n0")
WANT: dict[str, tuple[list[Any], list[Named]]] = {
    "a plain pod": ([PLAIN], [(("plain",), False)]),
    "a pod of the same priority": ([replace(PLAIN, priority=PRIORITY)], []),
    "a pod that is being deleted": ([replace(PLAIN, terminating=True)], []),
    "a static pod": ([replace(PLAIN, mirror=True)], []),
    "a DaemonSet's pod of the system": (
        [replace(PLAIN, only_node="n0", namespace="kube-system")],
        [],
    ),
    "a tenant's pod of a DaemonSet": (
        [replace(PLAIN, only_node="n0")],
        [(("plain",), False)],
    ),
    "its own members": ([pod_group(), pods(1, on="n0")], []),
    "a gang without a member to spare": (
        [pod_group("low", 2), on(2)],
        [(("low-0", "low-1"), True)],
    ),
    "a gang that has lost members": ([pod_group("low", 3), on(2)], [(("low-0", "low-1"), True)]),
    "the last members of a gang go by themselves": (
        [pod_group("low", 2), [replace(each, index=i) for i, each in enumerate(on(4))]],
        [
            (("low-3",), False),
            (("low-2",), False),
            (("low-0", "low-1", "low-2", "low-3"), True),
        ],
    ),
    "the youngest of those without an index": (
        [
            pod_group("low", 1),
            [replace(each, bound_at=at) for each, at in zip(on(3), (20, 30, 10), strict=True)],
        ],
        [(("low-1",), False), (("low-0",), False), (("low-0", "low-1", "low-2"), True)],
    ),
    "one that is being deleted is none to spare": (
        [pod_group("low", 1), on(1), pod("low-x", group="low", on="n0", terminating=True)],
        [(("low-0",), True)],
    ),
    "a gang that needs none": (
        [pod_group("low", 0), on(2)],
        [(("low-0",), False), (("low-1",), False)],
    ),
    "pods whose PodGroup is gone": ([on(2)], [(("low-0",), False), (("low-1",), False)]),
    "a gang with a member of the same priority": (
        [pod_group("low", 2), on(1), pod("low-1", group="low", on="n0", priority=PRIORITY)],
        [],
    ),
    "its other members, above minMember": (
        [pod_group("low", 1), on(1), pod("low-1", group="low", on="n0", priority=PRIORITY)],
        [],
    ),
    "a gang with such a member that has no node": (
        [pod_group("low", 1), on(2), pod("low-2", group="low", priority=PRIORITY)],
        [],
    ),
    "a gang with such a member that is gated, which never runs": (
        [pod_group("low", 2), on(2), pod("low-2", group="low", priority=PRIORITY, gates=("a",))],
        [(("low-0", "low-1"), True)],
    ),
    "a gang with such a member for which kube-scheduler finds no node": (
        [
            pod_group("low", 2),
            on(2),
            pod("low-2", group="low", priority=PRIORITY, unschedulable="no such node"),
        ],
        [(("low-0", "low-1"), True)],
    ),
    "members above minMember, beside a static pod": (
        [pod_group("low", 1), on(1), pod("low-1", group="low", on="n0", mirror=True)],
        [(("low-0",), False)],
    ),
    "a gang with a static pod": (
        [pod_group("low", 2), on(1), pod("low-1", group="low", on="n0", mirror=True)],
        [],
    ),
    "a gang that is starting": (
        [
            pod_group("low", 2),
            on(2),
            pod("low-2", group="low"),
            ev.PodWaiting(pod("low-2", group="low"), "n1"),
        ],
        [],
    ),
    "one with a plan for more members": (
        [pod_group("low", 2), on(2), pod("low-2", group="low"), planned(low_2="n1")],
        [(("low-0", "low-1"), True)],
    ),
    "a job of a queue goes whole, whatever its minMember": (
        [pod_group("low", 1), on(2, workload=f"{NAMESPACE}/w")],
        [(("low-0", "low-1"), True)],
    ),
    "one without a PodGroup too": (
        [[pod(name, on="n0", workload=f"{NAMESPACE}/w") for name in "ab"]],
        [(("a", "b"), True)],
    ),
    "one with a pod of the same priority": (
        [
            pod("a", on="n0", workload=f"{NAMESPACE}/w"),
            pod("b", on="n0", workload=f"{NAMESPACE}/w", priority=PRIORITY),
        ],
        [],
    ),
}


@pytest.mark.parametrize(("facts", "want"), WANT.values(), ids=WANT)
def test_what_may_go(facts: list[Any], want: list[Named]) -> None:
    assert named(units_of(facts)) == want


def test_members_on_nodes_that_are_of_use_go_first() -> None:
    members = [replace(each, index=i) for i, each in enumerate(on(3))]
    members[0] = replace(members[0], node="n1")
    units = units_of(pod_group("low", 2), members, near=["n1"])
    assert named(units)[0] == (("low-0",), False)


IMPORTANCE: dict[str, tuple[PodInfo, PodInfo]] = {
    "priority": (replace(PLAIN, priority=1, cost=9), replace(PLAIN, priority=2)),
    "cost": (replace(PLAIN, cost=-1, bound_at=1), replace(PLAIN, bound_at=2)),
    "age": (replace(PLAIN, bound_at=2), replace(PLAIN, bound_at=1)),
    "age before it was bound": (replace(PLAIN, created=2), replace(PLAIN, created=1)),
}


@pytest.mark.parametrize(("first", "last"), IMPORTANCE.values(), ids=IMPORTANCE)
def test_the_least_important_goes_first(first: PodInfo, last: PodInfo) -> None:
    some = [replace(last, uid="a", name="a"), replace(first, uid="b", name="b")]
    assert named(units_of(some)) == [(("b",), False), (("a",), False)]


def test_the_cost_of_a_gang_is_that_of_its_pod_group_or_of_its_dearest_pod() -> None:
    members = [replace(each, cost=cost) for each, cost in zip(on(2), (3, 7), strict=True)]
    (unit,) = units_of(pod_group("low", 2), members)
    assert unit.rank.cost == 7
    (unit,) = units_of(pod_group("low", 2, cost=4), members)
    assert unit.rank.cost == 4


def test_the_cost_of_one_member_is_its_own_or_that_of_its_pod_group() -> None:
    members = [replace(each, index=i) for i, each in enumerate(on(2))]
    single = units_of(pod_group("low", 1, cost=4), members)[0]
    assert (single.whole, single.rank.cost) == (False, 4)
    members[1] = replace(members[1], cost=2)
    single = units_of(pod_group("low", 1, cost=4), members)[0]
    assert single.rank.cost == 2


RUNS: dict[str, tuple[dict[str, Any], float, bool]] = {
    "no time is asked for": ({}, 0, True),
    "by the setting, too short": ({}, 60, False),
    "by the setting, long enough": ({}, 40, True),
    "by its own annotation, too short": ({"min_run": 60}, 0, False),
    "by its own annotation, long enough": ({"min_run": 10}, 60, True),
    "since it started, not since its first pod": ({"started": 990.0}, 40, False),
}


@pytest.mark.parametrize(("said", "setting", "goes"), RUNS.values(), ids=RUNS)
def test_a_gang_that_has_not_run_for_long_enough_stays(
    said: dict[str, Any], setting: float, goes: bool
) -> None:
    """It runs for 50 seconds; its member above minMember stays too."""
    facts = [pod_group("low", 2, **said), on(3, bound_at=950.0)]
    units = units_of(facts, options=GangOptions(min_run=setting))
    assert bool(units) == goes


BUDGETS: dict[str, tuple[LabelSelector | None, set[str]]] = {
    "none": (None, set()),
    "all": (LabelSelector(), {"low-0", "low-1", "plain"}),
    "by a label": (LabelSelector(match_labels={"app": "a"}), {"low-0", "low-1"}),
    "by the completion index": (
        LabelSelector(match_expressions=[Requirement(INDEX_LABEL, "In", ["1"])]),
        {"low-1"},
    ),
}


@pytest.mark.parametrize(("selector", "want"), BUDGETS.values(), ids=BUDGETS)
def test_which_pods_a_budget_is_about(selector: LabelSelector | None, want: set[str]) -> None:
    members = [replace(p, index=i, labels={"app": "a"}) for i, p in enumerate(on(2))]
    facts = [
        pod_group("low", 0),
        members,
        PLAIN,
        ev.ObjectApplied(BudgetInfo(NAMESPACE, "b", selector)),
        ev.ObjectApplied(BudgetInfo("elsewhere", "b", LabelSelector())),
    ]
    guarded = {unit.pods[0].name for unit in units_of(facts) if unit.guarded}
    assert guarded == want


MANY = 500
"""Budgets of one namespace, each about a pod with labels of its own."""


def selecting(namespace: str, number: int) -> BudgetInfo:
    return BudgetInfo(namespace, f"b-{number}", LabelSelector({"n": str(number)}), 1)


def test_pods_beyond_the_bound_count_as_protected() -> None:
    cluster = Cluster()
    found = [selecting("greedy", number) for number in range(MANY)]
    for each in (*found, selecting("other", 0)):
        cluster.apply(ev.ObjectApplied(each))
    books = victims.Budgets(cluster.view())
    pods = [
        pod(f"p-{number}", namespace="greedy", labels={"n": str(number)}) for number in range(MANY)
    ]

    first, *_, last = [books.of([each]) for each in pods]

    assert first == {"greedy/b-0": 1}
    assert not books.would_break(first)
    assert last == {"greedy": 1}
    assert books.would_break(last)
    # What was found before stays known, and other namespaces have a bound of their own.
    assert books.of(pods[:1]) == first
    other = books.of([pod("p", namespace="other", labels={"n": "0"})])
    assert other == {"other/b-0": 1}
    assert not books.would_break(other)


@pytest.mark.parametrize(
    ("setting", "cap", "asked", "want"),
    [
        (60, 3600, None, 60),
        (60, 3600, 0, 0),
        (60, 3600, 600, 600),
        (60, 3600, 7200, 3600),
        (7200, 3600, 9000, 7200),
    ],
    ids=["the setting", "less", "more", "more than the cap", "a cap below the setting"],
)
def test_for_how_long_a_gang_is_no_victim(
    setting: float, cap: float, asked: float | None, want: float
) -> None:
    assert GangOptions(min_run=setting, max_min_run=cap).runs_for(asked) == want
