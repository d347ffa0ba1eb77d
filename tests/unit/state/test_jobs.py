"""Tests of what Jobs say of their groups, and of how many more pods may have nodes."""

from dataclasses import replace
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.api.wellknown import QUEUE_LABEL, QUEUE_POD_GROUP_LABEL
from extender.gang.fit import candidates
from extender.state.cluster import events as ev
from extender.state.cluster.jobs import AdmissionBarrier, JobTable
from extender.state.cluster.records import BATCH_JOB, AdmittedPods, JobInfo, PodInfo
from extender.state.cluster.store import Cluster
from tests.makers import NAMESPACE, deleted, key, node, nodes, observe, pod, pod_group, pods

GROUP, NAME = "ns/gang", "ns/job"
FIRST = JobInfo("first", GROUP, begun=4, done=1, held_by_queue=NAME, maker="set")
SECOND = JobInfo("second", GROUP, begun=3, done=2, held_by_queue=NAME, maker="set")


@pytest.fixture
def jobs() -> JobTable:
    """Two Jobs of one group; the second has the name that the first had."""
    jobs = JobTable()
    for each in (FIRST, SECOND):
        jobs.put(each)
    return jobs


def test_they_are_added_up(jobs: JobTable) -> None:
    assert jobs.work == {GROUP: (7, 3)}
    assert jobs.made == {"set": {"first", "second"}}


def test_another_version_takes_the_place_of_the_one_before(jobs: JobTable) -> None:
    jobs.put(JobInfo("second", GROUP, begun=3, done=3))
    assert jobs.work == {GROUP: (7, 4)}
    assert jobs.made == {"set": {"first"}}


def test_one_that_goes_leaves_the_others(jobs: JobTable) -> None:
    jobs.drop("first")
    jobs.drop("first")
    alone = JobTable()
    alone.put(SECOND)
    assert jobs == alone
    jobs.drop("second")
    assert jobs == JobTable()


def test_a_job_without_pods_changes_nothing_for_its_group(cluster: Cluster) -> None:
    assert not cluster.apply(ev.ObjectApplied(JobInfo("empty", GROUP))).groups
    assert cluster.apply(ev.ObjectApplied(FIRST)).groups == {GROUP}
    assert cluster.apply(ev.ObjectApplied(JobInfo("first"))).groups == {GROUP}


DONE = JobInfo("a", GROUP, begun=2, done=2, created=1.0, completed=5.0)
GOES_ON = JobInfo("b", GROUP, begun=2, created=1.0)


def test_one_that_completed_counts_while_one_goes_on_that_was_there_then() -> None:
    jobs = JobTable()
    for each in (DONE, GOES_ON):
        jobs.put(each)
    assert jobs.work == {GROUP: (4, 2)}
    jobs.drop("a")
    assert jobs.work == {GROUP: (4, 2)}, "its time to live has passed"
    later = JobInfo("c", GROUP, begun=2, created=4.0)
    jobs.put(later)
    assert jobs.work == {GROUP: (6, 2)}
    jobs.drop("c")
    jobs.put(JobInfo("b", GROUP, begun=2, done=2, created=1.0, completed=9.0))
    assert jobs.work == {}
    assert jobs.by_uid.keys() == {"b"}, "nothing of the run is left but what the API has"


def test_one_that_completed_before_all_others_came_is_of_another_run() -> None:
    jobs = JobTable()
    jobs.put(DONE)
    assert jobs.work == {}
    jobs.put(JobInfo("c", GROUP, begun=2, created=6.0))
    assert jobs.work == {GROUP: (2, 0)}
    jobs.drop("a")
    assert jobs.by_uid.keys() == {"c"}


# --- how many more pods a job may have nodes for, by what the reconciler wrote alone


JOB = key("job")
QUEUED = JobInfo("j", held_by_queue=JOB)
TWO = AdmittedPods(key("w"), ("j",), 2)


def of_job(name: str, job: str = "j", **more: Any) -> PodInfo:
    return pod(name, **{"controller": job, "owners": (JOB,), **more})


def waits(cluster: Cluster, *waiting: PodInfo) -> list[AdmissionBarrier | None]:
    return [cluster.view().awaits_admission(each) for each in waiting]


A, B, C = (of_job(name) for name in "abc")
MORE = AdmissionBarrier(JOB, 2)


def test_a_job_without_a_workload_gets_none(cluster: Cluster) -> None:
    observe(cluster, QUEUED, A)
    assert waits(cluster, A) == [AdmissionBarrier(JOB)]


def test_a_job_gets_as_many_as_are_admitted(cluster: Cluster) -> None:
    observe(cluster, nodes(4), QUEUED, TWO, A, of_job("b", on="n0"), C)
    assert waits(cluster, A, C) == [None, None]
    observe(cluster, replace(A, node="n0"))
    assert waits(cluster, C) == [MORE]


@pytest.mark.parametrize("more", [{"terminating": True}, {"pod_set": "main"}, {"workload": "w"}])
def test_whatever_has_a_node_counts(cluster: Cluster, more: dict[str, Any]) -> None:
    there = [of_job(name, on="n0", **more) for name in "ab"]
    observe(cluster, nodes(4), QUEUED, TWO, there, C)
    assert waits(cluster, C) == [MORE]
    observe(cluster, deleted("a"))
    assert waits(cluster, C) == [None]


def test_a_pod_that_nobody_can_end_does_not_count(cluster: Cluster) -> None:
    lost = [of_job("a", on="n0", terminating=True), of_job("b", on="n1")]
    observe(cluster, nodes(4, 4), QUEUED, TWO, lost, C)
    assert waits(cluster, C) == [MORE]
    observe(cluster, ev.PodRefused(C, Reason.NOT_ADMITTED))
    assert cluster.apply(ev.ObjectApplied(node("n0", ready=False))).room
    assert waits(cluster, C) == [None]


