"""What Jobs say of their groups, makers and queues, and nothing of those that went."""

import pytest

from extender.state.cluster import events as ev
from extender.state.cluster.jobs import JobTable
from extender.state.cluster.records import JobInfo
from extender.state.cluster.store import Cluster

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


A = JobInfo("a", GROUP, begun=2, done=2, created=1.0, completed=5.0)
B = JobInfo("b", GROUP, begun=2, created=1.0)


def test_one_that_completed_counts_while_one_goes_on_that_was_there_then() -> None:
    jobs = JobTable()
    for each in (A, B):
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
    jobs.put(A)
    assert jobs.work == {}
    jobs.put(JobInfo("c", GROUP, begun=2, created=6.0))
    assert jobs.work == {GROUP: (2, 0)}
    jobs.drop("a")
    assert jobs.by_uid.keys() == {"c"}
