"""Tests of the state of queues, with facts that come late, twice, by slices or not at all."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from extender.api.values import LONG_TEXT
from extender.state.queue import events as ev
from extender.state.queue.events import QueueChange
from extender.state.queue.records import (
    JobObject,
    NamespaceInfo,
    OwnerRef,
    PriorityClassInfo,
    WorkloadInfo,
    WorkloadPriorityClassInfo,
)
from extender.state.queue.store import Queues
from extender.steps import PIECE
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
KIND = "batch/job"
UNIT = (KIND, "ns/j")
MANY = 4 * PIECE


@pytest.fixture
def queues() -> Iterator[Queues]:
    queues = Queues()
    yield queues
    validate_queues(queues)


def put(queues: Queues, *facts: Any) -> QueueChange:
    """Apply events, and records and jobs as they are now; return what the last one touched."""
    change = NOTHING
    for fact in facts:
        is_record = isinstance(fact, ev.Record)
        event = ev.JobApplied(fact) if isinstance(fact, JobObject) else fact
        change = queues.apply(ev.Applied(fact) if is_record else event)
    return change


def held(queues: Queues) -> int:
    return queues.view().usage("cq").get(CPU, 0)


def after(before: WorkloadInfo, **fields: object) -> WorkloadInfo:
    """Return a newer version of a workload."""
    return replace(before, meta=meta(before.meta.name, "ns"), **fields)  # type: ignore[arg-type]


def with_quota(queues: Queues, pods: int = 2) -> WorkloadInfo:
    made = workload("w", pod_set(1, pods))
    found = after(made, admission=admission(made))
    put(queues, found)
    return found


def test_an_older_version_changes_nothing(queues: Queues) -> None:
    old = workload("w")
    newer = after(old, priority=5)
    put(queues, newer)
    assert put(queues, old) == NOTHING
    assert queues.view().workloads[key("w")].priority == 5


def test_what_is_gone_does_not_come_back(queues: Queues) -> None:
    made = workload("w")
    put(queues, made, ev.Deleted(made))
    assert put(queues, after(made)) == NOTHING
    assert key("w") not in queues.view().workloads


def test_a_new_object_of_an_old_name_is_another_one(queues: Queues) -> None:
    made = workload("w")
    put(queues, made)
    again = workload("w", meta=meta("w", "ns", uid="second"))
    put(queues, again)
    assert put(queues, ev.Deleted(made)) == NOTHING
    assert queues.view().workloads[key("w")].meta.uid == "second"


def test_quota_is_taken_and_given_back(queues: Queues) -> None:
    found = with_quota(queues)
    assert held(queues) == 2000
    assert set(queues.view().reserving("cq")) == {key("w")}
    change = put(queues, after(found, admission=None))
    assert change.released == {"cq"}
    assert held(queues) == 0
    assert not queues.view().reserving("cq")


@pytest.mark.parametrize("ends", ["finished", "deleted"])
def test_a_workload_that_ends_gives_quota_back(queues: Queues, ends: str) -> None:
    found = with_quota(queues)
    done = after(found, conditions=(condition("Finished"),))
    event = ev.Applied(done) if ends == "finished" else ev.Deleted(found)
    assert put(queues, event).released == {"cq"}
    assert held(queues) == 0


def test_an_evicted_workload_keeps_quota_until_it_is_taken(queues: Queues) -> None:
    found = with_quota(queues)
    change = put(queues, after(found, conditions=(condition("Evicted"),)))
    assert change.released == frozenset()
    assert held(queues) == 2000


@pytest.mark.parametrize(("done", "want"), [(0, 5000), (2, 3000), (5, 0), (9, 0)])
def test_pods_that_are_done_give_their_part_back(queues: Queues, done: int, want: int) -> None:
    found = with_quota(queues, pods=5)
    change = put(queues, after(found, reclaimable={"main": done}))
    assert held(queues) == want
    assert change.released == ({"cq"} if done else set())


@pytest.mark.parametrize(("done", "want"), [(2, 3000), (3, 2000)])
def test_pods_that_were_done_before_are_not_given_back_twice(
    queues: Queues, done: int, want: int
) -> None:
    made = workload("w", pod_set(1, 5), reclaimable={"main": done})
    part = admission(workload("part", pod_set(1, 3)))
    put(queues, replace(made, admission=part))
    assert held(queues) == want


def test_what_is_assumed_counts_at_once(queues: Queues) -> None:
    made = workload("w", 3)
    put(queues, made, ev.Assumed(key("w"), admission(made)))
    assert queues.view().is_assumed(key("w"))
    assert held(queues) == 3000
    put(queues, after(made, priority=1))
    assert held(queues) == 3000
    fact = after(made, priority=1, admission=admission(made))
    assert put(queues, fact).released == frozenset()
    assert not queues.view().is_assumed(key("w"))
    assert held(queues) == 3000


def test_what_was_not_taken_is_forgotten(queues: Queues) -> None:
    made = workload("w", 3)
    put(queues, made, ev.Assumed(key("w"), admission(made)))
    assert put(queues, ev.Forgotten(key("w"))).released == {"cq"}
    assert held(queues) == 0
    assert put(queues, ev.Forgotten(key("w"))) == NOTHING


def test_a_deleted_workload_is_not_assumed_any_more(queues: Queues) -> None:
    made = workload("w", 3)
    put(queues, made, ev.Assumed(key("w"), admission(made)), ev.Deleted(made))
    assert not queues.view().is_assumed(key("w"))
    assert held(queues) == 0


def test_the_version_of_usage_says_what_changed(queues: Queues) -> None:
    view = queues.view()
    found = with_quota(queues)
    taken = view.usage_version("cq")
    put(queues, workload("waits"))
    assert view.usage_version("cq") == taken
    put(queues, after(found, conditions=(condition("Evicted"),)))
    assert view.usage_version("cq") > taken
    assert view.usage_version("other") == 0


def test_a_list_replaces_all_of_its_type(queues: Queues) -> None:
    put(queues, workload("gone", 1))
    stays = workload("stays", 1)
    put(queues, stays, cluster_queue())
    came = workload("came", 1)
    change = put(queues, ev.Listed(WorkloadInfo, [stays, came]))
    assert change.workloads == {key("gone"), key("came")}
    assert set(queues.view().workloads) == {key("stays"), key("came")}
    assert set(queues.view().cluster_queues) == {"cq"}


def test_which_workloads_wait_where(queues: Queues) -> None:
    made = workload("w")
    put(queues, made, local_queue())
    view = queues.view()
    assert view.waiting_in(key("cq")) == {key("w")}
    assert view.cluster_queue_of(made) == "cq"
    assert view.local_queues_of("cq") == {key("cq")}
    put(queues, after(made, conditions=(condition("Finished"),)))
    assert not view.waiting_in(key("cq"))


def test_what_changes_the_structure(queues: Queues) -> None:
    view = queues.view()
    for record in (flavor(), cohort("all"), cluster_queue()):
        before = view.structure_version
        assert put(queues, record).structure
        assert view.structure_version > before
    labelled = NamespaceInfo("ns", {"a": "b"})
    for event in (ev.Applied(labelled), ev.Deleted(labelled)):
        assert put(queues, event) == ev.QueueChange(namespaces=frozenset({"ns"}))
    assert put(queues, ev.Deleted(labelled)) == ev.QueueChange()
    same = view.cluster_queues["cq"]
    status = replace(same, meta=replace(same.meta, version=same.meta.version + 1), status=b"{}")
    change = put(queues, status)
    assert not change.structure
    assert view.cluster_queues["cq"].status == b"{}"


def test_a_flavor_concerns_the_queues_that_have_it(queues: Queues) -> None:
    put(queues, cluster_queue())
    assert put(queues, flavor()).cluster_queues == {"cq"}
    assert put(queues, flavor("other")).cluster_queues == frozenset()


def test_what_another_namespace_says_of_a_job_is_no_part_of_it(queues: Queues) -> None:
    job = JobObject(KIND, meta("j", "ns", uid="job"), b"{}")
    owner = OwnerRef("batch/v1", "Job", "j", "job")
    forged = replace(workload("w", owners=(owner,)), meta=meta("w", "other"))
    child = JobObject(KIND, meta("c", "other", uid="child"), b"{}", owner=owner)
    put(queues, job)

    assert put(queues, forged).jobs == frozenset()
    put(queues, child)

    seen = queues.view()
    assert not seen.workloads_of("job", "ns")
    assert seen.workloads_of("job", "other") == {"other/w"}
    assert seen.job_of("job", "other") is None
    assert seen.job_of("job", "ns") == job
    own = workload("v", owners=(owner,))
    assert put(queues, own).jobs == {job.key}


def test_a_job_and_its_workload(queues: Queues) -> None:
    job = JobObject(KIND, meta("j", "ns", uid="job"), b"{}")
    owned = workload("w", owners=(OwnerRef("batch/v1", "Job", "j", "job"),))
    put(queues, job)
    assert put(queues, owned).jobs == {job.key}
    assert queues.view().workloads_of("job", "ns") == {key("w")}
    assert queues.view().job_of("job", "ns") == job
    assert put(queues, ev.JobsListed(KIND, [])).workloads == {key("w")}
    assert queues.view().job_of("job", "ns") is None
    assert put(queues, job) == NOTHING


# --- events that come late or twice while writes are on their way


def job(name: str = "j", *, version: int, uid: str = "job") -> JobObject:
    return JobObject(KIND, meta(name, "ns", uid=uid, version=version), b"{}")


def test_what_was_created_after_a_list_was_made_stays(queues: Queues) -> None:
    made = workload("w")
    put(queues, made)
    change = put(queues, ev.Listed(WorkloadInfo, [], version=made.meta.version - 1))

    assert change == NOTHING
    assert key("w") in queues.view().workloads
    changed = replace(made, meta=meta("w", "ns"), priority=1)
    assert put(queues, changed).workloads == {key("w")}


def test_what_a_list_should_have_is_gone_for_good(queues: Queues) -> None:
    made = workload("w")
    put(queues, made, ev.Listed(WorkloadInfo, [], version=made.meta.version))
    assert put(queues, replace(made, meta=meta("w", "ns"))) == NOTHING


def test_a_job_that_was_out_of_sight_comes_back_with_its_next_version(queues: Queues) -> None:
    put(queues, job(version=5), ev.JobDeleted(job(version=7)))

    assert put(queues, job(version=6)) == NOTHING
    assert put(queues, job(version=7)).jobs == {(KIND, "ns/j")}


def test_a_job_that_is_gone_for_good_does_not(queues: Queues) -> None:
    put(queues, job(version=5), ev.JobDeleted(job(version=5), for_good=True))
    assert put(queues, job(version=9)) == NOTHING


def test_a_list_of_jobs_takes_away_only_what_it_should_have(queues: Queues) -> None:
    put(queues, job(version=5), job("new", version=8, uid="new"))
    put(queues, ev.JobsListed(KIND, [], version=6))

    assert [found.meta.name for found in queues.view().jobs.values()] == ["new"]
    assert put(queues, job(version=6)) == NOTHING
    assert put(queues, job(version=7)) != NOTHING


def test_only_what_was_assumed_then_is_forgotten(queues: Queues) -> None:
    made = workload("w", 3)
    put(queues, made)
    first, second = admission(made), admission(made)
    put(queues, ev.Assumed(key("w"), first), ev.Forgotten(key("w"), first))
    put(queues, ev.Assumed(key("w"), second))

    assert put(queues, ev.Forgotten(key("w"), first)) == NOTHING
    assert queues.view().is_assumed(key("w"))


def test_what_was_assumed_of_a_workload_is_not_of_its_namesake(queues: Queues) -> None:
    made = workload("w", 3)
    put(queues, made, ev.Assumed(key("w"), admission(made)))
    change = put(queues, workload("w", 3, meta=meta("w", "ns", uid="second")))

    assert change.released == {"cq"}
    assert not queues.view().is_assumed(key("w"))
    assert put(queues, replace(made, meta=meta("w", "ns"))) == NOTHING


def owned(by: str = "job") -> WorkloadInfo:
    return workload("w", owners=(OwnerRef("batch/v1", "Job", "j", by),))


@pytest.mark.parametrize("kind", [PriorityClassInfo, WorkloadPriorityClassInfo])
def test_a_priority_class_concerns_the_jobs_that_may_wait_for_it(
    queues: Queues, kind: type[PriorityClassInfo] | type[WorkloadPriorityClassInfo]
) -> None:
    put(queues, job(version=1))
    assert put(queues, kind("high", 10)).jobs == {UNIT}
    assert put(queues, kind("high", 20)).jobs == frozenset()
    put(queues, owned())
    assert put(queues, kind("low", 1)).jobs == frozenset()


def test_a_priority_class_concerns_the_jobs_that_name_it(queues: Queues) -> None:
    labels = {"kueue.x-k8s.io/priority-class": "high"}
    found = job(version=1)
    put(queues, replace(found, meta=replace(found.meta, labels=labels)), owned())
    assert put(queues, WorkloadPriorityClassInfo("high", 10)).jobs == {UNIT}


def test_a_class_is_in_a_change_when_its_value_is_new(queues: Queues) -> None:
    for value in (10, 20):
        found = ev.Applied(WorkloadPriorityClassInfo("high", value))
        assert put(queues, found).priority_classes == {"high"}
        assert put(queues, found) == NOTHING
    gone = put(queues, ev.Deleted(WorkloadPriorityClassInfo("high", 20)))
    assert gone.priority_classes == frozenset()


def test_a_workload_of_less_priority_than_before_may_be_pushed_out_now(queues: Queues) -> None:
    made = workload("w", 1, priority=5)
    holds = replace(made, admission=admission(made))
    put(queues, holds)
    higher = replace(holds, meta=meta("w", "ns", uid=holds.meta.uid), priority=6)
    assert put(queues, higher).released == frozenset()
    lower = replace(holds, meta=meta("w", "ns", uid=holds.meta.uid), priority=4)
    assert put(queues, lower).released == {"cq"}


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_a_workload_concerns_the_jobs_that_bring_it_along(queues: Queues, where: str) -> None:
    said: dict[str, Any] = {where: {"kueue.x-k8s.io/prebuilt-workload-name": "w"}}
    found = job(version=1)
    put(queues, replace(found, meta=replace(found.meta, **said)))
    assert put(queues, workload("other")).jobs == frozenset()
    assert put(queues, workload("w")).jobs == {UNIT}
    put(queues, ev.JobDeleted(found))
    assert put(queues, workload("w")).jobs == frozenset()


def test_a_parent_concerns_what_is_left_of_a_group_that_it_made(queues: Queues) -> None:
    parent = OwnerRef("batch/v1", "Job", "parent", "parent")
    for version, name in ((1, "a"), (2, "b")):
        made = job(name, version=version, uid=name)
        put(queues, replace(made, owner=parent, group="g"))
    put(queues, ev.JobDeleted(job("a", version=3, uid="a")))
    assert put(queues, owned("parent")).jobs == {(KIND, "ns/group/g")}


@pytest.mark.parametrize("version", [0, 10**9], ids=["set back", "and gone on since"])
def test_a_list_of_a_store_that_was_set_back_replaces_what_was_later(
    version: int, queues: Queues
) -> None:
    """What a list shows in an older version than one before it cannot be what it was."""
    old, gone = workload("w"), workload("gone")
    newer = replace(old, meta=meta("w", "ns"), priority=5)
    for each in (old, newer, gone):
        put(queues, each)
    put(queues, ev.Listed(WorkloadInfo, [old], version))
    assert {key: each.priority for key, each in queues.view().workloads.items()} == {
        old.key: old.priority
    }


def test_what_was_deleted_is_there_again_where_a_store_was_set_back(queues: Queues) -> None:
    old = workload("w")
    put(queues, old, ev.Deleted(old), ev.Listed(WorkloadInfo, [old], 0))
    assert old.key in queues.view().workloads


# --- lists that are taken in by slices


def admitted(count: int = MANY) -> list[WorkloadInfo]:
    made = [workload(f"w{number}") for number in range(count)]
    return [replace(each, admission=admission(each)) for each in made]


def jobs(count: int = MANY) -> list[JobObject]:
    return [
        JobObject(KIND, meta(f"j{number}", "ns", uid=f"job-{number}"), b"{}")
        for number in range(count)
    ]


def test_workloads_come_and_go_by_slices(queues: Queues) -> None:
    there = queues.view().workloads
    for found, want in ((admitted(), MANY), ([], 0)):
        before = len(there)
        for _ in queues.replace(ev.Listed(WorkloadInfo, found)):
            validate_queues(queues)
            assert abs(len(there) - before) <= PIECE
            before = len(there)
        assert len(there) == want


def test_workloads_with_long_templates_come_one_at_a_time(queues: Queues) -> None:
    """Each takes milliseconds to read: a list of them must not hold the event loop."""
    long = replace(pod_set(1), template=b" " * PIECE * LONG_TEXT)
    found = [workload(f"w{number}", long) for number in range(MANY)]
    there = queues.view().workloads
    before = 0
    for _ in queues.replace(ev.Listed(WorkloadInfo, found)):
        assert len(there) - before <= 1
        before = len(there)
    assert before == MANY


def test_jobs_come_and_go_by_slices(queues: Queues) -> None:
    there = queues.view().jobs
    for found, want in ((jobs(), MANY), ([], 0)):
        before = len(there)
        for _ in queues.replace(ev.JobsListed(KIND, found)):
            assert abs(len(there) - before) <= PIECE
            before = len(there)
        assert len(there) == want


def test_settings_are_one_slice(queues: Queues) -> None:
    made = [cluster_queue(f"cq{number}") for number in range(MANY)]
    changes = list(queues.replace(ev.Listed(type(made[0]), made)))
    assert len(changes) == 1
    assert queues.view().structure_version == MANY


def test_what_is_written_between_two_slices_is_newer_than_the_list(queues: Queues) -> None:
    found = admitted()
    version = found[-1].meta.version
    put(queues, flavor())
    slices = queues.replace(ev.Listed(WorkloadInfo, found, version))
    next(slices)
    last = found[-1]
    written = replace(last, meta=replace(last.meta, version=version + 1), priority=7)
    made = replace(workload("made"), meta=meta("made", "ns", version=version + 2))
    put(queues, written, made)
    for _ in slices:
        validate_queues(queues)
    assert queues.view().workloads[last.key].priority == 7
    assert key("made") in queues.view().workloads


def test_a_workload_that_goes_between_two_slices_does_not_come_back(queues: Queues) -> None:
    found = admitted()
    put(queues, found[-1])
    slices = queues.replace(ev.Listed(WorkloadInfo, found, found[-1].meta.version))
    next(slices)
    put(queues, ev.Deleted(found[-1]))
    for _ in slices:
        validate_queues(queues)
    assert found[-1].key not in queues.view().workloads
