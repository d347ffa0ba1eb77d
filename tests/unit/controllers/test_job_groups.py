"""The PodGroup of a job: written with the room that was found, and not again until it is seen."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from typing_extensions import override

from extender.api.wellknown import GROUP_X
from extender.controllers.timing import LATE
from extender.gang.verdicts import GangOptions
from extender.kube.errors import NotFoundError
from extender.permit.background import NodeClaims
from extender.state.cluster.records import Grant, PodGroupInfo
from extender.state.queue import events as ev
from extender.state.queue.records import JobObject
from extender.steps import at_once
from tests.harness import objects
from tests.makers import NAMESPACE, ManualClock, cluster_of, deleted, observe, pod, pod_group
from tests.queue_makers import condition
from tests.unit.controllers.queue_server import JobBench, NoPodGroups
from tests.unit.controllers.test_job import KEY, Jobs
from tests.unit.jobs.scene import merged

GROUP = f"{NAMESPACE}/w"
ROOMS = {"n0": {"cpu": 2000, "pods": 2}}


class Groups(Jobs):
    """Jobs, and the PodGroups that are written for them."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[int, int, Grant | None]] = []
        self.dropped: list[str] = []

    @override
    async def patch(self, path: str, change: Mapping[str, Any], *, kind: str) -> JobObject:
        name = path.split("/jobs/")[1].split("/")[0]
        return self.put(merged(self.stored[name], change))

    @override
    async def make_pod_group(
        self,
        namespace: str,
        name: str,
        *,
        min_member: int,
        owners: Sequence[Mapping[str, Any]],
        done: int = 0,
        grant: Grant | None = None,
        domains: Any = None,
    ) -> None:
        assert (f"{namespace}/{name}", owners[0]["name"]) == (GROUP, "job")
        self.made.append((min_member, done, grant))

    @override
    async def drop_grant(self, namespace: str, name: str, *, api_group: str = "") -> None:
        self.dropped.append(f"{namespace}/{name}")
        raise NotFoundError("it is gone already")


class Known(NoPodGroups):
    """A queue that makes PodGroups, in rooms that it found."""

    @override
    def are_made_in(self, cluster_queue: str) -> bool:
        return cluster_queue == "cq"

    @override
    def rooms(self, workload: str) -> Mapping[str, Mapping[str, int]] | None:
        return ROOMS if workload == GROUP else None


class Scene(JobBench):
    """A Job of two pods that has been admitted by room."""

    def __init__(self) -> None:
        self.jobs, clock = Groups(), ManualClock()
        self.groups = Known(clock)
        super().__init__(self.jobs, self.groups, clock)
        job = objects.job("job", 2, namespace=NAMESPACE, queue="cq", suspend=True)
        self.queues.apply(ev.JobApplied(self.jobs.put(job)))
        self.admit_job(job, 2)

    def see(self, size: tuple[int, int] | None, **more: Any) -> None:
        """Have the watch show the PodGroup, or that it is gone."""
        if size is None:
            self.groups.cluster.apply(deleted((GROUP_X, GROUP), PodGroupInfo))
        else:
            observe(self.groups.cluster, pod_group("w", size[0], done=size[1], **more))

    async def look(self) -> None:
        await self.controller.reconcile(KEY)


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_the_room_that_was_found_is_kept_for_a_while(scene: Scene) -> None:
    await scene.look()
    [(min_member, done, grant)] = scene.jobs.made
    assert (min_member, done) == (2, 0)
    assert grant is not None
    assert grant.rooms == ROOMS
    assert grant.until >= scene.clock.now + LATE
    assert scene.jobs.stored["job"]["spec"]["suspend"] is False


async def test_no_more_is_asked_for_than_is_believed(scene: Scene) -> None:
    many = objects.job("job", 100_000, namespace=NAMESPACE, queue="cq", suspend=True)
    scene.queues.apply(ev.JobApplied(scene.jobs.put(many)))
    scene.admit_job(many, 100_000)
    await scene.look()
    [(_, _, grant)] = scene.jobs.made
    assert grant is not None
    cluster = cluster_of(pod_group("w", 100_000, grant=grant))
    at_once(NodeClaims(cluster, options=GangOptions(), clock=scene.clock).looking())
    assert cluster.view().grants


@pytest.mark.parametrize("shown", [None, (4, 0)], ids=["not there", "as it was"])
async def test_it_is_not_written_again_before_it_is_seen(
    scene: Scene, shown: tuple[int, int] | None
) -> None:
    """Without the claim its room would be free to others, while no pod is there yet."""
    if shown:
        scene.see(shown)
    await scene.look()
    await scene.look()
    assert len(scene.jobs.made) == 1

    scene.see((2, 0))
    await scene.look()
    assert len(scene.jobs.made) == 1
    scene.see(None)  # it was deleted
    await scene.look()
    assert scene.jobs.made[1:] == [(2, 0, None)]


async def test_what_was_written_counts_until_it_is_seen(scene: Scene) -> None:
    groups, [found] = scene.groups, scene.server.stored.values()
    scene.see((4, 0))
    groups.wrote(GROUP, (2, 1), {})
    assert groups.state(found).size == (2, 1)
    scene.see((2, 1))
    assert groups.state(found).size == (2, 1)
    scene.see((4, 0))  # by another writer
    assert groups.state(found).size == (4, 0)


async def test_of_very_many_that_are_never_seen_the_last_are_remembered(scene: Scene) -> None:
    """Jobs that are deleted at once may leave as many behind."""
    groups, [found] = scene.groups, scene.server.stored.values()
    groups.wrote(GROUP, (2, 1), {})
    for number in range(10_000):
        groups.wrote(f"{NAMESPACE}/{number}", (2, 1), {})
    assert groups.state(found).size is None


async def test_one_that_does_not_appear_is_made_again(scene: Scene) -> None:
    await scene.look()
    scene.clock.now += 61
    await scene.look()
    assert len(scene.jobs.made) == 2


@pytest.mark.parametrize("on", [None, "n0"], ids=["no pod has a node", "it has begun"])
async def test_what_is_kept_is_given_back_with_the_quota(scene: Scene, on: str | None) -> None:
    scene.see((2, 0), grant=Grant(ROOMS, scene.clock.now + LATE))
    observe(scene.groups.cluster, pod("p", 1, group="w", on=on))
    scene.touch(GROUP, conditions=(condition("QuotaReserved"), condition("Evicted", "Preempted")))
    await scene.look()
    assert scene.jobs.dropped == ([GROUP] if on is None else [])
    assert not scene.jobs.made
    assert scene.server.stored[GROUP].admission is None
