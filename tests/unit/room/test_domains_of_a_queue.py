"""Flavors with a topology: which domains the pods of a workload get, and what they lack."""

from dataclasses import replace
from typing import Any

import pytest

from extender.api.wellknown import HOSTNAME_LABEL
from extender.queueing.cycle import Admit, NotAdmitted
from extender.state.cluster import events as cluster_events
from extender.state.cluster.records import DomainAssignment
from extender.state.cluster.store import Cluster
from extender.state.queue import events as queue_events
from extender.state.queue.records import (
    DomainRequest,
    JobObject,
    OwnerRef,
    PodSetInfo,
    TopologyInfo,
    WorkloadInfo,
)
from tests.makers import cluster_of, node, observe, pod
from tests.queue_makers import (
    Admissions,
    cluster_queue,
    flavor,
    group,
    local_queue,
    meta,
    pod_set,
    workload,
)

BLOCK, RACK = "block", "rack"
LEVELS = (BLOCK, RACK, HOSTNAME_LABEL)


def racks(*sizes: int, cpu: int = 4, block: str = "b", **labels: str) -> list[Any]:
    """Return racks `r0`, `r1`... of so many nodes."""
    return [
        node(
            f"{block}r{rack}n{number}",
            cpu,
            labels={
                BLOCK: block,
                RACK: f"r{rack}",
                HOSTNAME_LABEL: f"{block}r{rack}n{number}",
                **labels,
            },
        )
        for rack, size in enumerate(sizes)
        for number in range(size)
    ]


def queues_of(cluster: Cluster, *records: Any, levels: tuple[str, ...] = LEVELS) -> Admissions:
    return Admissions(
        flavor("racked", topology="t"),
        TopologyInfo(meta("t"), levels),
        cluster_queue("cq", group(racked=100)),
        local_queue(),
        *records,
        cluster=cluster,
    )


def gang(name: str, count: int, cpu: int = 4, **asked: Any) -> WorkloadInfo:
    found = pod_set(cpu, count)
    request = DomainRequest(**asked) if asked else None
    return workload(name, PodSetInfo("main", count, found.shape, topology=request))


def given(queues: Admissions) -> dict[str, Any]:
    """Return the domains of what is admitted, and the messages of what is not."""
    found: dict[str, Any] = {}
    for outcome in queues.run():
        name = outcome.workload.removeprefix("ns/")
        if isinstance(outcome, Admit):
            topology = outcome.admission.assignments[0].topology
            found[name] = dict(topology.domains) if topology else None
        elif isinstance(outcome, NotAdmitted):
            found[name] = f"{outcome.reason}: {outcome.message}"
    return found


def hosts(*names: str, pods: int = 1) -> dict[tuple[str, ...], int]:
    return {(name,): pods for name in names}


def test_pods_that_require_a_rack_get_the_smallest_that_takes_them() -> None:
    cluster = cluster_of(racks(2, 4, 3))
    queues = queues_of(cluster, gang("one", 3, required=RACK), gang("two", 4, required=RACK))
    assert given(queues) == {
        "one": hosts("br2n0", "br2n1", "br2n2"),
        "two": hosts("br1n0", "br1n1", "br1n2", "br1n3"),
    }


def test_the_message_says_how_many_fit_in_the_best_domain() -> None:
    queues = queues_of(cluster_of(racks(2, 3)), gang("one", 4, required=RACK))
    assert given(queues) == {
        "one": (
            'TopologyPlacementFailed: quota yes; topology "t" allows to fit only 3 out of 4 pod(s)'
            f" in one domain of {RACK}"
        )
    }


def test_a_level_above_hosts_is_said_with_all_labels() -> None:
    cluster = cluster_of(racks(2, 3))
    queues = queues_of(cluster, gang("one", 3, required=RACK), levels=(BLOCK, RACK))
    assert given(queues) == {"one": {("b", "r1"): 3}}


def test_pods_that_prefer_a_rack_get_a_block() -> None:
    cluster = cluster_of(racks(1, 1, block="a"), racks(1, 2, 2, block="b"))
    queues = queues_of(cluster, gang("one", 4, preferred=RACK))
    assert given(queues) == {"one": hosts("br1n0", "br1n1", "br2n0", "br2n1")}


def test_slices_of_pods_are_in_one_rack_each() -> None:
    cluster = cluster_of(racks(3, 1, 2))
    asked: Any = {"required": BLOCK, "slice_level": RACK, "slice_size": 2}
    queues = queues_of(cluster, gang("one", 4, **asked), gang("two", 4, **asked))
    assert given(queues) == {
        "one": hosts("br0n0", "br0n1", "br2n0", "br2n1"),
        "two": (
            'TopologyPlacementFailed: quota yes; topology "t" doesn\'t allow to fit any of '
            f"2 slice(s) in one domain of {BLOCK}"
        ),
    }


