"""Admissions: their ids, what is logged of them, and their traces."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from extender.kube.errors import ConflictError
from extender.queueing import lifecycle as to
from extender.runtime.faults import FAULTS
from extender.state.cluster.records import ConditionInfo
from extender.state.queue import events as ev
from extender.state.queue.records import OwnerRef, WorkloadInfo
from extender.state.queue.store import Queues
from extender.telemetry.logs import Ids
from extender.telemetry.starts import AdmissionStarts
from tests.makers import ManualClock, key
from tests.queue_makers import admission, workload
from tests.unit.controllers.test_admission import Scene
from tests.unit.telemetry.traces import record

JOB = OwnerRef("batch/v1", "Job", "train", "uid-of-train")
WAITING = ConditionInfo("QuotaReserved", "False", "Pending", "no quota", 910.0)


class Noted:
    """Admissions in a state, with the traces of those that are over."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.queues = Queues()
        self.starts = AdmissionStarts(self.queues, self.clock)
        self.traces = record(self.starts)
        self.waiting = workload("w", created=900, owners=(JOB,), conditions=(WAITING,))
        self.queues.apply(ev.Applied(self.waiting))

    def after(self, seconds: float) -> AdmissionStarts:
        """Let time pass."""
        self.clock.now += seconds
        return self.starts

    def decide(self) -> None:
        """Have a cycle decide the admission in a second."""
        self.starts.cycle()
        self.after(1).decided(self.waiting, "cq")

    def store(self) -> WorkloadInfo:
        """Have the admission stored, and return the workload."""
        held = admission(self.waiting, "cq")
        admitted = to.reserved(self.waiting, held, self.clock.now)
        self.starts.written(self.waiting, admitted, "cq")
        self.queues.apply(ev.Applied(admitted))
        return admitted


def test_an_admission_goes_from_the_queue_to_the_start_of_the_job() -> None:
    noted = Noted()
    noted.decide()
    noted.after(2)
    with capture_logs() as lines:
        noted.store()
    noted.after(3).job_started(JOB.uid, "ns")

    (trace,) = noted.traces
    assert trace.stages() == {
        "wait": (900, 1000),
        "decide": (1000, 1001),
        "write": (1001, 1003),
        "start": (1003, 1006),
    }
    assert (trace.root.name, trace.root.began, trace.root.ended) == ("admission", 900, 1006)
    assert trace.root.error == ""
    assert trace.root.attributes == {
        "k8s.namespace.name": "ns",
        "gang_extender.workload": "w",
        "gang_extender.queue": noted.waiting.queue_name,
        "gang_extender.cluster_queue": "cq",
        "gang_extender.pods": 1,
        "gang_extender.reason": "Started",
        "gang_extender.job": "Job/train",
        "gang_extender.admission_id": trace.id,
    }
    assert trace.children[0].attributes == {
        "gang_extender.reason": "Pending", "gang_extender.message": "no quota"
    }  # fmt: skip
    assert lines == [
        {
            "event": "workload admitted",
            "log_level": "info",
            "workload": key("w"),
            "cluster_queue": "cq",
            "admission_id": trace.id,
            "waited": 103.0,
        }
    ]


def test_a_decision_that_could_not_be_stored_and_the_next_one_are_one_admission() -> None:
    noted = Noted()
    noted.decide()
    first = noted.starts.id_of(key("w"))
    noted.after(1).not_stored(key("w"), "conflict")
    noted.after(5)
    noted.decide()
    noted.store()
    noted.starts.job_started(JOB.uid, "ns")

    (trace,) = noted.traces
    assert trace.id == first
    assert trace.stages()["decide"] == (1007, 1008)
    (moment,) = trace.children[0].moments
    assert (moment.name, moment.at, moment.attributes) == (
        "not stored", 1002, {"gang_extender.reason": "conflict"}
    )  # fmt: skip


