"""Lists of the queue's kinds are taken in by slices; versions decide about what comes between."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from extender.state.queue import events as ev
from extender.state.queue.records import JobObject, WorkloadInfo
from extender.state.queue.store import Queues
from extender.steps import PIECE
from tests.makers import key
from tests.queue_makers import (
    admission,
    cluster_queue,
    flavor,
    meta,
    validate_queues,
    workload,
)

MANY = 4 * PIECE
KIND = "batch/job"


@pytest.fixture
def queues() -> Iterator[Queues]:
    queues = Queues()
    yield queues
    validate_queues(queues)


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
    queues.apply(ev.Applied(flavor()))
    slices = queues.replace(ev.Listed(WorkloadInfo, found, version))
    next(slices)
    last = found[-1]
    written = replace(last, meta=replace(last.meta, version=version + 1), priority=7)
    made = replace(workload("made"), meta=meta("made", "ns", version=version + 2))
    queues.apply(ev.Applied(written))
    queues.apply(ev.Applied(made))
    for _ in slices:
        validate_queues(queues)
    assert queues.view().workloads[last.key].priority == 7
    assert key("made") in queues.view().workloads


def test_a_workload_that_goes_between_two_slices_does_not_come_back(queues: Queues) -> None:
    found = admitted()
    queues.apply(ev.Applied(found[-1]))
    slices = queues.replace(ev.Listed(WorkloadInfo, found, found[-1].meta.version))
    next(slices)
    queues.apply(ev.Deleted(found[-1]))
    for _ in slices:
        validate_queues(queues)
    assert found[-1].key not in queues.view().workloads
