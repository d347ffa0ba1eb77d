"""Services and their pods in the controller of jobs: each change reaches the other one."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from extender.api.wellknown import IN_USE_FINALIZER, WorkloadCondition
from extender.jobs.fields import Object
from extender.jobs.registry import builtin
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.errors import InvalidError
from extender.kube.queues import JobWriter
from extender.state.queue import events as ev
from extender.state.queue.events import QueueChange
from extender.state.queue.records import JobObject, OwnerRef, WorkloadInfo
from tests.makers import NAMESPACE, observe, pod
from tests.queue_makers import admission, condition, meta, pod_set, workload
from tests.unit.controllers.queue_server import JobBench, NoPodGroups
from tests.unit.jobs.test_services import leader_worker_set, service_pod

UNIT = ("leaderworkerset.x-k8s.io/leaderworkerset", f"{NAMESPACE}/web")


class Pods(JobWriter):
    """Keeps the names of pods that were let go, and of those that were deleted."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.deleted: list[str] = []
        self.members: list[int] = []

    @override
    async def make_pod_group(self, *args: Any, min_member: int, **options: Any) -> None:
        self.members.append(min_member)

    @override
    async def patch(self, path: str, change: Mapping[str, Any], *, kind: str) -> JobObject:
        self.started.append(path.rpartition("/")[2])
        return seen(service_pod(self.started[-1], held=False, role="main"), "pod")

    @override
    async def delete(self, path: str, options: Mapping[str, Any]) -> None:
        self.deleted.append(path.rpartition("/")[2])


def seen(source: Object, kind: str, group: str = "lws-web-0") -> JobObject:
    """Return an object as the watch shows it now."""
    of = builtin()[kind]
    metadata: Any = source["metadata"]
    labels = metadata["labels"]
    if kind == "pod":
        labels["kueue.x-k8s.io/pod-group-name"] = group
    body = {**source, "metadata": {**metadata, "resourceVersion": str(meta("x").version)}}
    return QueueDecoder(Decoder()).job(
        json.dumps(body).encode(), kind=kind, group_of=of.group_of, read=of.read
    )


