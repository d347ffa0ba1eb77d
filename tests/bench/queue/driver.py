"""Creates Workloads that have no job, and does with them what jobs would do.

Each stream creates one after the other, at its interval; one that is late goes on from where it
is, so that a slow API server is loaded evenly and not in bursts. An admitted Workload is finished
after its runtime, an evicted one lets its quota go.
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
from tests.bench.queue.load import Load, Queue, WorkloadClass, WorkloadsSet
from tests.bench.queue.manifests import WORKLOADS
from tests.bench.queue.measures import Seen, seen
from tests.bench.queue.mimic import Step
from tests.bench.queue.wire import WorkloadEvent

_MERGE, _PATCH = "application/merge-patch+json", "application/json-patch+json"
_PLACEHOLDER = "name-of-the-workload"


def template(queue: Queue, kind: WorkloadClass) -> Callable[[str], bytes]:
    """Return what encodes a Workload of that class by name: they differ in nothing else."""
    body = json.dumps(manifests.workload(_PLACEHOLDER, queue.name, kind))
    before, after = (part.encode() for part in body.split(_PLACEHOLDER))
    return lambda name: before + name.encode() + after


class QuotaDriver(Driver):
    """One run of it."""

    def __init__(self, http: aiohttp.ClientSession, tasks: asyncio.TaskGroup, load: Load) -> None:
        super().__init__(http, tasks)
        self.seen: list[Seen] = []
        self.creation_seconds = 0.0
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
        self.creation_seconds = time.monotonic() - self._began

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
