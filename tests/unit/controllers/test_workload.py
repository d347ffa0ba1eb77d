"""The workload controller: what becomes of a workload whose job is not seen any more."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from extender.controllers.timing import LATE, SETTLE
from extender.controllers.workload import WorkloadController, Workloads
from extender.kube.errors import UnavailableError
from extender.kube.recorder import Event
from extender.queueing.lifecycle import LifecycleRules
from extender.queueing.rules import AdmissionOptions, PodsReady
from extender.runtime.faults import FAULTS
from extender.state.queue import events as ev
from extender.state.queue.records import (
    JobObject,
    OwnerRef,
    WorkloadInfo,
    WorkloadPriorityClassInfo,
)
from extender.state.queue.store import Queues
from tests.makers import NAMESPACE, ManualClock, key
from tests.queue_makers import (
    admission,
    condition,
    meta,
    validate_queues,
    workload,
)
from tests.unit.controllers.queue_server import Server

FINALIZER = "kueue.x-k8s.io/resource-in-use"


def job(name: str = "job", queue: str = "cq") -> JobObject:
    return JobObject("batch/job", meta(name, NAMESPACE), b"{}", queue_name=queue)


class Scene:
    """A workload with quota, and its job."""

    def __init__(self) -> None:
        self.queues, self.server = Queues(), Server()
        self.events: list[Event] = []
        self.there: dict[str, JobObject] = {}
        """Jobs as the API server has them, by UID."""
        self.asked: list[str] = []
        self.down = False
        self.foreign: bool | None = True
        """Whether an owner of another kind exists."""
        self.controller = WorkloadController(
            self.queues,
            Workloads(self.queues, self.server),
            record=self.events.append,
            clock=ManualClock(),
            rules=LifecycleRules(
                AdmissionOptions(
                    pods_ready=PodsReady(enabled=False), kinds=frozenset({"batch/Job"})
                )
            ),
            jobs=self,
        )
        self.apply_job(job())
        self.add()

    async def read(self, owner: OwnerRef, namespace: str) -> JobObject | None:
        assert namespace == NAMESPACE
        self.asked.append(owner.name)
        if self.down:
            raise UnavailableError("down")
        return self.there.get(owner.uid)

    async def exists(self, owner: OwnerRef, namespace: str) -> bool | None:
        assert namespace == NAMESPACE
        self.asked.append(owner.name)
        return self.foreign

    def kinds(self) -> set[str]:
        return {"batch/Job"}

    def is_watched(self, job: JobObject) -> bool:
        return bool(job.queue_name)

    def apply_job(self, found: JobObject) -> None:
        """Create a job, or change it, and have it seen."""
        self.there[found.meta.uid] = found
        self.queues.apply(ev.JobApplied(found))

    def clear(self) -> None:
        """Have the workload gone."""
        self.server.stored.clear()
        self.queues.apply(ev.Listed(WorkloadInfo, []))

    def add(self, *owners: str, kind: str = "Job", uid: str = "w") -> None:
        """Create the workload `w` with quota."""
        made = workload("w", 1)
        made = replace(
            made,
            meta=meta("w", NAMESPACE, uid=uid, finalizers=(FINALIZER,)),
            owners=tuple(OwnerRef("batch/v1", kind, o, o) for o in owners or ["job"]),
            admission=admission(made),
            conditions=(condition("QuotaReserved"), condition("Admitted")),
        )
        self.server.stored[made.key] = made
        self.queues.apply(ev.Applied(made))

    def change(self, **fields: Any) -> None:
        """Have the workload changed by another client, and seen."""
        self.queues.apply(ev.Applied(self.server.touch(key("w"), **fields)))

    async def look(self) -> float | None:
        """Have the controller look."""
        return await self.controller.reconcile(key("w"))

    @property
    def stored(self) -> WorkloadInfo:
        return self.server.stored[key("w")]

    @property
    def ended(self) -> str:
        """Why the workload ended, as it is stored."""
        found = self.stored.condition("Finished")
        return found.reason if found else ""


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    validate_queues(scene.queues)


async def test_a_job_that_is_seen_is_not_asked_for(scene: Scene) -> None:
    assert await scene.look() is None
    assert (scene.asked, scene.ended) == ([], "")


async def test_a_workload_ends_when_its_job_is_gone(scene: Scene) -> None:
    gone = scene.there.pop("job")
    scene.queues.apply(ev.JobDeleted(gone))
    await scene.look()
    assert (scene.asked, scene.ended) == (["job"], "OwnerNotFound")
    assert scene.stored.meta.finalizers == ()
    await scene.look()
    assert scene.asked == ["job"]


async def test_a_job_that_lost_its_label_keeps_its_quota_while_it_is_there(scene: Scene) -> None:
    seen = scene.there["job"]
    scene.queues.apply(ev.JobDeleted(replace(seen, meta=job().meta)))
    scene.there["job"] = unlabelled = replace(job(queue=""))
    assert await scene.look() == SETTLE
    assert scene.ended == ""
    assert scene.queues.view().job_of("job", "ns") == unlabelled

    ran = scene.there["job"] = job(queue="")
    assert await scene.look() == SETTLE
    assert scene.queues.view().job_of("job", "ns") == ran

    del scene.there["job"]
    await scene.look()
    assert scene.ended == "OwnerNotFound"
    assert scene.queues.view().job_of("job", "ns") is None


async def test_a_job_that_is_queued_again_is_not_asked_for_any_more(scene: Scene) -> None:
    scene.queues.apply(ev.JobDeleted(scene.there["job"]))
    await scene.look()
    scene.apply_job(job())
    assert await scene.look() is None
    assert scene.asked == ["job"]


async def test_a_namesake_is_not_the_job(scene: Scene) -> None:
    gone = scene.there.pop("job")
    scene.there["other"] = job()
    scene.queues.apply(ev.JobDeleted(gone))
    await scene.look()
    assert scene.ended == "OwnerNotFound"


async def test_nothing_ends_while_the_api_server_is_away(scene: Scene) -> None:
    scene.queues.apply(ev.JobDeleted(scene.there.pop("job")))
    scene.down = True
    with pytest.raises(UnavailableError):
        await scene.look()
    assert scene.ended == ""


async def test_one_of_several_objects_is_enough(scene: Scene) -> None:
    scene.clear()
    scene.add("a", "b", uid="group")
    scene.there["b"] = job("b", queue="")
    assert await scene.look() == SETTLE
    assert (scene.asked, scene.ended) == (["a", "b"], "")


async def test_a_job_of_an_unknown_kind_is_not_given_up(scene: Scene) -> None:
    scene.clear()
    scene.add("a", kind="Thing", uid="thing")
    assert await scene.look() == LATE
    assert (scene.asked, scene.ended) == (["a"], "")


async def test_a_workload_that_cannot_be_decided_about_harms_itself_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OverflowError("cannot convert float infinity to integer")

    monkeypatch.setattr("extender.controllers.workload.lifecycle.decide", fail)
    before = FAULTS.counts.get("workload", 0)
    assert await scene.look() == LATE
    assert FAULTS.counts["workload"] == before + 1


async def test_settings_that_are_unreadable_or_ignored_are_reported_once(scene: Scene) -> None:
    found = scene.queues.view().workloads[key("w")]

    def say(value: str, version: int) -> None:
        labels = {"scheduling.x-k8s.io/pods-ready-timeout": value}
        changed = replace(found.meta, labels=labels, version=found.meta.version + version)
        scene.queues.apply(ev.Applied(replace(found, meta=changed)))

    for version, value in enumerate(("soon", "soon", "7", "later", "9h", "9h"), start=1):
        say(value, version)
        await scene.look()
    reported = [
        (each.reason, each.warning, each.note.partition(" ")[0].rpartition("=")[2])
        for each in scene.events
    ]
    assert reported == [
        ("Invalid", True, "soon"),
        ("Invalid", True, "later"),
        ("OverrideLimited", True, "9h"),
    ]


async def test_a_workload_of_another_controller_can_be_deleted(scene: Scene) -> None:
    """Its finalizer may be ours, or that of a queue that ran here before."""
    scene.add("cluster", kind="RayCluster")
    found = scene.stored
    leaving = replace(found.meta, terminating=True, version=found.meta.version + 1)
    scene.server.stored[found.key] = replace(found, meta=leaving)
    scene.queues.apply(ev.Applied(scene.stored))
    await scene.look()
    assert scene.stored.meta.finalizers == ()
    assert scene.asked == []


@pytest.mark.parametrize("exists", [True, None])
async def test_it_keeps_its_quota_while_its_owner_may_be_there(
    scene: Scene, *, exists: bool | None
) -> None:
    """Also an eviction is that controller's to end: its pods may still run."""
    scene.foreign = exists
    scene.add("cluster", kind="RayCluster")
    scene.change(conditions=(*scene.stored.conditions, condition("Evicted")))
    assert await scene.look() == LATE
    assert scene.asked == ["cluster"]
    assert scene.stored.admission is not None
    assert not scene.stored.finished


