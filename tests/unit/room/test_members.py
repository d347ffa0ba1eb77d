"""Whose pods those are that have a node: room that is taken must not be counted once more."""

import json
from typing import Any

import pytest

from extender.api.wellknown import POD_GROUP_LABEL
from extender.queueing.cycle import Admit
from extender.queueing.rules import AdmissionOptions
from extender.state.cluster import events as cluster_events
from extender.state.cluster.records import JobInfo
from extender.state.queue.records import OwnerRef, PodSetInfo, WorkloadInfo
from tests.makers import cluster_of, node, pod, pods, shape
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    condition,
    local_queue,
    pod_set,
    workload,
)

ROOM = AdmissionOptions(require_room=True)
OF_W = {"workload": "ns/a"}


def owned(kind: str, uid: str, *, controls: bool = True) -> OwnerRef:
    return OwnerRef("v1", kind, uid, uid, controls)


def child(uid: str, of: str) -> cluster_events.ObjectApplied:
    """Return the news of a Job that another job has made."""
    return cluster_events.ObjectApplied(JobInfo(uid, maker=of))


def holding(name: str, sets: Any, *owners: OwnerRef, at: float = 100, **more: Any) -> WorkloadInfo:
    asks = workload(name, sets)
    conditions = (condition("QuotaReserved", at=at), condition("Admitted", at=at))
    fields = {"admission": admission(asks), "conditions": conditions, "owners": owners, **more}
    return workload(name, sets, **fields)


def fits(count: int, facts: list[Any], *records: Any, cpu: int = 10) -> bool:
    """Return whether so many pods of one CPU are admitted beside all this."""
    queues = Admissions(
        cluster_queue("cq", 100),
        local_queue(),
        *records,
        options=ROOM,
        cluster=cluster_of(node("n", cpu), *facts),
    )
    queues.put(workload("w", pod_set(1, count)))
    return any(isinstance(each, Admit) for each in queues.run())


MPI = (pod_set(1, 1, name="launcher"), pod_set(1, 2, name="worker"))
JOBSET = (pod_set(1, 1, name="driver"), pod_set(1, 4, name="workers"))
RAY = (pod_set(1, 1, name="head"), pod_set(2, 2, name="w"), pod_set("500m", name="submitter"))
PAIR = pod_set(1, 2)

