"""What is created in a run, and what is recorded of it.

Workloads that have no job are done with as jobs would do. Each stream creates one after the other,
at its interval; one that is late goes on from where it is, so that a slow API server is loaded
evenly and not in bursts. An admitted Workload is finished after its runtime, an evicted one lets
its quota go.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from typing_extensions import override

from tests.bench.queue import manifests, mimic
from tests.bench.queue.driving import CONFLICT, Driver
from tests.bench.queue.jobs import JOBS, JobsLoad, jobs
from tests.bench.queue.load import Load, Queue, WorkloadClass, WorkloadsSet
from tests.bench.queue.manifests import WORKLOADS
from tests.bench.queue.measures import seen, seen_of_job
from tests.bench.queue.mimic import Step
from tests.bench.queue.wire import JobEvent, WorkloadEvent

_MERGE, _PATCH = "application/merge-patch+json", "application/json-patch+json"
_PLACEHOLDER = "name-of-the-workload"


def template(queue: Queue, kind: WorkloadClass) -> Callable[[str], bytes]:
    """Return what encodes a Workload of that class by name: they differ in nothing else."""
    body = json.dumps(manifests.workload(_PLACEHOLDER, queue.name, kind))
    before, after = (part.encode() for part in body.split(_PLACEHOLDER))
    return lambda name: before + name.encode() + after


class QuotaDriver(Driver):
    """One run of Workloads without jobs."""

    def __init__(self, http: aiohttp.ClientSession, tasks: asyncio.TaskGroup, load: Load) -> None:
        super().__init__(http, tasks)
        self._load = load
        self._began = time.monotonic()
        self._admissions = 0
        self._finished: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}  # of those that run

    @override
    def watched(self) -> Mapping[str, tuple[type[Any], Callable[[Any], None]]]:
        return {WORKLOADS: (WorkloadEvent, self._take)}

    @override
    def begin(self) -> None:
        self._began = time.monotonic()
        for queue in self._load.queues():
            for number, stream in enumerate(queue.settings.workloads_sets):
                self.tasks.create_task(self._stream(queue, stream, number))

    @override
    def standing(self) -> str:
        made = self.writes["POST workloads"]
        return (
            f"created {made} of {self._load.workloads}; {self._admissions} admissions, "
            f"{len(self._finished)} of {self._load.workloads} finished"
        )

    @override
    def done(self) -> bool:
        return len(self._finished) >= self._load.workloads

    async def _stream(self, queue: Queue, stream: WorkloadsSet, number: int) -> None:
        kinds = [(kind.class_name, template(queue, kind)) for kind in stream.workloads]
        interval = stream.creation_interval_ms / 1000
        due = time.monotonic()
        for index in range(stream.count):
            await asyncio.sleep(max(due - time.monotonic(), 0.0))
            for name, encode in kinds:
                self.writes["POST workloads"] += 1
                body = encode(f"{queue.name}-{name}-{number}-{index:05}")
                await self.send("POST", WORKLOADS, body)
            due = max(due + interval, time.monotonic())
        self.late_seconds = time.monotonic() - self._began - self._load.planned_seconds

    def _take(self, event: WorkloadEvent) -> None:
        """Take in an event and begin what it asks for."""
        self.seen.append(seen(event, time.monotonic()))
        workload = event.object
        name = workload.metadata.name
        step = Step.FORGET if event.type == "DELETED" else mimic.step(workload)
        if step is Step.RUN:
            self._start(name, workload.runtime)
        elif timer := self._timers.pop(name, None):
            timer.cancel()
        if step is Step.RELEASE:
            # Of the version that was seen: where there is a newer one, its event follows.
            body = mimic.release(workload, mimic.timestamp())
            self.tasks.create_task(self._patch(name, body, _MERGE))
        if step is Step.FORGET:
            self._finished.add(name)

    def _start(self, name: str, runtime: float) -> None:
        if name not in self._timers:
            self._admissions += 1
            loop = asyncio.get_running_loop()
            self._timers[name] = loop.call_later(runtime, self._due, name)

    def _due(self, name: str) -> None:
        self.tasks.create_task(self._finish(name))

    async def _finish(self, name: str) -> None:
        status = await self._patch(name, mimic.finish(mimic.timestamp()), _PATCH)
        if status == CONFLICT and name in self._timers:
            self._due(name)

    async def _patch(self, name: str, body: bytes, content_type: str) -> int:
        self.writes["PATCH workloads/status"] += 1
        return await self.send("PATCH", f"{WORKLOADS}/{name}/status", body, content_type)


class JobsDriver(Driver):
    """One run of real Jobs, which need nothing more."""

    def __init__(
        self, http: aiohttp.ClientSession, tasks: asyncio.TaskGroup, load: JobsLoad
    ) -> None:
        super().__init__(http, tasks)
        self._load = load
        # Encoded before the first: the bench shares its cores with what it measures.
        self._bodies = [json.dumps(job).encode() for job in jobs(load)]
        self._ended: set[str] = set()  # complete, or failed
        self._admitted: set[str] = set()

    @override
    def watched(self) -> Mapping[str, tuple[type[Any], Callable[[Any], None]]]:
        return {JOBS: (JobEvent, self._job), WORKLOADS: (WorkloadEvent, self._workload)}

    @override
    def begin(self) -> None:
        self.tasks.create_task(self.create())

    @override
    def standing(self) -> str:
        return (
            f"{self.writes['POST jobs']} of {self._load.jobs} Jobs created, "
            f"{len(self._admitted)} admitted, {len(self._ended)} ended"
        )

    @override
    def done(self) -> bool:
        return len(self._ended) >= self._load.jobs

    async def create(self) -> None:
        """Create all Jobs, each when it is due: a slow one holds up none behind it."""
        clock = asyncio.get_running_loop().time
        began, rate = clock(), self._load.rate
        for number, body in enumerate(self._bodies):
            if rate:
                await asyncio.sleep(max(began + number / rate - clock(), 0.0))
            self.tasks.create_task(self._post(body))

    async def _post(self, body: bytes) -> None:
        await self.send("POST", JOBS, body)
        self.writes["POST jobs"] += 1

    def _job(self, event: JobEvent) -> None:
        found = seen_of_job(event, time.monotonic())
        self.seen.append(found)
        if found.finished or found.failed:
            self._ended.add(found.name)

    def _workload(self, event: WorkloadEvent) -> None:
        found = seen(event, time.monotonic())
        self.seen.append(found)
        if found.admitted:
            self._admitted.add(found.name)
