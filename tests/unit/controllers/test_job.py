"""The job controller where answers are lost, data is odd, or a job's watch has ended."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from extender.controllers.timing import CONCURRENT_WRITES, LATE, LOOK_AGAIN, SETTLE, UNNOTICED
from extender.jobs import actions as do
from extender.jobs.job import Step
from extender.jobs.kinds.batch_job import BatchJob
from extender.jobs.registry import builtin
from extender.kube.errors import ApiError, InvalidError, NotFoundError, UnavailableError
from extender.kube.queues import JobWriter
from extender.runtime.faults import FAULTS
from extender.state.queue import events as ev
from extender.state.queue.records import JobObject, OwnerRef, WorkloadInfo
from tests.harness import kinds, objects
from tests.makers import NAMESPACE
from tests.queue_makers import (
    condition,
    flavor,
    meta,
    validate_queues,
    workload,
)
from tests.unit.controllers.queue_server import JobBench, NoPodGroups
from tests.unit.jobs.scene import sent
from tests.unit.jobs.scene import workload as workload_of

KEY = ("batch/job", f"{NAMESPACE}/job")
W = f"{NAMESPACE}/w"


class Jobs(JobWriter):
    """Jobs of the API server; a write can be done without an answer."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.lose = False
        self.reads: list[ApiError] = []
        self.patches: list[Mapping[str, Any]] = []

    def put(self, source: dict[str, Any]) -> JobObject:
        """Store a Job, and return it as it is seen."""
        name, now = source["metadata"]["name"], meta("job")
        source["metadata"] |= {"uid": now.uid, "resourceVersion": str(now.version)}
        self.stored[name] = source
        labels = source["metadata"].get("labels", {})
        return JobObject(
            "batch/job",
            replace(now, name=name, namespace=NAMESPACE, labels=labels),
            json.dumps(source).encode(),
            queue_name=labels.get("kueue.x-k8s.io/queue-name", ""),
        )

    @override
    async def patch(self, path: str, change: Mapping[str, Any], *, kind: str) -> JobObject:
        self.patches.append(change)
        source = deepcopy(self.stored[path.rpartition("/")[2]])
        source["spec"] |= {k: v for k, v in change.get("spec", {}).items() if k == "suspend"}
        stored = self.put(source)
        if self.lose:
            raise UnavailableError("the answer is lost")
        return stored

    @override
    async def read(self, path: str, *, kind: str) -> JobObject:
        if self.reads:
            raise self.reads.pop(0)
        return self.put(self.stored[path.rpartition("/")[2]])


class Groups(NoPodGroups):
    """No PodGroups; whether there are pods is for the test to say."""

    pods = True

    @override
    def has_pods(self, workload: WorkloadInfo, *, ending: bool = True) -> bool:
        return self.pods


class Scene(JobBench):
    """A suspended Job of one pod whose workload has quota."""

    def __init__(self) -> None:
        self.jobs, self.groups = Jobs(), Groups()
        super().__init__(self.jobs, self.groups)
        self.put(objects.job("job", namespace=NAMESPACE, queue="cq", suspend=True))

    def put(self, source: dict[str, Any]) -> None:
        """Have a Job stored and seen."""
        self.queues.apply(ev.JobApplied(self.jobs.put(source)))

    @property
    def source(self) -> dict[str, Any]:
        return self.jobs.stored["job"]

    async def look(self) -> None:
        """Have the controller look."""
        await self.controller.reconcile(KEY)

    @property
    def believed(self) -> bool:
        """Whether the Job is believed to be suspended."""
        [found] = self.queues.view().unit(KEY)
        return bool(json.loads(found.raw)["spec"]["suspend"])


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    validate_queues(scene.queues)


async def test_a_start_without_an_answer_is_asked_for_before_anything_else(scene: Scene) -> None:
    """Else an eviction would find the Job suspended and give its quota back while it runs."""
    scene.admit_job(scene.source, 1)
    scene.jobs.lose = True
    with pytest.raises(UnavailableError):
        await scene.look()
    scene.touch(W, conditions=(condition("Evicted"),))
    assert scene.believed

    scene.jobs.lose = False
    scene.jobs.reads = [UnavailableError("down")]
    with pytest.raises(UnavailableError):
        await scene.look()
    assert scene.server.writes == 0
    await scene.look()
    assert scene.jobs.patches[-1]["spec"] == {"suspend": True}