async def test_of_very_many_owners_no_more_are_asked_for_than_needed(scene: Scene) -> None:
    scene.add("cluster", kind="RayCluster")
    scene.change(owners=scene.stored.owners * 100)
    await scene.look()
    assert scene.asked == ["cluster"]


async def test_it_gives_its_quota_back_when_its_owner_is_gone(scene: Scene) -> None:
    scene.foreign = False
    scene.add("cluster", kind="RayCluster")
    await scene.look()
    assert scene.ended == "OwnerNotFound"
    assert scene.queues.view().admission(key("w")) is None
    assert scene.stored.meta.finalizers == ()


CLASS = ("kueue.x-k8s.io", "WorkloadPriorityClass", "high")
TAKEN = "scheduling.x-k8s.io/priority-taken"


def of_class(scene: Scene, taken: str = "", *, priority: int = 1) -> None:
    """Have the workload name a WorkloadPriorityClass."""
    said = {TAKEN: taken} if taken else {}
    before = scene.stored
    changed = replace(
        before,
        meta=replace(meta("w", NAMESPACE, uid="w", finalizers=(FINALIZER,)), annotations=said),
        priority=priority,
        priority_class=CLASS,
    )
    scene.server.stored[changed.key] = changed
    scene.queues.apply(ev.Applied(changed))


