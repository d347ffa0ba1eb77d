"""Keeps Jobs waiting, ends the pods of those that have run for long enough, and records.

A gang of which some pods are missing does no work, so a runtime begins when all pods of a Job run,
and a pod does not end by itself.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from typing_extensions import override

from tests.bench.queue.driving import Driver
from tests.bench.queue.manifests import WORKLOADS
from tests.bench.queue.wire import PodEvent, WorkloadEvent
from tests.bench.room import manifests
from tests.bench.room.backlog import Backlog
from tests.bench.room.load import JobClass, Load
from tests.bench.room.manifests import JOBS, PODS, class_of
from tests.bench.room.measures import (
    Pods,
    PodSeen,
    Seen,
    WorkloadSeen,
    seen_of_pod,
    seen_of_workload,
)

_STRATEGIC = "application/strategic-merge-patch+json"
_BEGIN_SECONDS = 60.0
_SETTLE_SECONDS = 1.0  # what happened in the window may be seen a little later

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


class RoomDriver(Driver):
    """One run of it."""

    def __init__(self, http: aiohttp.ClientSession, tasks: asyncio.TaskGroup, load: Load) -> None:
        super().__init__(http, tasks)
        self.seen: list[Seen] = []
        self._began = time.monotonic()
        self._first: float | None = None  # admission
        self._finished = 0
        self._load = load
        self._backlog = Backlog(load)
        self._pods: dict[str, Pods] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}  # of Jobs that work
        self._deleted: set[str] = set()

    @override
    def watched(self) -> Mapping[str, tuple[type[Any], Callable[[Any], None]]]:
        return {WORKLOADS: (WorkloadEvent, self._workload), PODS: (PodEvent, self._pod)}

    @override
    def standing(self) -> str:
        since = 0.0 if self._first is None else time.monotonic() - self._first
        return (
            f"{self._backlog.made} Jobs made, {self._finished} finished, "
            f"{since:.0f} of {self._load.window_seconds:g} s"
        )

    @override
    def done(self) -> bool:
        now, load = time.monotonic(), self._load
        if self._first is None:
            if now - self._began > _BEGIN_SECONDS:
                raise RuntimeError(f"no Job was admitted within {_BEGIN_SECONDS:g} s")
            return False
        if now - self._first >= load.window_seconds + _SETTLE_SECONDS:
            return True
        if self._backlog.made >= load.most_jobs:
            raise RuntimeError(f"all {load.most_jobs} Jobs were made before the window was over")
        return False

    @override
    def begin(self) -> None:
        """Make the Jobs that are missing."""
        for kind, number in list(self._backlog.missing()):
            self.tasks.create_task(self._create(kind, number))

    def _workload(self, event: WorkloadEvent) -> None:
        seen = seen_of_workload(event, time.monotonic())
        if not seen.job:
            return
        self.seen.append(seen)
        self._backlog.take(seen)
        if seen.admitted and self._first is None:
            self._first = seen.time
        if seen.finished and seen.job not in self._deleted:
            self._finished += 1
            self._deleted.add(seen.job)
            self.tasks.create_task(self._delete(seen))
        self.begin()

    def _pod(self, event: PodEvent) -> None:
        seen = seen_of_pod(event, time.monotonic())
        if not seen.job:
            return
        self.seen.append(seen)
        self._look(seen)

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
            self.tasks.create_task(self._succeed(name))

    async def _create(self, kind: JobClass, number: int) -> None:
        body = json.dumps(manifests.job(kind, number)).encode()
        await self.send("POST", JOBS, body)

    async def _succeed(self, pod: str) -> None:
        await self.send("PATCH", f"{PODS}/{pod}/status", _DONE, _STRATEGIC)

    async def _delete(self, seen: WorkloadSeen) -> None:
        await self.send("DELETE", f"{JOBS}/{seen.job}", _DELETE)
