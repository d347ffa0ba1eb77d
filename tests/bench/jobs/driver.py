"""Creates the Jobs and records what becomes of them."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from typing_extensions import override

from tests.bench.jobs import manifests, measures
from tests.bench.jobs.load import CLASS, Load
from tests.bench.jobs.manifests import JOBS
from tests.bench.jobs.measures import Event, JobSeen
from tests.bench.queue.driving import Driver
from tests.bench.queue.manifests import WORKLOADS
from tests.bench.queue.measures import seen as seen_of_workload
from tests.bench.queue.wire import JobEvent, WorkloadEvent


class JobsDriver(Driver):
    """One run of it."""

    def __init__(self, http: aiohttp.ClientSession, tasks: asyncio.TaskGroup, load: Load) -> None:
        super().__init__(http, tasks)
        self.seen: list[Event] = []
        self._load = load
        # Encoded before the first: the bench shares its cores with what it measures.
        self._bodies = [json.dumps(job).encode() for job in manifests.jobs(load)]
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
        seen: JobSeen = measures.seen(event, time.monotonic())
        self.seen.append(seen)
        if seen.complete or seen.failed:
            self._ended.add(seen.name)

    def _workload(self, event: WorkloadEvent) -> None:
        seen = seen_of_workload(event, time.monotonic(), kind=CLASS)
        self.seen.append(seen)
        if seen.admitted:
            self._admitted.add(seen.name)
