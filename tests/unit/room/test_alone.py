"""Pods that never share a node: host ports, and those that shun their equals."""

import pytest

from extender.state.cluster.records import HostPort, Shape
from tests.makers import cluster_of, node, nodes, pod, requests, shape
from tests.queue_makers import pod_set, workload
from tests.unit.room.test_require_room import holding, queues_of

SHY = shape(1, one_per_node=True)
PORT: HostPort = ("TCP", 80, "")


def ported(*ports: HostPort) -> Shape:
    return Shape(requests(1), one_per_node=True, host_ports=frozenset(ports))


ONE = ported(PORT)
CLASHES: dict[str, tuple[Shape, Shape, bool]] = {
    "one template that shuns itself": (SHY, SHY, True),
    "two templates that do": (SHY, shape(2, one_per_node=True), False),
    "one template with a port": (ONE, ONE, True),
    "two templates with one port": (ONE, ported(PORT, ("TCP", 81, "")), True),
    "two ports": (ONE, ported(("TCP", 81, "")), False),
    "two protocols": (ONE, ported(("UDP", 80, "")), False),
    "all addresses and one": (ONE, ported(("TCP", 80, "10.0.0.1")), True),
    "two addresses": (ported(("TCP", 80, "10.0.0.2")), ported(("TCP", 80, "10.0.0.1")), False),
    "a port and none": (ONE, shape(1), False),
}


@pytest.mark.parametrize(("one", "other", "clash"), CLASHES.values(), ids=CLASHES)
def test_whether_two_workloads_fit_on_one_node(one: Shape, other: Shape, clash: bool) -> None:
    queues = queues_of(cluster_of(node("n", 9)))
    queues.put(workload("a", pod_set(one)), workload("b", pod_set(other)))
    assert queues.admitted() == (["a"] if clash else ["a", "b"])


@pytest.mark.parametrize(("one", "other", "clash"), CLASHES.values(), ids=CLASHES)
def test_whether_a_workload_fits_beside_a_pod_that_runs(
    one: Shape, other: Shape, clash: bool
) -> None:
    there = Shape(one.requests, one_per_node=one.one_per_node, host_ports=one.host_ports)
    runs = pod("a-0", there, on="n", controller="job-a")
    queues = queues_of(cluster_of(node("n", 9), runs), 100, holding("a", 1, one))
    queues.put(workload("b", pod_set(other)))
    assert queues.admitted() == ([] if clash else ["b"])


def test_a_host_port_of_an_unknown_pod_is_taken() -> None:
    queues = queues_of(cluster_of(node("n", 9), pod("daemon", ported(PORT), on="n")))
    queues.put(workload("b", pod_set(ported(PORT))), workload("c", pod_set(SHY)))
    assert queues.admitted() == ["c"]


@pytest.mark.parametrize("asks", [SHY, ONE], ids=["shuns", "port"])
def test_what_remains_of_a_gang_is_planned_on_other_nodes(asks: Shape) -> None:
    runs = pod("a-0", asks, on="n0", controller="job-a")
    here = shape(1, selector={"only": "n1"})
    facts = [node("n0", 4), node("n1", 1, labels={"only": "n1"}), runs]
    queues = queues_of(cluster_of(*facts), 100, holding("a", 2, asks))
    queues.put(workload("b", pod_set(here)))
    assert queues.admitted() == []


@pytest.mark.parametrize("asks", [SHY, ONE], ids=["shuns", "port"])
def test_a_gang_has_so_many_nodes(asks: Shape) -> None:
    queues = queues_of(cluster_of(nodes(4, 4)))
    queues.put(workload("three", pod_set(asks, 3)), workload("two", pod_set(asks, 2)))
    assert queues.admitted() == ["two"]


@pytest.mark.parametrize("asks", [SHY, ONE], ids=["shuns", "port"])
def test_a_preempted_workload_gives_its_host_port_too(asks: Shape) -> None:
    runs = pod("a-0", asks, on="n", controller="job-a")
    queues = queues_of(
        cluster_of(node("n", 9), runs),
        1,
        holding("a", 1, asks),
        preemption={"within_cluster_queue": "LowerPriority"},
    )
    queues.put(workload("b", pod_set(asks), priority=10))
    (outcome,) = queues.run()
    assert getattr(outcome, "victims", ())