def test_an_eviction_ends_it_with_its_reason() -> None:
    noted = Noted()
    noted.decide()
    admitted = noted.store()
    evicted = to.preempted(admitted, "InClusterQueue", "for a better one", now=noted.clock.now)
    with capture_logs() as lines:
        noted.after(1).written(admitted, evicted, "cq")
    noted.starts.job_started(JOB.uid, "ns")

    (trace,) = noted.traces
    assert trace.root.attributes["gang_extender.reason"] == "Preempted"
    assert trace.root.error == "for a better one"
    (line,) = lines
    assert (line["event"], line["reason"], line["cluster_queue"]) == (
        "workload evicted", "Preempted", "cq"
    )  # fmt: skip
    assert line["admission_id"] == trace.id, "also of the last admission"


def test_a_workload_that_is_gone_ends_it() -> None:
    noted = Noted()
    noted.decide()
    noted.queues.apply(ev.Deleted(noted.waiting))

    (trace,) = noted.traces
    assert trace.root.error == "WorkloadDeleted"
    assert set(trace.stages()) == {"wait", "decide", "write"}


def test_another_workload_of_that_name_has_an_admission_of_its_own() -> None:
    noted = Noted()
    noted.decide()
    first = noted.starts.id_of(key("w"))
    noted.starts.decided(
        replace(noted.waiting, meta=replace(noted.waiting.meta, uid="another")), "cq"
    )

    assert noted.starts.id_of(key("w")) != first


def test_why_a_workload_waits_is_said_once_for_each_reason() -> None:
    noted = Noted()
    other = replace(noted.waiting, conditions=(replace(WAITING, reason="WaitingForRoom"),))
    same = replace(noted.waiting, conditions=(replace(WAITING, message="no quota still"),))
    with capture_logs() as lines:
        noted.starts.written(noted.waiting, same, "cq")
        noted.starts.written(same, other, "cq")

    assert [(each["event"], each["reason"]) for each in lines] == [
        ("workload waits", "WaitingForRoom")
    ]


@pytest.mark.looptime
async def test_what_the_loop_decides_is_noted_with_writes_that_fail() -> None:
    scene = Scene()
    scene.server.script = [ConflictError("newer", status=409)]
    starts = scene.admission.starts
    traces = record(starts)
    ids = Ids()
    ids.add("workload", "admission_id", starts.id_of)
    with capture_logs([ids]) as lines:
        scene.add("w")
        async with scene.running():
            await scene.until(lambda: scene.admitted() == {"w"})
    scene.queues.apply(ev.Deleted(scene.server.stored[key("w")]))

    (trace,) = traces
    assert [dict(each.attributes) for each in trace.children[0].moments] == [
        {"gang_extender.reason": "conflict"}
    ]
    assert trace.children[1].name == "decide"
    assert trace.children[1].began >= 1000, "the cycle's own begin"
    about = [each for each in lines if each.get("workload") == key("w")]
    assert [each["event"] for each in about] == ["could not admit"]
    assert {each["admission_id"] for each in about} == {trace.id}


def test_what_cannot_be_noted_is_an_error_of_nothing_else() -> None:
    noted = Noted()
    starts, workload = noted.starts, noted.waiting
    admitted = to.reserved(workload, admission(workload, "cq"), noted.clock.now)
    before = FAULTS.counts.get("admission-starts", 0)
    starts._under_way = object()  # type: ignore[assignment]
    starts._now = None  # type: ignore[assignment]
    calls: list[Callable[[], None]] = [
        starts.cycle,
        lambda: starts.decided(workload, "cq"),
        lambda: starts.not_stored(workload.key, "conflict"),
        lambda: starts.written(workload, admitted, "cq"),
        lambda: starts.job_started(JOB.uid, "ns"),
        lambda: starts.on_change(ev.QueueChange(workloads=frozenset((workload.key,)))),
    ]
    for count, call in enumerate(calls, 1):
        call()
        assert FAULTS.counts["admission-starts"] == before + count
