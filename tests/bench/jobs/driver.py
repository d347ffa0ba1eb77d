"""Creates the Jobs and records what becomes of them."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import aiohttp

from tests.bench.jobs import manifests, measures
from tests.bench.jobs.load import CLASS, Load
from tests.bench.jobs.manifests import JOBS
from tests.bench.jobs.measures import Event, JobSeen
from tests.bench.queue import watching
from tests.bench.queue.manifests import WORKLOADS
from tests.bench.queue.measures import seen as seen_of_workload
from tests.bench.queue.wire import JobEvent, WorkloadEvent
from tests.bench.series import Limits
from tests.harness.sessions import session

_CONNECTIONS = 16
_TICK_SECONDS = 0.2

Say = Callable[[str], None]
Gone = Callable[[], str]


class Driver:
    """One run of it, and how far it is."""

    def __init__(self) -> None:
        self.seen: list[Event] = []
        self.ended: set[str] = set()
        """Jobs that are complete, or have failed."""
        self._admitted: set[str] = set()
        self._created = 0

    def take(self, seen: Event) -> None:
        """Take in an event."""
        self.seen.append(seen)
        if isinstance(seen, JobSeen):
            if seen.complete or seen.failed:
                self.ended.add(seen.name)
        elif seen.admitted:
            self._admitted.add(seen.name)

    async def create(self, http: aiohttp.ClientSession, load: Load) -> None:
        """Create all Jobs, each when it is due. RuntimeError when the API server refuses one."""
        # Encoded before the first: the bench shares its cores with what it measures.
        bodies = [json.dumps(job).encode() for job in manifests.jobs(load)]
        clock = asyncio.get_running_loop().time
        began = clock()
        waiting = iter(enumerate(bodies))

        async def worker() -> None:
            for number, body in waiting:
                if load.rate:
                    await asyncio.sleep(max(began + number / load.rate - clock(), 0.0))
                await _post(http, body)
                self._created += 1

        async with asyncio.TaskGroup() as workers:
            for _ in range(_CONNECTIONS):
                workers.create_task(worker())

    def standing(self, load: Load) -> str:
        """Return how far it is."""
        return (
            f"{self._created} of {load.jobs} Jobs created, {len(self._admitted)} admitted, "
            f"{len(self.ended)} ended"
        )


async def drive(
    kubeconfig: Path, load: Load, *, limits: Limits, gone: Gone, say: Say
) -> tuple[list[Event], str]:
    """Return what was seen, and "" or why it was not waited for all Jobs.

    `gone` returns which process ended before its time, if one did. Raises RuntimeError when a
    request fails.
    """
    # Two connections more, which the watches keep.
    async with session(kubeconfig, connections=_CONNECTIONS + 2) as http:
        versions = [await watching.newest(http, path) for path in (JOBS, WORKLOADS)]
        driver = Driver()
        reason = ""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_follow_jobs(http, versions[0], driver))
                tasks.create_task(_follow_workloads(http, versions[1], driver))
                tasks.create_task(driver.create(http, load))
                await _run_out(driver, load, limits, gone, say)
        except* _EndedError as group:
            reason = str(group.exceptions[0])
        except* (RuntimeError, aiohttp.ClientError) as group:
            raise RuntimeError(str(group.exceptions[0])) from group
        return driver.seen, reason


class _EndedError(Exception):
    """There is nothing more to wait for; the text says why, "" where all Jobs ended."""


async def _run_out(driver: Driver, load: Load, limits: Limits, gone: Gone, say: Say) -> NoReturn:
    """Raise _EndedError at the end of the run: that ends whatever else is under way."""
    began = changed = time.monotonic()
    before = ""
    while len(driver.ended) < load.jobs:
        await asyncio.sleep(_TICK_SECONDS)
        now, standing = time.monotonic(), driver.standing(load)
        if standing != before:
            before, changed = standing, now
        say(f"{standing} in {now - began:.0f} s")
        if which := gone():
            raise _EndedError(f"{which}: {standing}")
        if now - began > limits.run:
            raise _EndedError(f"ended at the limit of {limits.run:g} s: {standing}")
        if now - changed > limits.stall:
            raise _EndedError(f"stalled for {limits.stall:g} s: {standing}")
    raise _EndedError("")


async def _follow_jobs(http: aiohttp.ClientSession, version: str, driver: Driver) -> None:
    async for event in watching.events(http, JOBS, version, of=JobEvent):
        driver.take(measures.seen(event, time.monotonic()))


async def _follow_workloads(http: aiohttp.ClientSession, version: str, driver: Driver) -> None:
    async for event in watching.events(http, WORKLOADS, version, of=WorkloadEvent):
        driver.take(seen_of_workload(event, time.monotonic(), kind=CLASS))


async def _post(http: aiohttp.ClientSession, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    async with http.post(JOBS, data=body, headers=headers) as answer:
        if not answer.ok:
            raise RuntimeError(f"POST {JOBS}: {answer.status} {await answer.text()}")
        await answer.read()