async def test_a_workload_takes_the_value_of_a_changed_class_once(scene: Scene) -> None:
    of_class(scene, "high=1")
    scene.queues.apply(ev.Applied(WorkloadPriorityClassInfo("high", 1)))
    before = scene.stored
    await scene.look()
    assert scene.stored == before

    scene.queues.apply(ev.Applied(WorkloadPriorityClassInfo("high", 9)))
    await scene.look()
    assert scene.stored.priority == 9
    assert scene.stored.meta.annotations == {TAKEN: "high=9"}
    assert [each.reason for each in scene.events] == ["UpdatedWorkload"]
    await scene.look()
    assert len(scene.events) == 1


async def test_a_priority_set_by_hand_stays_until_the_class_changes(scene: Scene) -> None:
    scene.queues.apply(ev.Applied(WorkloadPriorityClassInfo("high", 9)))
    of_class(scene, "high=9", priority=77)
    await scene.look()
    assert scene.stored.priority == 77

    scene.queues.apply(ev.Deleted(WorkloadPriorityClassInfo("high", 9)))
    await scene.look()
    assert scene.stored.priority == 77
    scene.queues.apply(ev.Applied(WorkloadPriorityClassInfo("high", 10)))
    await scene.look()
    assert scene.stored.priority == 10


async def test_a_workload_without_a_note_follows_its_class(scene: Scene) -> None:
    scene.queues.apply(ev.Applied(WorkloadPriorityClassInfo("high", 9)))
    of_class(scene, priority=2**31 - 1)
    await scene.look()
    assert scene.stored.priority == 9


async def test_a_workload_that_has_ended_keeps_its_priority(scene: Scene) -> None:
    of_class(scene, "high=1")
    scene.change(conditions=(condition("Finished"),))
    scene.queues.apply(ev.Applied(WorkloadPriorityClassInfo("high", 9)))
    await scene.look()
    assert scene.stored.priority == 1
