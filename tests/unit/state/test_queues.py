"""What is known of queues, from facts that come late, twice or not at all."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from extender.state.queue import events as ev
from extender.state.queue.events import QueueChange
from extender.state.queue.records import JobObject, NamespaceInfo, OwnerRef, WorkloadInfo
from extender.state.queue.store import Queues
from tests.makers import key
from tests.queue_makers import (
    admission,
    cluster_queue,
    cohort,
    condition,
    flavor,
    local_queue,
    meta,
    pod_set,
    validate_queues,
    workload,
)

CPU = ("default", "cpu")
NOTHING = QueueChange()


@pytest.fixture
def queues() -> Iterator[Queues]:
    queues = Queues()
    yield queues
    validate_queues(queues)


def held(queues: Queues) -> int:
    return queues.view().usage("cq").get(CPU, 0)


def after(before: WorkloadInfo, **fields: object) -> WorkloadInfo:
    """Return a newer version of a workload."""
    return replace(before, meta=meta(before.meta.name, "ns"), **fields)  # type: ignore[arg-type]


def with_quota(queues: Queues, pods: int = 2) -> WorkloadInfo:
    made = workload("w", pod_set(1, pods))
    found = after(made, admission=admission(made))
    queues.apply(ev.Applied(found))
    return found


def test_an_older_version_changes_nothing(queues: Queues) -> None:
    old = workload("w")
    newer = after(old, priority=5)
    queues.apply(ev.Applied(newer))
    assert queues.apply(ev.Applied(old)) == NOTHING
    assert queues.view().workloads[key("w")].priority == 5


def test_what_is_gone_does_not_come_back(queues: Queues) -> None:
    made = workload("w")
    queues.apply(ev.Applied(made))
    queues.apply(ev.Deleted(made))
    assert queues.apply(ev.Applied(after(made))) == NOTHING
    assert key("w") not in queues.view().workloads


def test_a_new_object_of_an_old_name_is_another_one(queues: Queues) -> None:
    made = workload("w")
    queues.apply(ev.Applied(made))
    again = workload("w", meta=meta("w", "ns", uid="second"))
    queues.apply(ev.Applied(again))
    assert queues.apply(ev.Deleted(made)) == NOTHING
    assert queues.view().workloads[key("w")].meta.uid == "second"


def test_quota_is_taken_and_given_back(queues: Queues) -> None:
    found = with_quota(queues)
    assert held(queues) == 2000
    assert set(queues.view().reserving("cq")) == {key("w")}
    change = queues.apply(ev.Applied(after(found, admission=None)))
    assert change.released == {"cq"}
    assert held(queues) == 0
    assert not queues.view().reserving("cq")


@pytest.mark.parametrize("ends", ["finished", "deleted"])
def test_a_workload_that_ends_gives_quota_back(queues: Queues, ends: str) -> None:
    found = with_quota(queues)
    done = after(found, conditions=(condition("Finished"),))
    event = ev.Applied(done) if ends == "finished" else ev.Deleted(found)
    assert queues.apply(event).released == {"cq"}
    assert held(queues) == 0


def test_an_evicted_workload_keeps_quota_until_it_is_taken(queues: Queues) -> None:
    found = with_quota(queues)
    change = queues.apply(ev.Applied(after(found, conditions=(condition("Evicted"),))))
    assert change.released == frozenset()
    assert held(queues) == 2000


@pytest.mark.parametrize(("done", "want"), [(0, 5000), (2, 3000), (5, 0), (9, 0)])
def test_pods_that_are_done_give_their_part_back(queues: Queues, done: int, want: int) -> None:
    found = with_quota(queues, pods=5)
    change = queues.apply(ev.Applied(after(found, reclaimable={"main": done})))
    assert held(queues) == want
    assert change.released == ({"cq"} if done else set())


@pytest.mark.parametrize(("done", "want"), [(2, 3000), (3, 2000)])
def test_pods_that_were_done_before_are_not_given_back_twice(
    queues: Queues, done: int, want: int
) -> None:
    made = workload("w", pod_set(1, 5), reclaimable={"main": done})
    part = admission(workload("part", pod_set(1, 3)))
    queues.apply(ev.Applied(replace(made, admission=part)))
    assert held(queues) == want


def test_what_is_assumed_counts_at_once(queues: Queues) -> None:
    made = workload("w", 3)
    queues.apply(ev.Applied(made))
    queues.apply(ev.Assumed(key("w"), admission(made)))
    assert queues.view().is_assumed(key("w"))
    assert held(queues) == 3000
    queues.apply(ev.Applied(after(made, priority=1)))
    assert held(queues) == 3000
    fact = after(made, priority=1, admission=admission(made))
    assert queues.apply(ev.Applied(fact)).released == frozenset()
    assert not queues.view().is_assumed(key("w"))
    assert held(queues) == 3000


def test_what_was_not_taken_is_forgotten(queues: Queues) -> None:
    made = workload("w", 3)
    queues.apply(ev.Applied(made))
    queues.apply(ev.Assumed(key("w"), admission(made)))
    assert queues.apply(ev.Forgotten(key("w"))).released == {"cq"}
    assert held(queues) == 0
    assert queues.apply(ev.Forgotten(key("w"))) == NOTHING


def test_a_deleted_workload_is_not_assumed_any_more(queues: Queues) -> None:
    made = workload("w", 3)
    queues.apply(ev.Applied(made))
    queues.apply(ev.Assumed(key("w"), admission(made)))
    queues.apply(ev.Deleted(made))
    assert not queues.view().is_assumed(key("w"))
    assert held(queues) == 0


def test_the_version_of_usage_says_what_changed(queues: Queues) -> None:
    view = queues.view()
    found = with_quota(queues)
    taken = view.usage_version("cq")
    queues.apply(ev.Applied(workload("waits")))
    assert view.usage_version("cq") == taken
    queues.apply(ev.Applied(after(found, conditions=(condition("Evicted"),))))
    assert view.usage_version("cq") > taken
    assert view.usage_version("other") == 0


def test_a_list_replaces_all_of_its_type(queues: Queues) -> None:
    queues.apply(ev.Applied(workload("gone", 1)))
    stays = workload("stays", 1)
    queues.apply(ev.Applied(stays))
    queues.apply(ev.Applied(cluster_queue()))
    came = workload("came", 1)
    change = queues.apply(ev.Listed(WorkloadInfo, [stays, came]))
    assert change.workloads == {key("gone"), key("came")}
    assert set(queues.view().workloads) == {key("stays"), key("came")}
    assert set(queues.view().cluster_queues) == {"cq"}


def test_which_workloads_wait_where(queues: Queues) -> None:
    made = workload("w")
    queues.apply(ev.Applied(made))
    queues.apply(ev.Applied(local_queue()))
    view = queues.view()
    assert view.waiting_in(key("cq")) == {key("w")}
    assert view.cluster_queue_of(made) == "cq"
    assert view.local_queues_of("cq") == {key("cq")}
    queues.apply(ev.Applied(after(made, conditions=(condition("Finished"),))))
    assert not view.waiting_in(key("cq"))


def test_what_changes_the_structure(queues: Queues) -> None:
    view = queues.view()
    for record in (flavor(), cohort("all"), cluster_queue()):
        before = view.structure_version
        assert queues.apply(ev.Applied(record)).structure
        assert view.structure_version > before
    labelled = NamespaceInfo("ns", {"a": "b"})
    for event in (ev.Applied(labelled), ev.Deleted(labelled)):
        assert queues.apply(event) == ev.QueueChange(namespaces=frozenset({"ns"}))
    assert queues.apply(ev.Deleted(labelled)) == ev.QueueChange()
    same = view.cluster_queues["cq"]
    status = replace(same, meta=replace(same.meta, version=same.meta.version + 1), status=b"{}")
    change = queues.apply(ev.Applied(status))
    assert not change.structure
    assert view.cluster_queues["cq"].status == b"{}"


def test_a_flavor_concerns_the_queues_that_have_it(queues: Queues) -> None:
    queues.apply(ev.Applied(cluster_queue()))
    assert queues.apply(ev.Applied(flavor())).cluster_queues == {"cq"}
    assert queues.apply(ev.Applied(flavor("other"))).cluster_queues == frozenset()


def test_what_another_namespace_says_of_a_job_is_no_part_of_it(queues: Queues) -> None:
    job = JobObject("batch/job", meta("j", "ns", uid="job"), b"{}")
    owner = OwnerRef("batch/v1", "Job", "j", "job")
    forged = replace(workload("w", owners=(owner,)), meta=meta("w", "other"))
    child = JobObject("batch/job", meta("c", "other", uid="child"), b"{}", owner=owner)
    queues.apply(ev.JobApplied(job))

    assert queues.apply(ev.Applied(forged)).jobs == frozenset()
    queues.apply(ev.JobApplied(child))

    seen = queues.view()
    assert not seen.workloads_of("job", "ns")
    assert seen.workloads_of("job", "other") == {"other/w"}
    assert seen.job_of("job", "other") is None
    assert seen.job_of("job", "ns") == job
    own = workload("v", owners=(owner,))
    assert queues.apply(ev.Applied(own)).jobs == {job.key}


def test_a_job_and_its_workload(queues: Queues) -> None:
    job = JobObject("batch/job", meta("j", "ns", uid="job"), b"{}")
    owned = workload("w", owners=(OwnerRef("batch/v1", "Job", "j", "job"),))
    queues.apply(ev.JobApplied(job))
    assert queues.apply(ev.Applied(owned)).jobs == {job.key}
    assert queues.view().workloads_of("job", "ns") == {key("w")}
    assert queues.view().job_of("job", "ns") == job
    assert queues.apply(ev.JobsListed("batch/job", [])).workloads == {key("w")}
    assert queues.view().job_of("job", "ns") is None
    assert queues.apply(ev.JobApplied(job)) == NOTHING
