"""A group of pods of which all were replaced keeps its workload."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from extender.state.queue import events as ev
from extender.state.queue.records import JobObject, OwnerRef, WorkloadInfo
from tests.makers import NAMESPACE
from tests.queue_makers import admission, condition, meta, pod_set, workload
from tests.unit.controllers.queue_server import JobBench
from tests.unit.jobs.test_plain_pods import group, pod, running

UNIT = ("pod", f"{NAMESPACE}/group/g")


class Pods:
    """The API server's pods; what is deleted is kept in a list."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    async def delete(self, path: str, options: Mapping[str, Any]) -> None:
        self.deleted.append(path.rpartition("/")[2])


class Scene(JobBench):
    """A group of two pods that run."""

    def __init__(self) -> None:
        self.pods = Pods()
        super().__init__(self.pods)
        self.seen: dict[str, JobObject] = {}
        self.put(running("a"))
        self.put(running("b"))
        role = group(pod("a"), pod("b")).pod_sets()[0]
        pods = pod_set(1, 2, name=role.name)
        owners = tuple(OwnerRef("v1", "Pod", n, f"uid-{n}", controller=False) for n in "ab")
        conditions = (condition("QuotaReserved"), condition("Admitted"))
        held = admission(workload("g", pods))
        self.store(workload("g", pods, owners=owners, admission=held, conditions=conditions))

    def put(self, source: dict[str, Any]) -> None:
        """Have a pod seen as it is now."""
        source["metadata"]["namespace"] = NAMESPACE
        name = source["metadata"]["name"]
        seen = meta(name, NAMESPACE, uid=f"uid-{name}", labels=source["metadata"]["labels"])
        found = JobObject("pod", seen, json.dumps(source).encode(), queue_name="q", group="g")
        self.seen[name] = found
        self.queues.apply(ev.JobApplied(found))

    def delete(self, name: str) -> None:
        """Have a pod gone."""
        self.queues.apply(ev.JobDeleted(self.seen.pop(name), for_good=True))

    async def look(self) -> None:
        await self.controller.reconcile(UNIT)

    @property
    def stored(self) -> WorkloadInfo:
        return self.server.stored[f"{NAMESPACE}/g"]


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_group_lives_on_when_all_its_pods_were_replaced(scene: Scene) -> None:
    for old in ("a", "b"):
        scene.put(pod(old, held=False, phase="Failed"))
        await scene.look()
        scene.put(running(f"{old}2"))
        await scene.look()
        scene.delete(old)
        await scene.look()
    assert scene.pods.deleted == []
    assert {"uid-a2", "uid-b2"} <= {each.uid for each in scene.stored.owners}
    assert not scene.stored.finished


async def test_it_does_so_too_where_nothing_was_seen_in_between(scene: Scene) -> None:
    """The reconciler may have been away, and the garbage collector slow."""
    scene.put(running("a2"))
    scene.put(running("b2"))
    scene.delete("a")
    scene.delete("b")
    await scene.look()
    assert scene.pods.deleted == []
    assert {each.uid for each in scene.stored.owners} == {"uid-a2", "uid-b2"}


async def test_a_pod_that_succeeds_and_is_deleted_ends_the_group_with_the_others(
    scene: Scene,
) -> None:
    scene.put(pod("a", held=False, phase="Succeeded"))
    await scene.look()
    scene.delete("a")
    await scene.look()
    assert scene.pods.deleted == []
    scene.put(pod("b", held=False, phase="Succeeded"))
    await scene.look()
    end = scene.stored.condition("Finished")
    assert end is not None
    assert end.reason == "Succeeded"
