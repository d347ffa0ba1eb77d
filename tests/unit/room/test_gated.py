"""Which domain the gated pods of a workload get, in the order in which they come."""

from collections.abc import Mapping
from typing import Any

from extender.api.wellknown import HOSTNAME_LABEL, TOPOLOGY_GATE
from extender.room.pods import due
from extender.state.cluster.records import DomainAssignment, PodInfo
from extender.state.queue.records import AdmissionInfo, Assignment, WorkloadInfo
from tests.makers import cluster_of, node, pod
from tests.queue_makers import condition, workload

HOSTS = (("h2",), 1), (("h0",), 2), (("h1",), 1)
GIVEN = DomainAssignment((HOSTNAME_LABEL,), HOSTS)
NODES = [node(f"h{n}", labels={HOSTNAME_LABEL: f"h{n}"}) for n in range(3)]


def admitted(**more: Any) -> WorkloadInfo:
    held = AdmissionInfo("cq", (Assignment("main", {}, {}, 4, GIVEN),))
    return workload("w", admission=held, conditions=(condition("Admitted"),), **more)


def waiting(name: str, index: int | None = None, **more: Any) -> PodInfo:
    said = {"workload": "ns/w", "pod_set": "main", "gates": (TOPOLOGY_GATE,), **more}
    return pod(name, controller="job", index=index, **said)


def found(*pods: PodInfo, given: Mapping[str, Any] | None = None) -> dict[str, str]:
    view = cluster_of(NODES, *pods).view()
    opened = due(admitted(), cluster=view, given=given or {})
    assert all(dict(each.selector) == {HOSTNAME_LABEL: each.domain[0]} for each in opened)
    return {each.pod.name: each.domain[0] for each in opened}


def test_indexes_follow_the_domains() -> None:
    pods = [waiting(f"p{n}", n) for n in (3, 1, 0, 2)]
    assert found(*pods) == {"p0": "h2", "p1": "h0", "p2": "h0", "p3": "h1"}


def test_pods_without_an_index_get_what_others_leave() -> None:
    there = waiting("there", gates=(), node="h0")
    pods = [waiting("a"), waiting("b"), waiting("c"), waiting("d")]
    assert found(there, *pods) == {"a": "h2", "b": "h0", "c": "h1"}


def test_what_was_written_and_is_not_seen_yet_counts() -> None:
    pods = [waiting("a"), waiting("b")]
    assert found(*pods, given={"a": ("h2",)}) == {"b": "h0"}


def test_indexes_beyond_the_assignment_get_what_is_left() -> None:
    assert found(waiting("late", 7)) == {"late": "h2"}


def test_a_workload_that_is_to_go_opens_no_gate() -> None:
    view = cluster_of(NODES, waiting("a")).view()
    gone = admitted()
    evicted = workload(
        "w", admission=gone.admission, conditions=(condition("Admitted"), condition("Evicted"))
    )
    assert due(evicted, cluster=view, given={}) == ()
    assert due(workload("w", admission=gone.admission), cluster=view, given={}) == ()