async def test_a_job_that_went_meanwhile_is_known_to_be_gone(scene: Scene) -> None:
    scene.admit_job(scene.source, 1)
    scene.jobs.lose = True
    with pytest.raises(UnavailableError):
        await scene.look()
    scene.jobs.reads = [NotFoundError("gone")]
    await scene.look()
    assert scene.queues.view().unit(KEY) == []


async def test_an_undecidable_job_gets_an_event_and_harms_no_other(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("spec")

    monkeypatch.setattr("extender.controllers.job.decide", fail)
    before = FAULTS.counts.get("job", 0)
    for _ in range(2):
        with pytest.raises(ApiError, match="spec"):
            await scene.look()
    assert FAULTS.counts["job"] == before + 2
    [aside] = scene.aside
    assert (aside.kind, aside.object.name, aside.object.kind) == ("batch/job", "job", "Job")
    assert "KeyError('spec')" in aside.why

    monkeypatch.setattr("extender.controllers.job.decide", lambda *_: ())
    await scene.look()
    assert not list(scene.aside)


async def test_what_the_api_server_refuses_is_an_event_of_the_job(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it stays suspended, and only our log says why."""

    async def refuse(_: object) -> None:
        raise InvalidError("spec.podSets is wrong", status=422)

    monkeypatch.setattr(scene.server, "create", refuse)
    with pytest.raises(InvalidError):
        await scene.look()
    [reported] = scene.events
    assert (reported.about.name, reported.reason, reported.warning) == ("job", "Invalid", True)
    assert reported.note == "spec.podSets is wrong"


DONE_AND_READY = (
    do.SetReclaimable(W, "w", {"main": 1}),
    do.SetPodsReady(W, "w", ready=True, reason="Started", message=""),
)


async def test_pods_whose_quota_cannot_be_returned_do_not_keep_others_from_being_counted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.admit_job(scene.source, 2)
    monkeypatch.setattr("extender.controllers.job.decide", lambda *_: DONE_AND_READY)
    write = scene.server.write_status

    async def refuse(before: WorkloadInfo, after: WorkloadInfo) -> WorkloadInfo:
        if before.reclaimable != after.reclaimable:
            raise InvalidError("reclaimablePods are wrong", status=422)
        return await write(before, after)

    monkeypatch.setattr(scene.server, "write_status", refuse)
    with pytest.raises(InvalidError):
        await scene.look()
    assert scene.server.stored[W].holds("PodsReady")
    assert [each.reason for each in scene.events] == ["Invalid"]


async def test_pods_that_are_done_and_pods_that_are_ready_are_one_write(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.admit_job(scene.source, 2)
    actions = (*DONE_AND_READY, do.SetReclaimable(f"{NAMESPACE}/other", "other", {"main": 1}))
    monkeypatch.setattr("extender.controllers.job.decide", lambda *_: actions)
    write, written = scene.server.write_status, list[str]()

    async def count(before: WorkloadInfo, after: WorkloadInfo) -> WorkloadInfo:
        written.append(before.key)
        return await write(before, after)

    monkeypatch.setattr(scene.server, "write_status", count)
    await scene.look()
    stored = scene.server.stored[W]
    assert (stored.holds("PodsReady"), stored.reclaimable) == (True, {"main": 1})
    assert written == [W]


async def test_with_the_quota_go_the_counts_of_pods_that_start_again(scene: Scene) -> None:
    """In one write: in between it could be admitted for less than it starts with."""
    scene.admit_job(scene.source, 1)
    [found] = scene.server.stored.values()
    conditions = (*found.conditions, condition("Evicted"))
    scene.touch(W, conditions=conditions, reclaimable={"main": 1})
    await scene.look()
    stored = scene.server.stored[W]
    assert (stored.admission, stored.reclaimable) == (None, {})


async def test_a_job_without_label_and_workload_is_forgotten(scene: Scene) -> None:
    scene.put(objects.job("job", namespace=NAMESPACE, suspend=True))
    await scene.look()
    assert scene.queues.view().unit(KEY) == []

    scene.put(objects.job("job", namespace=NAMESPACE, queue="cq", suspend=True))
    assert len(scene.queues.view().unit(KEY)) == 1


@pytest.mark.parametrize("taken", [0, 1, 3])
async def test_a_foreign_workload_does_not_keep_its_name_from_a_job(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    source = scene.source
    wanted = [BatchJob(source).workload_name(attempt) for attempt in range(taken + 1)]
    assert len(set(wanted)) == taken + 1
    for name in wanted[:-1]:
        foreign = replace(workload("w"), meta=meta(name, NAMESPACE), owners=())
        scene.queues.apply(ev.Applied(foreign))
    made: list[str] = []

    async def create(body: dict[str, Any]) -> WorkloadInfo:
        made.append(body["metadata"]["name"])
        return replace(
            workload("w"),
            meta=meta(made[-1], NAMESPACE),
            owners=(OwnerRef("batch/v1", "Job", "job", source["metadata"]["uid"]),),
        )

    monkeypatch.setattr(scene.server, "create", create)
    await scene.look()
    assert made == [wanted[-1]]


class Pods(JobWriter):
    """Members of a group, written with a limit that a test can see."""

    def __init__(self, refuse: str = "", *, unsent: bool = False) -> None:
        self.refuse, self.unsent = refuse, unsent
        self.now, self.most, self.tried = 0, 0, 0
        self.written: list[str] = []
        self.read_again: list[str] = []

    @override
    async def patch(self, path: str, change: Mapping[str, Any], *, kind: str) -> JobObject:
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(3):
            await asyncio.sleep(0)
        self.now -= 1
        name = path.rpartition("/")[2]
        self.tried += 1
        if self.refuse in (name, "all"):
            error = UnavailableError("not now")
            error.is_unsent = self.unsent
            raise error
        self.written.append(name)
        return JobObject("pod", meta(name, NAMESPACE), b"{}")

    @override
    async def read(self, path: str, *, kind: str) -> JobObject:
        self.read_again.append(path.rpartition("/")[2])
        raise NotFoundError("gone")

    @override
    async def delete(self, path: str, options: Mapping[str, Any]) -> None:
        await self.patch(path, options, kind="pod")


MEMBER = JobObject("pod", meta("p0", NAMESPACE), b"{}")


@pytest.mark.parametrize("delete", [False, True])
async def test_members_are_written_at_the_same_time_and_not_all_at_once(*, delete: bool) -> None:
    pods = Pods()
    steps = [Step({}, member=f"p{number}", delete=delete) for number in range(100)]
    await JobBench(pods).controller.take(steps, MEMBER)
    assert sorted(pods.written) == sorted(step.member for step in steps)
    assert pods.most == CONCURRENT_WRITES


async def test_members_of_many_groups_are_no_more_writes_at_a_time_than_those_of_one() -> None:
    pods = Pods()
    controller = JobBench(pods).controller
    groups = [[Step({}, member=f"{group}-{n}") for n in range(40)] for group in range(5)]
    await asyncio.gather(*(controller.take(steps, MEMBER) for steps in groups))
    assert len(set(pods.written)) == 200
    assert pods.most == CONCURRENT_WRITES


@pytest.mark.parametrize("unsent", [False, True])
async def test_a_member_is_read_again_only_where_its_write_may_have_been_sent(
    *, unsent: bool
) -> None:
    pods = Pods(refuse="p0", unsent=unsent)
    bench = JobBench(pods)
    bench.queues.apply(ev.JobApplied(MEMBER))
    with pytest.raises(UnavailableError):
        await bench.controller.take([Step({}, member="p0")], MEMBER)
    await bench.controller.reconcile(MEMBER.unit)
    assert pods.read_again == ([] if unsent else ["p0"])


async def test_a_member_that_cannot_be_written_does_not_keep_those_beside_it() -> None:
    pods = Pods(refuse="p1")
    steps = [Step({}, member=f"p{number}") for number in range(CONCURRENT_WRITES + 4)]
    with pytest.raises(UnavailableError):
        await JobBench(pods).controller.take(steps, MEMBER)
    assert len(pods.written) == CONCURRENT_WRITES + 3


async def test_while_the_api_server_is_away_not_all_members_are_tried() -> None:
    pods = Pods(refuse="all")
    steps = [Step({}, member=f"p{number}") for number in range(1000)]
    with pytest.raises(UnavailableError):
        await JobBench(pods).controller.take(steps, MEMBER)
    assert pods.tried < 2 * CONCURRENT_WRITES


async def test_steps_of_one_object_are_taken_one_after_the_other() -> None:
    pods = Pods()
    await JobBench(pods).controller.take([Step({}), Step({}, "status"), Step({})], MEMBER)
    assert pods.most == 1


TRAIN = ("kubeflow.org/mpijob", f"{NAMESPACE}/train")


def train(scene: Scene, **source: Any) -> None:
    """Have an MPIJob seen that was created suspended."""
    found = replace(meta("train"), name="train", namespace=NAMESPACE)
    raw = json.dumps({**kinds.mpijob(), **source}).encode()
    scene.queues.apply(ev.JobApplied(JobObject(TRAIN[0], found, raw, queue_name="cq")))


async def test_an_operator_that_does_not_notice_a_stop_is_waited_for_with_an_event(
    scene: Scene,
) -> None:
    """It is looked at when that is due: many such jobs are no load."""
    train(scene)
    assert await scene.controller.reconcile(TRAIN) == UNNOTICED
    assert scene.events == []
    scene.clock.now += UNNOTICED
    assert await scene.controller.reconcile(TRAIN) == LATE - UNNOTICED
    scene.clock.now += LATE
    assert await scene.controller.reconcile(TRAIN) is None

    assert [each.reason for each in scene.events] == ["StopUnnoticed"]
    assert not scene.server.stored
    scene.queues.apply(ev.JobDeleted(scene.queues.view().unit(TRAIN)[0]))
    assert await scene.controller.reconcile(TRAIN) is None


@pytest.mark.parametrize(("pods", "want"), [(True, LOOK_AGAIN), (False, UNNOTICED)])
async def test_a_stop_is_looked_at_all_the_time_while_there_are_pods(
    scene: Scene, want: float, *, pods: bool
) -> None:
    """The end of a pod is no change of its job."""
    train(scene)
    scene.groups.pods = pods
    owner = OwnerRef("kubeflow.org/v2beta1", "MPIJob", "train", "train")
    scene.store(workload("t", owners=(owner,)))
    assert await scene.controller.reconcile(TRAIN) == want


async def test_nothing_is_expected_of_the_operator_of_a_job_that_has_ended(scene: Scene) -> None:
    train(scene, status={"conditions": [{"type": "Failed", "status": "True"}]})
    for _ in range(2):
        assert await scene.controller.reconcile(TRAIN) is None
        scene.clock.now += UNNOTICED
    assert scene.events == []


async def test_a_stop_whose_pods_do_not_end_is_reported_and_ends(scene: Scene) -> None:
    scene.admit_job(scene.source, 1)
    [found] = scene.server.stored.values()
    scene.touch(W, conditions=(*found.conditions, condition("Evicted")))
    source = scene.source
    scene.put({**source, "status": {"active": 1}})

    def quota() -> object:
        return scene.server.stored[found.key].admission

    assert await scene.controller.reconcile(KEY) == 60
    scene.clock.now += 59
    assert await scene.controller.reconcile(KEY) == 1
    assert scene.events == []

    scene.clock.now += 1
    await scene.look()
    assert [each.reason for each in scene.events] == ["PodsStillRun"]
    assert quota() is not None

    scene.groups.pods = False
    await scene.look()
    assert quota() is None
    scene.put({**source, "status": {"active": 0}})
    before = len(scene.events)
    await scene.look()
    assert len(scene.events) == before


class OneJob(JobWriter):
    """The one job of the API server, of any kind, which runs."""

    def __init__(self, kind: str, source: Any) -> None:
        self.kind, self.source, self.key = kind, source, (kind, f"{NAMESPACE}/work")
        source["spec"].get("runPolicy", source["spec"])["suspend"] = False
        source["metadata"] |= {"namespace": NAMESPACE}
        self.lose = False

    @override
    async def patch(self, path: str, change: Mapping[str, Any], *, kind: str) -> JobObject:
        self.source = sent(self.source, Step(dict(change)))
        if self.lose:
            raise UnavailableError("the answer is lost")
        return self.seen()

    @override
    async def read(self, path: str, *, kind: str) -> JobObject:
        return self.seen()

    def seen(self) -> JobObject:
        found = replace(meta("u1"), name="work", namespace=NAMESPACE)
        raw = json.dumps(self.source).encode()
        return JobObject(self.kind, found, raw, queue_name="cq")


async def test_a_cluster_starts_when_kuberay_has_forgotten_the_pods_of_before_its_stop() -> None:
    """Else it would get pods as late as KubeRay looks at it again: five minutes later."""
    jobs = OneJob("ray.io/raycluster", kinds.raycluster())
    bench, key = JobBench(jobs), jobs.key
    bench.queues.apply(ev.JobApplied(jobs.seen()))
    await bench.controller.reconcile(key)
    assert jobs.source["spec"]["suspend"] is True
    jobs.source["status"] = {"state": "suspended"}
    bench.queues.apply(ev.JobApplied(jobs.seen()))
    job = builtin()["ray.io/raycluster"].wrap(deepcopy(jobs.source))
    bench.queues.apply(ev.Applied(flavor("spot")))
    bench.store(workload_of(job, admitted=True))

    left = await bench.controller.reconcile(key)

    assert (left, jobs.source["spec"]["suspend"]) == (30, True)
    bench.clock.now += 30
    await bench.controller.reconcile(key)
    assert jobs.source["spec"]["suspend"] is False


@pytest.fixture
def early() -> tuple[JobBench, OneJob]:
    """A PyTorchJob that runs; its status is still that of before the start."""
    jobs = OneJob("kubeflow.org/pytorchjob", kinds.pytorchjob())
    jobs.source["status"] = {"conditions": [{"type": "Suspended", "status": "True"}]}
    bench = JobBench(jobs)
    bench.queues.apply(ev.JobApplied(jobs.seen()))
    return bench, jobs


def of_work(jobs: OneJob, *conditions: str, admitted: bool) -> WorkloadInfo:
    return workload_of(
        builtin()[jobs.kind].wrap(deepcopy(jobs.source)), *conditions, admitted=admitted
    )


@pytest.mark.parametrize("lost", [False, True], ids=["stopped", "without an answer"])
async def test_a_job_that_is_stopped_before_its_start_is_reported_keeps_its_quota_a_while(
    early: tuple[JobBench, OneJob], *, lost: bool
) -> None:
    """Its status says suspended, and its operator may be about to make the pods."""
    bench, jobs = early
    found = of_work(jobs, "Evicted", admitted=True)
    bench.store(found)
    jobs.lose = lost

    with pytest.raises(UnavailableError) if lost else nullcontext():
        await bench.controller.reconcile(jobs.key)
    assert jobs.source["spec"]["runPolicy"]["suspend"] is True
    bench.queues.apply(ev.JobApplied(jobs.seen()))

    assert await bench.controller.reconcile(jobs.key) == SETTLE
    assert bench.server.stored[found.key].admission is not None
    bench.clock.now += SETTLE
    await bench.controller.reconcile(jobs.key)
    assert bench.server.stored[found.key].admission is None


async def test_that_while_ends_with_the_job(early: tuple[JobBench, OneJob]) -> None:
    bench, jobs = early
    bench.store(of_work(jobs, "Evicted", admitted=True))
    await bench.controller.reconcile(jobs.key)
    bench.queues.apply(ev.JobApplied(jobs.seen()))
    assert await bench.controller.reconcile(jobs.key) == SETTLE
    jobs.source["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    bench.queues.apply(ev.JobApplied(jobs.seen()))
    await bench.controller.reconcile(jobs.key)
    assert await bench.controller.reconcile(jobs.key) is None


async def test_a_job_without_quota_that_a_user_starts_keeps_its_place_in_the_queue(
    early: tuple[JobBench, OneJob],
) -> None:
    bench, jobs = early
    found = of_work(jobs, admitted=False)
    bench.store(found)
    await bench.controller.reconcile(jobs.key)
    bench.queues.apply(ev.JobApplied(jobs.seen()))
    assert jobs.source["spec"]["runPolicy"]["suspend"] is True

    assert await bench.controller.reconcile(jobs.key) is None
    assert bench.server.stored[found.key].condition("StartBlocked") is None
