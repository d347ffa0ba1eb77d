"""Events that come late or twice while writes are on their way: none is lost, none comes back."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from extender.state.queue import events as ev
from extender.state.queue.events import QueueChange
from extender.state.queue.records import (
    JobObject,
    OwnerRef,
    PriorityClassInfo,
    WorkloadInfo,
    WorkloadPriorityClassInfo,
)
from extender.state.queue.store import Queues
from tests.makers import key
from tests.queue_makers import (
    admission,
    meta,
    validate_queues,
    workload,
)

NOTHING = QueueChange()


@pytest.fixture
def queues() -> Iterator[Queues]:
    queues = Queues()
    yield queues
    validate_queues(queues)


def job(name: str = "j", *, version: int, uid: str = "job") -> JobObject:
    return JobObject("batch/job", meta(name, "ns", uid=uid, version=version), b"{}")


def test_what_was_created_after_a_list_was_made_stays(queues: Queues) -> None:
    made = workload("w")
    queues.apply(ev.Applied(made))
    change = queues.apply(ev.Listed(WorkloadInfo, [], version=made.meta.version - 1))

    assert change == NOTHING
    assert key("w") in queues.view().workloads
    changed = replace(made, meta=meta("w", "ns"), priority=1)
    assert queues.apply(ev.Applied(changed)).workloads == {key("w")}


def test_what_a_list_should_have_is_gone_for_good(queues: Queues) -> None:
    made = workload("w")
    queues.apply(ev.Applied(made))
    queues.apply(ev.Listed(WorkloadInfo, [], version=made.meta.version))
    assert queues.apply(ev.Applied(replace(made, meta=meta("w", "ns")))) == NOTHING


def test_a_job_that_was_out_of_sight_comes_back_with_its_next_version(queues: Queues) -> None:
    queues.apply(ev.JobApplied(job(version=5)))
    queues.apply(ev.JobDeleted(job(version=7)))

    assert queues.apply(ev.JobApplied(job(version=6))) == NOTHING
    assert queues.apply(ev.JobApplied(job(version=7))).jobs == {("batch/job", "ns/j")}


def test_a_job_that_is_gone_for_good_does_not(queues: Queues) -> None:
    queues.apply(ev.JobApplied(job(version=5)))
    queues.apply(ev.JobDeleted(job(version=5), for_good=True))
    assert queues.apply(ev.JobApplied(job(version=9))) == NOTHING


def test_a_list_of_jobs_takes_away_only_what_it_should_have(queues: Queues) -> None:
    queues.apply(ev.JobApplied(job(version=5)))
    queues.apply(ev.JobApplied(job("new", version=8, uid="new")))
    queues.apply(ev.JobsListed("batch/job", [], version=6))

    assert [found.meta.name for found in queues.view().jobs.values()] == ["new"]
    assert queues.apply(ev.JobApplied(job(version=6))) == NOTHING
    assert queues.apply(ev.JobApplied(job(version=7))) != NOTHING


def test_only_what_was_assumed_then_is_forgotten(queues: Queues) -> None:
    made = workload("w", 3)
    queues.apply(ev.Applied(made))
    first, second = admission(made), admission(made)
    queues.apply(ev.Assumed(key("w"), first))
    queues.apply(ev.Forgotten(key("w"), first))
    queues.apply(ev.Assumed(key("w"), second))

    assert queues.apply(ev.Forgotten(key("w"), first)) == NOTHING
    assert queues.view().is_assumed(key("w"))


def test_what_was_assumed_of_a_workload_is_not_of_its_namesake(queues: Queues) -> None:
    made = workload("w", 3)
    queues.apply(ev.Applied(made))
    queues.apply(ev.Assumed(key("w"), admission(made)))
    change = queues.apply(ev.Applied(workload("w", 3, meta=meta("w", "ns", uid="second"))))

    assert change.released == {"cq"}
    assert not queues.view().is_assumed(key("w"))
    assert queues.apply(ev.Applied(replace(made, meta=meta("w", "ns")))) == NOTHING


UNIT = ("batch/job", "ns/j")


def owned(by: str = "job") -> WorkloadInfo:
    return workload("w", owners=(OwnerRef("batch/v1", "Job", "j", by),))


@pytest.mark.parametrize("kind", [PriorityClassInfo, WorkloadPriorityClassInfo])
def test_a_priority_class_concerns_the_jobs_that_may_wait_for_it(
    queues: Queues, kind: type[PriorityClassInfo] | type[WorkloadPriorityClassInfo]
) -> None:
    queues.apply(ev.JobApplied(job(version=1)))
    assert queues.apply(ev.Applied(kind("high", 10))).jobs == {UNIT}
    assert queues.apply(ev.Applied(kind("high", 20))).jobs == frozenset()
    queues.apply(ev.Applied(owned()))
    assert queues.apply(ev.Applied(kind("low", 1))).jobs == frozenset()


def test_a_priority_class_concerns_the_jobs_that_name_it(queues: Queues) -> None:
    labels = {"kueue.x-k8s.io/priority-class": "high"}
    found = job(version=1)
    queues.apply(ev.JobApplied(replace(found, meta=replace(found.meta, labels=labels))))
    queues.apply(ev.Applied(owned()))
    assert queues.apply(ev.Applied(WorkloadPriorityClassInfo("high", 10))).jobs == {UNIT}


def test_a_class_is_in_a_change_when_its_value_is_new(queues: Queues) -> None:
    for value in (10, 20):
        found = ev.Applied(WorkloadPriorityClassInfo("high", value))
        assert queues.apply(found).priority_classes == {"high"}
        assert queues.apply(found) == NOTHING
    gone = queues.apply(ev.Deleted(WorkloadPriorityClassInfo("high", 20)))
    assert gone.priority_classes == frozenset()


def test_a_workload_of_less_priority_than_before_may_be_pushed_out_now(queues: Queues) -> None:
    made = workload("w", 1, priority=5)
    holds = replace(made, admission=admission(made))
    queues.apply(ev.Applied(holds))
    higher = replace(holds, meta=meta("w", "ns", uid=holds.meta.uid), priority=6)
    assert queues.apply(ev.Applied(higher)).released == frozenset()
    lower = replace(holds, meta=meta("w", "ns", uid=holds.meta.uid), priority=4)
    assert queues.apply(ev.Applied(lower)).released == {"cq"}


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_a_workload_concerns_the_jobs_that_bring_it_along(queues: Queues, where: str) -> None:
    said: dict[str, Any] = {where: {"kueue.x-k8s.io/prebuilt-workload-name": "w"}}
    found = job(version=1)
    queues.apply(ev.JobApplied(replace(found, meta=replace(found.meta, **said))))
    assert queues.apply(ev.Applied(workload("other"))).jobs == frozenset()
    assert queues.apply(ev.Applied(workload("w"))).jobs == {UNIT}
    queues.apply(ev.JobDeleted(found))
    assert queues.apply(ev.Applied(workload("w"))).jobs == frozenset()


def test_a_parent_concerns_what_is_left_of_a_group_that_it_made(queues: Queues) -> None:
    parent = OwnerRef("batch/v1", "Job", "parent", "parent")
    for version, name in ((1, "a"), (2, "b")):
        made = job(name, version=version, uid=name)
        queues.apply(ev.JobApplied(replace(made, owner=parent, group="g")))
    queues.apply(ev.JobDeleted(job("a", version=3, uid="a")))
    assert queues.apply(ev.Applied(owned("parent"))).jobs == {("batch/job", "ns/group/g")}


@pytest.mark.parametrize("version", [0, 10**9], ids=["set back", "and gone on since"])
def test_a_list_of_a_store_that_was_set_back_replaces_what_was_later(
    version: int, queues: Queues
) -> None:
    """What a list shows in an older version than one before it cannot be what it was."""
    old, gone = workload("w"), workload("gone")
    newer = replace(old, meta=meta("w", "ns"), priority=5)
    for each in (old, newer, gone):
        queues.apply(ev.Applied(each))
    queues.apply(ev.Listed(WorkloadInfo, [old], version))
    assert {key: each.priority for key, each in queues.view().workloads.items()} == {
        old.key: old.priority
    }


def test_what_was_deleted_is_there_again_where_a_store_was_set_back(queues: Queues) -> None:
    old = workload("w")
    queues.apply(ev.Applied(old))
    queues.apply(ev.Deleted(old))
    queues.apply(ev.Listed(WorkloadInfo, [old], 0))
    assert old.key in queues.view().workloads