PLACED: dict[str, tuple[Any, list[OwnerRef], list[Any], list[Any], int]] = {
    "they say so, and nothing else does": (
        JOBSET,
        [owned("JobSet", "j")],
        [pod("d", on="n", controller="c1", **OF_W),
         [pod(f"w{i}", on="n", controller="c2", **OF_W) for i in range(4)]],
        [],
        5,
    ),
    "the launcher of an MPIJob has a Job of its own": (
        MPI,
        [owned("MPIJob", "m")],
        [pod("l", group="a", on="n", controller="c"), pods(2, group="a", on="n", controller="m")],
        [],
        7,
    ),
    "pods of the Jobs of a JobSet without a group": (
        JOBSET,
        [owned("JobSet", "j")],
        [pod("d", on="n", controller="c1"),
         [pod(f"w{i}", on="n", controller="c2") for i in range(4)],
         child("c1", "j"), child("c2", "j")],
        [],
        5,
    ),
    "a submitter that nothing could be written to": (
        RAY,
        [owned("RayJob", "r")],
        [pod("h", on="n", controller="rc", **OF_W), pod("s", "500m", on="n", controller="c"),
         [pod(f"w{i}", 2, on="n", controller="rc", **OF_W) for i in range(2)], child("c", "r")],
        [],
        4,
    ),
    "a pod that replaces one of a group of plain pods": (
        PAIR,
        [owned("Pod", "p0", controls=False), owned("Pod", "p1", controls=False)],
        [pod("p0", group="a", on="n"), pod("p2", group="a", on="n")],
        [],
        8,
    ),
    "a pod that is a job alone": (pod_set(1), [owned("Pod", "p")], [pod("p", on="n")], [], 9),
    "the large one of two sets, which says nothing": (
        (pod_set(1, 2, name="small"), pod_set(4, 1, name="large")),
        [owned("Job", "j")],
        [pod("l", 4, on="n", controller="j")],
        [],
        4,
    ),
    "pods of two batches, one from before": (
        PAIR,
        [owned("Job", "j")],
        [pod("old", on="n", controller="j"), pod("new", on="n", controller="j", **OF_W)],
        [],
        8,
    ),
    "pods that something has made larger": (
        PAIR,
        [owned("Job", "j")],
        [pod(f"p{i}", 2, on="n", controller="j", pod_set="main", **OF_W) for i in range(2)],
        [],
        6,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("sets", "owners", "facts", "records", "free"), PLACED.values(), ids=PLACED
)
def test_pods_that_have_a_node_are_counted_once(
    sets: Any, owners: list[OwnerRef], facts: list[Any], records: list[Any], free: int
) -> None:
    a = holding("a", sets, *owners)
    assert fits(free, facts, a, *records)
    assert not fits(free + 1, facts, a, *records)


OTHERS: dict[str, tuple[list[Any], list[Any]]] = {
    "say that they are another's": (
        [pod(f"p{i}", on="n", group="a", controller="j", workload="ns/b") for i in range(2)],
        [],
    ),
    "have a controller that is another's job": (
        [pod(f"p{i}", on="n", group="a", controller="other") for i in range(2)],
        [holding("b", PAIR, owned("Job", "other"))],
    ),
    "are made by a job of another's": (
        [[pod(f"p{i}", on="n", group="a", controller="c") for i in range(2)], child("c", "other")],
        [holding("b", PAIR, owned("JobSet", "other"))],
    ),
    "have a node and no namesake": (
        [pod(f"p{i}", on="n", controller="none") for i in range(2)],
        [],
    ),
}


@pytest.mark.parametrize(("facts", "records"), OTHERS.values(), ids=OTHERS)
def test_pods_of_others_are_not_its_own(facts: list[Any], records: list[Any]) -> None:
    a = holding("a", PAIR, owned("Job", "j"))
    assert fits(6, facts, a, *records)
    assert not fits(7, facts, a, *records)


def test_two_jobs_that_bring_one_group_have_pods_of_their_own() -> None:
    template = json.dumps({"metadata": {"labels": {POD_GROUP_LABEL: "own"}}}).encode()
    sets = PodSetInfo("main", 2, shape(1), template=template)
    first, second = (holding(name, sets, owned("Job", f"job-{name}")) for name in ("a", "b"))
    facts = [pod(f"a{i}", group="own", on="n", controller="job-a") for i in range(2)]
    assert fits(6, facts, first, second)
    assert not fits(7, facts, first, second)


def test_a_pod_set_that_is_named_has_its_nodes() -> None:
    """The large one has no node yet, though as many pods have one as were asked for."""
    sets = (pod_set(1, 2, name="small"), pod_set(4, 1, name="large"))
    done = {"small": 1}
    facts = [pod(f"s{i}", on="n", pod_set="small", **OF_W) for i in range(2)]
    a = holding("a", sets, owned("Job", "j"), reclaimable=done)
    assert fits(4, facts, a)
    assert not fits(5, facts, a)


def test_a_workload_with_quota_in_a_deleted_queue_has_its_room() -> None:
    old = cluster_queue("old", 10)
    asks = workload("a", pod_set(1, 4))
    a = workload(
        "a",
        pod_set(1, 4),
        admission=admission(asks, "old"),
        conditions=(condition("QuotaReserved"),),
    )
    queues = Admissions(
        cluster_queue("cq", 100), local_queue(), old, a,
        options=ROOM, cluster=cluster_of(node("n", 4)),
    )  # fmt: skip
    queues.drop(old)
    queues.put(workload("w", pod_set(1, 1)))
    assert not any(isinstance(each, Admit) for each in queues.run())