def held(index: int, *more: str) -> WorkloadInfo:
    """Return the admitted workload of a replica."""
    made = workload(f"lws-web-{index}", replace(pod_set(1, 3), name="main"))
    conditions = [condition(each) for each in ("QuotaReserved", "Admitted", *more)]
    by = OwnerRef("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "web", "u", controller=True)
    return replace(
        made,
        meta=replace(made.meta, finalizers=(IN_USE_FINALIZER,)),
        owners=(by,),
        admission=admission(made),
        conditions=tuple(conditions),
    )


class Scene(JobBench):
    """A LeaderWorkerSet of two replicas that are admitted."""

    def __init__(self) -> None:
        self.jobs, self.groups = Pods(), NoPodGroups()
        super().__init__(self.jobs, self.groups)
        self.changes: list[QueueChange] = []
        self.queues.subscribe(self.changes.append)
        self.service(replicas=2)
        for index in range(2):
            self.store(held(index))

    def service(self, replicas: int, size: int = 3) -> None:
        self.queues.apply(ev.JobApplied(seen(leader_worker_set(replicas, size), UNIT[0])))

    def pod(self, name: str, cpu: int = 1, **options: Any) -> None:
        self.queues.apply(ev.JobApplied(seen(service_pod(name, **options), "pod")))
        observe(self.groups.cluster, pod(name, cpu))

    async def look(self, unit: tuple[str, str]) -> None:
        await self.controller.reconcile(unit)


ROLES = ((5, 1, "leader"), (1, 2, "worker"))
PODS = ("pod", f"{NAMESPACE}/group/lws-web-0")


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_pods_are_let_go_in_the_workload_that_they_name(scene: Scene) -> None:
    scene.pod("web-0")
    scene.pod("web-0-1", cpu=5)  # more than its workload asks for

    await scene.look(PODS)

    assert scene.jobs.started == ["web-0"]
    assert [e.reason for e in scene.events if e.warning] == ["EditIgnored"]


async def test_a_worker_has_no_quota_for_what_its_leader_asks_for(scene: Scene) -> None:
    made = held(0)
    big, small = (replace(pod_set(cpu, n), name=name) for cpu, n, name in ROLES)
    scene.store(replace(made, pod_sets=(big, small)))
    scene.pod("web-0", cpu=5, index="0")
    scene.pod("web-0-1", cpu=5, index="1")

    await scene.look(PODS)

    assert scene.jobs.started == ["web-0"]
    assert [e.reason for e in scene.events if e.warning] == ["EditIgnored"]


async def test_a_pod_that_is_replaced_does_not_wait_for_those_that_were_scaled_down(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scene.groups, "are_made_in", lambda _: True)
    for size in (3, 2):
        scene.service(replicas=2, size=size)
        scene.pod("web-0", held=False, role="main")
        scene.pod("web-0-1")
        await scene.look(PODS)
    assert scene.jobs.members == [3, 2]


@pytest.mark.parametrize("what", ["Finished", "terminating"])
async def test_no_pod_runs_in_a_workload_that_has_ended(scene: Scene, what: str) -> None:
    made = held(0, *(["Finished"] if what == "Finished" else []))
    ends = replace(made.meta, terminating=what == "terminating")
    scene.store(replace(made, meta=ends))
    scene.pod("web-0", held=False, role="main")
    scene.pod("web-0-1")

    await scene.look(PODS)

    assert (scene.jobs.started, scene.jobs.deleted[:1]) == ([], ["web-0"])


async def test_the_workload_of_a_replica_that_is_gone_goes_after_its_pods(scene: Scene) -> None:
    scene.pod("web-0", held=False, role="main")
    scene.service(replicas=0)
    await scene.look(UNIT)
    assert [*scene.server.stored] == [f"{NAMESPACE}/lws-web-0"]

    gone = scene.queues.view().unit(PODS)[0]
    scene.changes.clear()
    scene.queues.apply(ev.JobDeleted(gone))
    assert scene.changes[-1].jobs >= {UNIT, PODS}
    await scene.look(UNIT)
    assert scene.server.stored == {}


async def test_an_evicted_replica_gives_its_quota_back_when_its_pods_are_gone(scene: Scene) -> None:
    scene.pod("web-0", held=False, role="main")
    key = f"{NAMESPACE}/lws-web-0"
    scene.store(held(0, "Evicted"))
    await scene.look(PODS)
    await scene.look(UNIT)
    assert scene.jobs.deleted == ["web-0"]
    assert scene.server.stored[key].admission is not None

    scene.queues.apply(ev.JobDeleted(scene.queues.view().unit(PODS)[0]))
    await scene.look(UNIT)
    assert scene.server.stored[key].admission is None
    other = scene.server.stored[f"{NAMESPACE}/lws-web-1"]
    assert other.condition(WorkloadCondition.ADMITTED) is not None


async def test_a_replica_is_ready_when_the_pods_are_that_it_is_admitted_for(scene: Scene) -> None:
    """Those that it was scaled up to wait; it is not to be stopped for them."""
    made = seen(service_pod("web-0", held=False, role="main"), "pod")
    key = f"{NAMESPACE}/lws-web-0"
    found = held(0)
    for admitted, ready in ((1, True), (2, False)):
        scene.store(
            replace(found, admission=admission(workload("lws-web-0", pod_set(1, admitted))))
        )
        assert not scene.controller.pods_ready(scene.queues.view().workloads[key])
        source = service_pod("web-0", held=False, role="main")
        source["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        scene.queues.apply(ev.JobApplied(seen(source, "pod")))
        assert scene.controller.pods_ready(scene.queues.view().workloads[key]) is ready
        scene.queues.apply(ev.JobApplied(replace(made, meta=seen(source, "pod").meta)))


async def test_what_an_object_of_the_same_name_left_behind_makes_way(scene: Scene) -> None:
    """`kubectl delete --cascade=orphan` leaves a workload that ends and has no owner."""
    left = held(0, "Finished")
    scene.store(replace(left, owners=()))

    assert await scene.controller.reconcile(UNIT) is not None  # it is looked at again
    assert f"{NAMESPACE}/lws-web-0" not in scene.server.stored
    assert "WorkloadOwnedByAnother" in [e.reason for e in scene.events]


async def test_one_replica_that_is_refused_keeps_no_other_back(scene: Scene) -> None:
    scene.queues.apply(ev.Deleted(scene.queues.view().workloads[f"{NAMESPACE}/lws-web-0"]))
    refused, created = InvalidError("no", status=422), list[str]()

    async def create(workload: dict[str, Any]) -> WorkloadInfo:
        created.append(workload["metadata"]["name"])
        raise refused

    scene.server.create = create  # type: ignore[method-assign]
    scene.queues.apply(ev.Deleted(scene.queues.view().workloads[f"{NAMESPACE}/lws-web-1"]))
    with pytest.raises(InvalidError):
        await scene.look(UNIT)
    assert created == ["lws-web-0", "lws-web-1"]
