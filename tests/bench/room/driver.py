"""Keeps Jobs waiting, ends the pods of those that have run for long enough, and records.

A gang of which some pods are missing does no work, so a runtime begins when all pods of a Job run,
and a pod does not end by itself.
"""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import aiohttp

from tests.bench.queue import watching
from tests.bench.queue.wire import PodEvent, WorkloadEvent
from tests.bench.room import manifests
from tests.bench.room.backlog import Backlog
from tests.bench.room.load import JobClass, Load
from tests.bench.room.manifests import JOBS, PODS, WORKLOADS, class_of
from tests.bench.room.measures import (
    Pods,
    PodSeen,
    Seen,
    WorkloadSeen,
    seen_of_pod,
    seen_of_workload,
)
from tests.harness.sessions import session

_CONNECTIONS = 32
_JSON, _STRATEGIC = "application/json", "application/strategic-merge-patch+json"
_GONE = 404
_SETTLE_SECONDS = 1.0  # what happened in the window may be seen a little later
_TICK_SECONDS = 0.2

_DONE = json.dumps(
    {
        "status": {
            "phase": "Succeeded",
            "conditions": [
                {"type": kind, "status": "False", "reason": "PodCompleted"}
                for kind in ("Ready", "ContainersReady")
            ],
        }
    }
).encode()
_DELETE = json.dumps({"propagationPolicy": "Background"}).encode()

Say = Callable[[str], None]


class Driver:
    """One run of it. All of its requests are tasks of a group: one that fails ends the run."""

    def __init__(self, http: aiohttp.ClientSession, tasks: asyncio.TaskGroup, load: Load) -> None:
        self.seen: list[Seen] = []
        self.first: float | None = None  # admission
        self.finished = 0
        self._http = http
        self._tasks = tasks
        self._load = load
        self._backlog = Backlog(load)
        self._pods: dict[str, Pods] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}  # of Jobs that work
        self._deleted: set[str] = set()
        self._slots = asyncio.Semaphore(_CONNECTIONS)

    def fill(self) -> None:
        """Make the Jobs that are missing."""
        for kind, number in list(self._backlog.missing()):
            self._tasks.create_task(self._create(kind, number))

    def workload(self, event: WorkloadEvent) -> None:
        """Take in an event of a Workload."""
        seen = seen_of_workload(event, time.monotonic())
        if not seen.job:
            return
        self.seen.append(seen)
        self._backlog.take(seen)
        if seen.admitted and self.first is None:
            self.first = seen.time
        if seen.finished and seen.job not in self._deleted:
            self.finished += 1
            self._deleted.add(seen.job)
            self._tasks.create_task(self._delete(seen))
        self.fill()

    def pod(self, event: PodEvent) -> None:
        """Take in an event of a pod."""
        seen = seen_of_pod(event, time.monotonic())
        if not seen.job:
            return
        self.seen.append(seen)
        self._look(seen)

    @property
    def made(self) -> int:
        """How many Jobs were made."""
        return self._backlog.made

    def standing(self) -> str:
        """Return how far it is."""
        since = 0.0 if self.first is None else time.monotonic() - self.first
        return (
            f"{self.made} Jobs made, {self.finished} finished, "
            f"{since:.0f} of {self._load.window_seconds:g} s"
        )

    def _look(self, seen: PodSeen) -> None:
        """Begin the runtime of a Job when all of its pods run, and forget it when one is gone."""
        kind = self._load.kind(class_of(seen.job))
        pods = self._pods.setdefault(seen.job, Pods(kind.pods))
        pods.take(seen)
        if not pods.names:
            del self._pods[seen.job]
        timer = self._timers.get(seen.job)
        if timer is None and pods.all_running:
            loop = asyncio.get_running_loop()
            self._timers[seen.job] = loop.call_later(kind.runtime, self._end, seen.job)
        elif timer is not None and seen.gone:
            timer.cancel()
            del self._timers[seen.job]

    def _end(self, job: str) -> None:
        for name in self._pods[job].names:
            self._tasks.create_task(self._succeed(name))

    async def _create(self, kind: JobClass, number: int) -> None:
        body = json.dumps(manifests.job(kind, number)).encode()
        await self._send("POST", JOBS, body, _JSON)

    async def _succeed(self, pod: str) -> None:
        await self._send("PATCH", f"{PODS}/{pod}/status", _DONE, _STRATEGIC)

    async def _delete(self, seen: WorkloadSeen) -> None:
        await self._send("DELETE", f"{JOBS}/{seen.job}", _DELETE, _JSON)

    async def _send(self, method: str, path: str, body: bytes, content_type: str) -> None:
        headers = {"Content-Type": content_type}
        async with (
            self._slots,
            self._http.request(method, path, data=body, headers=headers) as answer,
        ):
            if not answer.ok and answer.status != _GONE:
                raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
            await answer.read()


async def drive(kubeconfig: Path, load: Load, *, begin_seconds: float, say: Say) -> list[Seen]:
    """Run a load for its window and return what was seen.

    Raises RuntimeError when no Job is admitted for so many seconds, or a request fails.
    """
    # Two connections more, which the watches keep.
    async with session(kubeconfig, connections=_CONNECTIONS + 2) as http:
        versions = [await watching.newest(http, path) for path in (WORKLOADS, PODS)]
        seen: list[Seen] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                driver = Driver(http, tasks, load)
                seen = driver.seen
                tasks.create_task(_follow_workloads(http, versions[0], driver))
                tasks.create_task(_follow_pods(http, versions[1], driver))
                driver.fill()
                await _run_out(driver, load, begin_seconds=begin_seconds, say=say)
        except* _EndedError:
            pass
        except* (RuntimeError, aiohttp.ClientError) as group:
            raise RuntimeError(str(group.exceptions[0])) from group
        return seen


class _EndedError(Exception):
    """The window is over."""


async def _run_out(driver: Driver, load: Load, *, begin_seconds: float, say: Say) -> NoReturn:
    """Raise _EndedError at the end of the window: that ends whatever else is under way."""
    began = time.monotonic()
    while driver.first is None:
        say(driver.standing())
        await asyncio.sleep(_TICK_SECONDS)
        if time.monotonic() - began > begin_seconds:
            raise RuntimeError(f"no Job was admitted within {begin_seconds:g} s")
    while time.monotonic() - driver.first < load.window_seconds + _SETTLE_SECONDS:
        say(driver.standing())
        if driver.made >= load.most_jobs:
            raise RuntimeError(f"all {load.most_jobs} Jobs were made before the window was over")
        await asyncio.sleep(_TICK_SECONDS)
    raise _EndedError


async def _follow_workloads(http: aiohttp.ClientSession, version: str, driver: Driver) -> None:
    async for event in watching.events(http, WORKLOADS, version, of=WorkloadEvent):
        driver.workload(event)


async def _follow_pods(http: aiohttp.ClientSession, version: str, driver: Driver) -> None:
    async for event in watching.events(http, PODS, version, of=PodEvent):
        driver.pod(event)
