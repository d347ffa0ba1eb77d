"""Looks at Jobs and their ends, counted by the mode of their completion."""

import json
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from extender.controllers.job import JobCounts
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.errors import UnavailableError
from extender.queueing import lifecycle as to
from extender.state.queue import events as ev
from extender.state.queue.records import OwnerRef, WorkloadInfo
from extender.state.queue.store import Queues
from extender.telemetry.queue_metrics import JobMetrics
from tests.makers import ManualClock
from tests.queue_makers import pod_set, workload

KEY = ("batch/job", "ns/job")


class Scene:
    def __init__(self, spec: Any, kind: str = "batch/job") -> None:
        self.clock = ManualClock()
        self.registry = CollectorRegistry()
        queues = Queues()
        metadata = {"name": "job", "namespace": "ns", "uid": "job", "resourceVersion": "7"}
        raw = json.dumps({"metadata": metadata, "spec": spec}).encode()
        self.job = QueueDecoder(Decoder()).job(raw, kind=kind)
        queues.apply(ev.JobApplied(self.job))
        self.counts = JobCounts(queues.view(), JobMetrics(self.registry), self.clock)

    async def look(self, error: Exception | None = None) -> None:
        async def reconcile(_: tuple[str, str]) -> float | None:
            self.clock.now += 2
            if error is not None:
                raise error
            return 7.0

        assert await self.counts.counting(reconcile)(self.job.key) == 7.0

    def sample(self, name: str, mode: str, result: str) -> float | None:
        return self.registry.get_sample_value(name, {"completion_mode": mode, "result": result})

    def workload(self) -> WorkloadInfo:
        owner = OwnerRef("batch/v1", "Job", "job", self.job.meta.uid)
        return workload("w", pod_set(1, 1), owners=(owner,))


@pytest.mark.parametrize(
    ("spec", "mode"),
    [
        ({"completionMode": "Indexed"}, "Indexed"),
        ({"completionMode": "NonIndexed"}, "NonIndexed"),
        ({}, "NonIndexed"),
        ({"completionMode": None}, "NonIndexed"),
    ],
)
async def test_a_look_counts_by_the_mode_of_its_job(spec: Any, mode: str) -> None:
    scene = Scene(spec)
    await scene.look()
    await scene.look()
    assert scene.sample("job_sync_total", mode, "success") == 2
    assert scene.sample("job_sync_duration_seconds_sum", mode, "success") == 4
    assert scene.sample("job_sync_total", mode, "error") is None


async def test_a_look_that_fails_is_an_error_and_still_one() -> None:
    scene = Scene({"completionMode": "Indexed"})
    with pytest.raises(UnavailableError):
        await scene.look(UnavailableError("away"))
    assert scene.sample("job_sync_total", "Indexed", "error") == 1
    assert scene.sample("job_sync_duration_seconds_count", "Indexed", "error") == 1


@pytest.mark.parametrize(
    ("spec", "kind"), [({}, "ray.io/rayjob"), ({"completionMode": 3}, "batch/job")]
)
async def test_what_has_no_mode_is_looked_at_and_not_counted(spec: Any, kind: str) -> None:
    scene = Scene(spec, kind)
    await scene.look()
    assert not [each for each in scene.registry.collect() if each.samples]


@pytest.mark.parametrize(
    ("reason", "result"),
    [
        ("Succeeded", "succeeded"),
        ("Failed", "failed"),
        *((name, "") for name in ("OutOfSync", "FailedToStart", "OwnerNotFound")),
    ],
)
def test_an_end_counts_once_and_that_of_a_job_that_never_ended_does_not(
    reason: str, result: str
) -> None:
    scene = Scene({"completionMode": "Indexed"})
    before = scene.workload()
    after = to.finished(before, reason, "", now=1.0)
    for pair in ((before, after), (after, after), (before, before)):
        scene.counts.changed(*pair)
    assert bool([each for each in scene.registry.collect() if each.samples]) is bool(result)
    assert scene.sample("job_finished_total", "Indexed", result) == (1 if result else None)


def test_the_end_of_what_is_no_job_counts_nothing() -> None:
    scene = Scene({}, "ray.io/rayjob")
    for before in (scene.workload(), workload("alone", pod_set(1, 1))):
        scene.counts.changed(before, to.finished(before, "Succeeded", "", now=1.0))
    assert not [each for each in scene.registry.collect() if each.samples]
