"""Priorities change while workloads wait and run: the class, its value, or the number itself."""

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import API, JOBS, WORKLOADS, Queues
from tests.harness.client import Api

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

CLASSES = f"{API}/workloadpriorityclasses"
LABEL = "kueue.x-k8s.io/priority-class"


def test_the_order_of_workloads_follows_each_change_of_their_priorities(
    api: Api, nodes: NodeFactory, queues: Queues
) -> None:
    """Two Jobs, and quota for one of them: after each change the other one is preempted."""
    nodes(1, "4")
    queues.simple(cpu=2, preemption={"withinClusterQueue": "LowerPriority"})
    low = queues.priority_class("low", 1)
    high = queues.priority_class("high", 2)
    top = queues.priority_class("top", 100)
    queues.job("one", 2, labels={LABEL: high}, run_for="1h")
    queues.await_admitted("one")
    queues.job("two", 2, labels={LABEL: low}, run_for="1h")
    queues.await_condition("two", "QuotaReserved", "False", reason="WaitingForQuota")

    def await_order(first: str, second: str, priorities: tuple[int, int]) -> None:
        queues.await_admitted(first)
        queues.await_condition(second, "QuotaReserved", "False")
        found = [queues.its_workload(name) for name in (first, second)]
        assert tuple(each["spec"]["priority"] for each in found) == priorities

    # The value of a class rises.
    api.patch(CLASSES, low, body={"value": 3})
    await_order("two", "one", (3, 2))

    # A class is deleted, and made anew with another value.
    api.delete(CLASSES, high)
    high = queues.priority_class("high", 9)
    await_order("one", "two", (9, 3))

    # A number is set by hand, and the class has not changed.
    two = queues.its_workload("two")
    api.patch(WORKLOADS, two["metadata"]["name"], queues.namespace, body={"spec": {"priority": 50}})
    await_order("two", "one", (50, 9))

    # A Job that waits names another class.
    api.patch(JOBS, "one", queues.namespace, body={"metadata": {"labels": {LABEL: top}}})
    await_order("one", "two", (100, 50))
    one = queues.its_workload("one")
    assert one["spec"]["priorityClassRef"]["name"] == top

    # The value of the class of a Job that runs falls.
    api.patch(CLASSES, top, body={"value": -1})
    await_order("two", "one", (50, -1))
