"""Objects of jobs of very many are read with rests, and kept until they change."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from extender.api.core_v1 import LabelSelector
from extender.controllers.job import JobController
from extender.controllers.job_facts import JobOptions, Members
from extender.controllers.workload import WorkloadController
from extender.controllers.workload_writer import Workloads
from extender.jobs.kinds.plain_pods import read
from extender.jobs.registry import builtin
from extender.queueing.lifecycle import LifecycleRules
from extender.queueing.options import AdmissionOptions
from extender.runtime.pacer import Pacer
from extender.state.queue import events as ev
from extender.state.queue.records import JobObject, OwnerRef, WorkloadInfo
from extender.state.queue.store import Queues
from tests.makers import NAMESPACE, ManualClock
from tests.queue_makers import admission, condition, meta, pod_set, workload
from tests.unit.controllers.queue_server import NoPodGroups, Server
from tests.unit.jobs.test_plain_pods import pod

UNIT = ("pod", f"{NAMESPACE}/group/g")
SIZE = 200
RUNS: Mapping[str, Any] = {"held": False, "phase": "Running", "ready": True}


class Counted:
    """Decoded objects, in one number for each time between two rests."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.steps = [0]
        self.in_rest: list[Any] = []
        """What happens in the next rests."""
        self._decode = msgspec.json.decode
        patch.setattr(msgspec.json, "decode", self.decode)
        patch.setattr(Pacer, "rest", self.rest)
        patch.setattr(Pacer, "is_due", True)

    def decode(self, raw: bytes) -> Any:
        self.steps[-1] += 1
        return self._decode(raw)

    async def rest(self) -> None:
        self.steps.append(0)
        if self.in_rest:
            self.in_rest.pop(0)()

    def take(self) -> list[int]:
        """Return the steps since the last call."""
        found, self.steps = self.steps, [0]
        return found


class Scene:
    """A group of very many pods that run."""

    def __init__(self, size: int = SIZE) -> None:
        self.queues, self.size = Queues(), size
        for number in range(size):
            self.put(number)
        self.members = Members(self.queues.view(), builtin(), Pacer(ManualClock()))
        read(self.objects[0].raw)  # of a shape that is not known yet parts are decoded twice

    @property
    def objects(self) -> Sequence[JobObject]:
        return self.queues.view().unit(UNIT)

    def put(self, number: int, **changed: Any) -> JobObject:
        """Have a pod seen as it is now."""
        name = f"pod-{number:04}"
        source = pod(name, total=self.size, **{**RUNS, **changed})
        source["metadata"]["namespace"] = NAMESPACE
        return self.put_raw(name, json.dumps(source).encode())

    def put_raw(self, name: str, raw: bytes) -> JobObject:
        found = JobObject(
            "pod", meta(name, NAMESPACE, uid=f"uid-{name}"), raw, queue_name="q", group="g"
        )
        self.queues.apply(ev.JobApplied(found))
        return found

    def drop(self, found: JobObject) -> None:
        self.queues.apply(ev.JobDeleted(found))


async def test_what_was_read_is_kept_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, counted = Scene(), Counted(monkeypatch)
    await scene.members.learn(UNIT)
    assert max(counted.take()) == 1
    before = scene.members.decoded(scene.objects)
    scene.put(3, phase="Succeeded")
    after = scene.members.decoded(scene.objects)
    assert sum(counted.take()) == 1
    changed = [now.name for was, now in zip(before, after, strict=True) if was is not now]
    assert changed == ["pod-0003"]
    assert after[3].has_succeeded


async def test_what_is_gone_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, counted = Scene(), Counted(monkeypatch)
    first = scene.put(0)
    scene.members.decoded(scene.objects)
    scene.drop(first)
    assert len(scene.members.decoded(scene.objects)) == SIZE - 1
    assert scene.put(0).raw == first.raw
    counted.take()
    scene.members.decoded(scene.objects)
    assert sum(counted.take()) == 1

    scene.members.forget(UNIT)
    scene.members.decoded(scene.objects)
    assert sum(counted.take()) == SIZE


async def test_one_that_cannot_be_read_ends_no_more_than_the_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, counted = Scene(), Counted(monkeypatch)
    scene.put_raw("pod-0100", b"{")
    await scene.members.learn(UNIT)
    with pytest.raises(msgspec.MsgspecError):
        scene.members.decoded(scene.objects)
    scene.put(100)
    counted.take()
    await scene.members.learn(UNIT)
    assert len(scene.members.decoded(scene.objects)) == SIZE
    assert max(counted.take()) == 1


# -- the controllers


class Controllers(Scene):
    """The group's workload has quota, and both controllers look at it."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        writer: Any = None
        self.jobs = JobController(
            self.queues,
            Workloads(self.queues, self.server),
            writer,
            record=lambda _: None,
            clock=ManualClock(),
            options=JobOptions(builtin(), LabelSelector(), NoPodGroups()),
        )
        self.workloads = WorkloadController(
            self.queues,
            Workloads(self.queues, self.server),
            record=lambda _: None,
            clock=ManualClock(),
            rules=LifecycleRules(AdmissionOptions()),
            jobs=self,  # type: ignore[arg-type]
            learn=self.jobs.learn,
        )
        role = self.members.decoded(self.objects)[0].role
        pods = pod_set(1, SIZE, name=role)
        owners = tuple(
            OwnerRef("v1", "Pod", each.meta.name, each.meta.uid, controller=False)
            for each in self.objects
        )
        self.workload: WorkloadInfo = workload(
            "g",
            pods,
            owners=owners,
            admission=admission(workload("g", pods)),
            conditions=(condition("QuotaReserved"), condition("Admitted")),
        )
        self.server.stored[self.workload.key] = self.workload
        self.queues.apply(ev.Applied(self.workload))

    def kinds(self) -> set[str]:
        """Return the kinds of jobs that are watched."""
        return {"/Pod"}

    def is_watched(self, _: JobObject) -> bool:
        return True


async def test_a_look_at_a_large_group_decodes_again_what_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, counted = Controllers(), Counted(monkeypatch)
    await scene.jobs.reconcile(UNIT)
    assert sum(counted.take()) < SIZE + 10
    for number in range(5):
        scene.put(number, age=number)
    await scene.jobs.reconcile(UNIT)
    assert sum(counted.take()) < 15


async def test_whether_very_many_pods_are_ready_is_known_without_decoding_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, counted = Controllers(), Counted(monkeypatch)
    await scene.jobs.learn(scene.workload)
    assert max(counted.take()) == 1
    assert scene.jobs.pods_ready(scene.workload)
    assert sum(counted.take()) < 10
    scene.put(7, leaving=True)
    assert not scene.jobs.pods_ready(scene.workload)
    assert sum(counted.take()) < 10


async def test_the_workload_controller_reads_the_job_before_it_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A workload that goes in a rest is not decided about."""
    scene, counted = Controllers(), Counted(monkeypatch)
    await scene.workloads.reconcile(scene.workload.key)
    assert len(counted.take()) > SIZE

    again = Controllers()
    decided: list[WorkloadInfo] = []
    monkeypatch.setattr(again.workloads, "_prioritized", decided.append)
    counted.in_rest = [lambda: again.queues.apply(ev.Deleted(again.workload))]
    assert await again.workloads.reconcile(again.workload.key) is None
    assert decided == []