def test_pods_without_a_wish_get_hosts_where_all_flavors_have_a_topology() -> None:
    queues = queues_of(cluster_of(racks(2, 1)), gang("one", 3))
    assert given(queues) == {"one": hosts("br0n0", "br0n1", "br1n0")}


def test_nodes_without_a_label_of_the_topology_take_no_pods() -> None:
    bare = node("bare", 64, labels={BLOCK: "b", HOSTNAME_LABEL: "bare"})
    queues = queues_of(cluster_of(bare, racks(1)), gang("one", 2, required=BLOCK))
    assert "only 1 out of 2" in given(queues)["one"]


def test_an_admitted_workload_keeps_its_domains_until_its_pods_are_there() -> None:
    cluster = cluster_of(racks(2, 2))
    queues = queues_of(cluster, gang("one", 2, required=RACK))
    assert given(queues) == {"one": hosts("br0n0", "br0n1")}
    # Half of its pods are there, and the other node is not taken by any other workload.
    observe(
        cluster,
        pod("p", 4, node="br0n0", workload="ns/one", pod_set="main"),
    )
    queues.put(gang("two", 1), gang("three", 2, required=RACK))
    assert given(queues) == {
        "two": hosts("br1n0"),
        "three": (
            'TopologyPlacementFailed: quota yes; topology "t" allows to fit only 1 out of 2 pod(s)'
            f" in one domain of {RACK}"
        ),
    }


@pytest.mark.parametrize(
    ("mode", "where"), [("Indexed", "br0n0"), ("NonIndexed", None)], ids=["by index", "by number"]
)
def test_the_place_of_an_index_that_is_done_is_free(mode: Any, where: str | None) -> None:
    """Room is kept where the pods that have no node are to go, and nowhere else."""
    cluster = cluster_of(racks(3))
    owner = OwnerRef("batch/v1", "Job", "job", "job")
    one = replace(gang("one", 3, required=RACK), owners=(owner,))
    queues = queues_of(cluster, one)
    assert given(queues) == {"one": hosts("br0n0", "br0n1", "br0n2")}
    raw = (
        b'{"spec": {"completions": 3, "parallelism": 3}, '
        b'"status": {"completedIndexes": "0", "succeeded": 1}}'
    )
    job = JobObject("batch/job", meta("job", "ns"), raw, completion_mode=mode, done={"main": 1})
    queues.apply(queue_events.JobApplied(job))
    observe(cluster, pod("p1", 4, node="br0n1", workload="ns/one", pod_set="main", index=1))
    queues.put(gang("two", 1))
    found = given(queues)["two"]
    assert found == hosts(where) if where else len(found) == 1


def test_a_node_that_comes_makes_room_in_a_domain() -> None:
    cluster = cluster_of(racks(1))
    queues = queues_of(cluster, gang("one", 2, required=RACK))
    assert "only 1 out of 2" in given(queues)["one"]
    new = node("new", 4, labels={BLOCK: "b", RACK: "r0", HOSTNAME_LABEL: "new"})
    cluster.apply(cluster_events.ObjectApplied(new))
    queues.put(flavor("other"))
    assert given(queues) == {"one": hosts("br0n0", "new")}


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"required": "row"}, "topology t of flavor racked has no level row"),
        ({}, "flavor racked is for pods with a topology annotation"),
    ],
    ids=["no such level", "no wish beside flavors without a topology"],
)
def test_wishes_and_flavors_that_do_not_go_together(asked: dict[str, Any], text: str) -> None:
    queues = queues_of(cluster_of(racks(2)), gang("one", 1, **asked))
    queues.put(cluster_queue("cq", group(racked=100, default=0)))
    assert text in given(queues)["one"]


def test_pods_with_a_wish_get_no_flavor_without_a_topology() -> None:
    queues = queues_of(cluster_of(racks(2)), gang("one", 1, required=RACK))
    queues.put(cluster_queue("cq", group(default=100)))
    assert given(queues)["one"].startswith("NoMatchingFlavor")


def test_a_request_that_is_not_honoured_is_said() -> None:
    queues = queues_of(
        cluster_of(racks(2)), gang("one", 1, fault="podSetGroupName is not honoured")
    )
    assert given(queues)["one"] == (
        "Misconfigured: topologyRequest of pod set main: podSetGroupName is not honoured"
    )


def test_what_was_given_is_not_decided_again() -> None:
    cluster = cluster_of(racks(2, 2))
    queues = queues_of(cluster, gang("one", 2, required=RACK))
    [outcome] = queues.run()
    assert isinstance(outcome, Admit)
    assert outcome.admission.assignments[0].topology == DomainAssignment(
        (HOSTNAME_LABEL,), ((("br0n0",), 1), (("br0n1",), 1))
    )
