"""Workloads that no job owns any more, and those whose job could not be started."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from extender.api.reasons import Unadmitted
from extender.queueing import lifecycle as to
from extender.queueing.lifecycle import WorkloadStep, decide
from extender.queueing.status import Absent, Queued, standing
from extender.state.queue import events as ev
from extender.state.queue.records import JobObject, OwnerRef, WorkloadInfo
from tests.makers import NAMESPACE
from tests.queue_makers import (
    Admissions,
    admission,
    cluster_queue,
    condition,
    local_queue,
    meta,
    stated,
    workload,
)

LABEL = {"kueue.x-k8s.io/job-uid": "job"}
FINALIZER = "kueue.x-k8s.io/resource-in-use"
NOW = 1e6

STATES: Mapping[str, Any] = {
    "waiting": (),
    "reserved": ("QuotaReserved",),
    "running": ("QuotaReserved", "Admitted"),
    "evicted": ("QuotaReserved", "Admitted", "Evicted"),
}


def orphan(*holds: str, pods: bool = False, **changes: Any) -> WorkloadInfo:
    """Return the workload of a job that is gone, or of pods that are."""
    found = workload("w")
    return replace(
        found,
        meta=meta(
            "w", NAMESPACE, labels={} if pods else LABEL, finalizers=(FINALIZER,) if pods else ()
        ),
        admission=admission(found) if "QuotaReserved" in holds else None,
        conditions=tuple(map(condition, holds)),
        **changes,
    )


def scene(found: WorkloadInfo, *jobs: JobObject) -> Admissions:
    queues = Admissions(cluster_queue(), local_queue())
    queues.put(found)
    for each in jobs:
        queues.queues.apply(ev.JobApplied(each))
    return queues


@pytest.mark.parametrize("pods", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_an_orphan_ends_and_never_waits_for_quota(state: str, *, pods: bool) -> None:
    found = orphan(*STATES[state], pods=pods)
    view = scene(found).view

    step = decide(found, view, NOW, orphaned=False)

    assert step.after is not None
    assert stated(step.after, "Finished")[:2] == ("True", "OwnerNotFound")
    assert step.drop_finalizer == bool(found.meta.finalizers)
    assert standing(found, view, now=NOW) == Absent()


def test_an_orphan_that_has_ended_stays_as_it_is() -> None:
    assert decide(orphan("Finished"), scene(orphan("Finished")).view, NOW, orphaned=False) == (
        WorkloadStep()
    )


def test_a_workload_that_waits_for_the_job_that_brings_it_along_is_no_orphan() -> None:
    found = workload("w")
    view = scene(found).view
    assert decide(found, view, NOW, orphaned=False) == WorkloadStep()
    assert standing(found, view, now=NOW) == Queued("cq")


def test_a_workload_with_an_owner_is_no_orphan() -> None:
    found = orphan(owners=(OwnerRef("batch/v1", "Job", "job", "job"),))
    assert decide(found, scene(found).view, NOW, orphaned=False) == WorkloadStep()


def test_other_pods_of_a_group_can_take_its_workload_over() -> None:
    found = orphan("QuotaReserved", "Admitted", pods=True)
    pod = JobObject("pod", meta("p", NAMESPACE), b"{}", queue_name="cq", group="w")
    queues = scene(found, pod)
    assert decide(found, queues.view, NOW, orphaned=False) == WorkloadStep()

    changed = queues.queues.apply(ev.JobDeleted(pod))

    assert changed.workloads == {found.key}
    assert decide(found, queues.view, NOW, orphaned=False).after is not None


def test_a_workload_whose_job_could_not_be_started_is_not_queued() -> None:
    waits = to.blocked(workload("w"), "WaitingForPods", "1 of 2 pods are there", now=NOW)
    view = scene(waits).view
    assert standing(waits, view, now=NOW) == Absent(
        Unadmitted.WAITING_FOR_PODS, "1 of 2 pods are there"
    )
    assert stated(waits, "QuotaReserved")[:2] == ("False", "WaitingForPods")
    assert decide(waits, view, NOW, orphaned=False) == WorkloadStep()

    again = to.blocked(waits, "", "", now=NOW)
    assert standing(again, scene(again).view, now=NOW) == Queued("cq")


@pytest.mark.parametrize("reason", ["Misconfigured", "SomethingElse"])
def test_it_is_misconfigured_for_any_other_reason(reason: str) -> None:
    found = to.blocked(workload("w"), reason, "why", now=NOW)
    assert standing(found, scene(found).view, now=NOW) == Absent(Unadmitted.MISCONFIGURED, "why")


def test_one_that_is_deactivated_goes_on_saying_so() -> None:
    off = to.waiting(workload("w", active=False), "Deactivated", "off", now=NOW)
    found = to.blocked(off, "WaitingForPods", "why", now=NOW)
    assert stated(found, "QuotaReserved")[1] == "Deactivated"
