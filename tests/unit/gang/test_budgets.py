"""A look at disruption budgets is bounded, whatever a tenant makes."""

from extender.api.core_v1 import LabelSelector
from extender.gang import victims
from extender.state.cluster import events as ev
from extender.state.cluster.records import BudgetInfo
from extender.state.cluster.store import Cluster
from tests.makers import pod

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
