"""The job controller: when it tells that pods are missing. Time is virtual."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from extender.api.core_v1 import LabelSelector
from extender.controllers.job import RECOVERS, JobController, JobOptions
from extender.controllers.workload_writer import Workloads
from extender.jobs.registry import builtin
from extender.queueing.options import Options, PodsReady
from extender.state.queues import events as ev
from extender.state.queues.records import JobObject, Meta, WorkloadInfo
from extender.state.queues.store import Queues
from tests.unit.jobs.scene import UID, job, workload

READY, BEHIND = {"ready": 2, "active": 2}, {"ready": 1, "active": 2}
UNIT = "batch/job", "ns/work"


class Api:
    """Stores what it is told, under a new version."""

    async def write_status(self, before: WorkloadInfo, after: WorkloadInfo) -> WorkloadInfo:
        return replace(after, meta=replace(before.meta, version=before.meta.version + 1))

    async def patch(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("nothing is to be changed")

    read = create = delete = patch


class Scene:
    """An admitted job, and a clock that stands still."""

    def __init__(self, policy: PodsReady | None = None) -> None:
        self.now = 1000.0
        self.queues = Queues()
        self.versions = 0
        self.status(READY)
        admitted = workload(job(), admitted=True)
        self.queues.apply(ev.Applied(replace(admitted, meta=replace(admitted.meta, version=1))))
        self.controller = JobController(
            self.queues,
            Workloads(self.queues, Api()),
            Api(),
            record=lambda _: None,
            clock=self,
            options=JobOptions(
                builtin(),
                LabelSelector(),
                admission=Options(pods_ready=policy or PodsReady()),
            ),
        )

    def monotonic(self) -> float:
        return self.now

    wall = monotonic

    def status(self, status: Mapping[str, Any]) -> None:
        """Have the job's status change."""
        self.versions += 1
        runs = job(suspend=False, status=status)
        raw = json.dumps(runs.object).encode()
        meta = Meta("work", "ns", UID, self.versions)
        self.queues.apply(ev.JobApplied(JobObject("batch/job", meta, raw, "q")))

    async def look(self) -> tuple[float | None, str]:
        """Look at the job; return when to look again, and what is told of its pods."""
        again = await self.controller.reconcile(UNIT)
        [found] = self.queues.snapshot().workloads.values()
        told = found.condition("PodsReady")
        return again, told.reason if told else ""


async def test_pods_that_are_replaced_at_once_are_not_missed() -> None:
    scene = Scene()
    assert await scene.look() == (None, "Started")

    scene.status(BEHIND)
    assert await scene.look() == (RECOVERS, "Started")
    scene.now += RECOVERS - 1
    assert await scene.look() == (1, "Started")
    scene.status(READY)
    assert await scene.look() == (None, "Started")
    scene.status(BEHIND)
    assert await scene.look() == (RECOVERS, "Started")


async def test_pods_that_stay_away_are_told_of() -> None:
    scene = Scene()
    await scene.look()
    scene.status(BEHIND)
    await scene.look()

    scene.now += RECOVERS
    assert await scene.look() == (None, "WaitForRecovery")
    scene.status(READY)
    assert await scene.look() == (None, "Recovered")


async def test_nothing_is_told_where_nobody_waits() -> None:
    scene = Scene(PodsReady(enabled=False))
    assert await scene.look() == (None, "")


async def test_whether_pods_are_ready_is_known_from_the_job() -> None:
    scene = Scene()
    [found] = scene.queues.snapshot().workloads.values()
    assert scene.controller.pods_ready(found)
    scene.status(BEHIND)
    assert not scene.controller.pods_ready(found)
    assert not scene.controller.pods_ready(replace(found, owners=()))