def test_what_is_reserved_counts_and_a_pod_not_twice(cluster: Cluster) -> None:
    observe(cluster, nodes(4), QUEUED, TWO, A, B, C)
    observe(cluster, ev.Planned({"a": "n0"}), ev.PodWaiting(B, "n0"))
    assert waits(cluster, A, B, C) == [None, None, MORE]
    observe(cluster, replace(TWO, pods=1))
    assert waits(cluster, A) == [AdmissionBarrier(JOB, 1)]


def test_a_job_that_lost_its_label_keeps_its_number(cluster: Cluster) -> None:
    observe(cluster, nodes(4), TWO, JobInfo("j"))
    observe(cluster, [of_job(name, on="n0") for name in "ab"], C)
    assert waits(cluster, C) == [MORE]


def test_all_pods_below_the_owner_of_a_workload_count(cluster: Cluster) -> None:
    children = [JobInfo(name, maker="j") for name in ("x", "y")]
    observe(cluster, nodes(4), TWO, children, of_job("a", "x", on="n0"), of_job("b", "y", on="n0"))
    observe(cluster, C, of_job("d", "x"))
    assert waits(cluster, C, cluster.view().pods["d"]) == [MORE, MORE]


def test_owners_in_a_circle_are_no_trouble(cluster: Cluster) -> None:
    observe(cluster, JobInfo("x", maker="y"))
    observe(cluster, JobInfo("y", maker="x", held_by_queue=JOB))
    observe(cluster, AdmittedPods(key("w"), ("x",), 1), of_job("a", "y"))
    assert waits(cluster, cluster.view().pods["a"]) == [None]


def test_a_child_that_names_another_owner_has_what_that_one_has(cluster: Cluster) -> None:
    forged = JobInfo("x", held_by_queue=key("x"), maker="j")
    observe(cluster, nodes(4), TWO, QUEUED, forged, of_job("a", on="n0"), of_job("b", "x", on="n0"))
    own = of_job("c", "x")
    observe(cluster, own)
    assert waits(cluster, own) == [MORE]


def test_pods_of_a_group_count_by_its_name_and_by_its_owners(cluster: Cluster) -> None:
    said = {QUEUE_POD_GROUP_LABEL: "w"}
    own = AdmittedPods(key("w"), ("a", "b"), 2, is_of_pods=True)
    late = pod("late", labels=said)
    observe(cluster, nodes(4), own, pod("a", labels=said, on="n0"), pod("b", on="n0"), late)
    assert waits(cluster, late) == [AdmissionBarrier(late.key, 2)]
    observe(cluster, deleted("b"))
    assert waits(cluster, late) == [None]


def test_a_plain_pod_with_a_queue_waits_for_it(cluster: Cluster) -> None:
    alone = pod("alone", labels={QUEUE_LABEL: "q"})
    observe(cluster, alone)
    assert waits(cluster, alone) == [None]  # nothing admits jobs in this cluster
    observe(cluster, ev.ObjectsListed(AdmittedPods, ()), ev.AdmissionKnown(in_use=True))
    assert waits(cluster, alone) == [AdmissionBarrier(alone.key)]
    observe(cluster, AdmittedPods(key("w"), ("alone",), 1, is_of_pods=True))
    assert waits(cluster, alone) == [None]


def test_pods_of_a_job_that_is_not_known_yet_wait(cluster: Cluster) -> None:
    one = of_job("a", controller_kind="batch/Job")
    unknown = [AdmissionBarrier(JOB, is_known=False)]
    observe(cluster, one, ev.ObjectsListed(JobInfo, (), BATCH_JOB))
    assert waits(cluster, one) == [None]
    observe(cluster, ev.AdmissionKnown(None))
    assert waits(cluster, one) == unknown
    observe(cluster, ev.ObjectsListed(AdmittedPods, ()), ev.AdmissionKnown(in_use=True))
    assert waits(cluster, one) == unknown
    observe(cluster, ev.PodRefused(one, Reason.NOT_ADMITTED))
    assert cluster.apply(ev.ObjectApplied(JobInfo("j"))).room
    assert waits(cluster, one) == [None]


def test_jobs_without_a_queue_wait_where_all_are_managed(cluster: Cluster) -> None:
    observe(cluster, A, JobInfo("j"))
    observe(cluster, ev.JobsManaged(frozenset(("batch/Job",))))
    assert waits(cluster, A) == [AdmissionBarrier(JOB)]
    observe(cluster, ev.JobsManaged(frozenset(("batch/Job",)), frozenset((NAMESPACE,))))
    assert waits(cluster, A) == [None]
    observe(cluster, ev.JobsManaged(frozenset(("ray.io/RayJob",))))
    assert waits(cluster, A) == [None]


def test_a_plan_is_made_for_as_many_as_are_admitted(cluster: Cluster) -> None:
    own = [replace(each, controller="j", owners=(JOB,)) for each in pods(5)]
    observe(cluster, nodes(9), pod_group("gang", 2), QUEUED, TWO, own)
    view = cluster.view()
    assert [each.name for each in candidates(own[3], key("gang"), view=view)] == ["gang-0"]
    assert len(candidates(None, key("gang"), view=view)) == 2


def test_a_place_that_is_free_again_is_room(cluster: Cluster) -> None:
    there = [of_job(name, on="n0") for name in "ab"]
    observe(cluster, nodes(4), QUEUED, TWO, there, C)
    assert not cluster.apply(deleted("b")).room
    observe(cluster, of_job("b", on="n0"), ev.PodRefused(C, Reason.NOT_ADMITTED))
    assert cluster.apply(deleted("b")).room
