"""`python -m tests.bench.queue.runner KUBECONFIG LOAD HISTORY`: runs Workloads that have no job.

An admitted Workload is finished after its runtime, an evicted one lets its quota go. What the
watch shows is recorded. Ends when all Workloads of the load are finished, or with SIGTERM.
"""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import uvloop

from tests.bench.queue import load as loads
from tests.bench.queue import measures, mimic, watching
from tests.bench.queue.manifests import WORKLOADS
from tests.bench.queue.mimic import Step
from tests.bench.queue.status import Status, Writes, keep_writing, write
from tests.bench.queue.wire import Workload, WorkloadEvent
from tests.harness.sessions import session

_CONNECTIONS = 32
_PATCH = "PATCH workloads/status"
_MERGE, _JSON = "application/merge-patch+json", "application/json-patch+json"
_CONFLICT, _MISSING = 409, 404


class Runner:
    """Mimics what jobs would do. One step of a Workload is under way at a time."""

    def __init__(self, http: aiohttp.ClientSession, tasks: asyncio.TaskGroup) -> None:
        self.writes = Writes()
        self.admissions = 0
        self.finished: set[str] = set()
        self._http = http
        self._tasks = tasks
        self._workloads: dict[str, Workload] = {}  # as last seen, but for the finished
        self._timers: dict[str, asyncio.TimerHandle] = {}  # of those that run
        self._busy: set[str] = set()  # whose quota is being released

    def take(self, event: WorkloadEvent) -> None:
        """Take in an event and begin what it asks for."""
        workload = event.object
        name = workload.metadata.name
        known = self._workloads.get(name)
        if known is not None and known.version > workload.version:
            return  # an answer of the API server was faster
        self._workloads[name] = workload
        self._act(name, Step.FORGET if event.type == "DELETED" else mimic.step(workload))

    def _act(self, name: str, step: Step) -> None:
        if step is Step.RUN:
            self._start(name)
        else:
            self._stop(name)
        if step is Step.RELEASE and name not in self._busy:
            self._busy.add(name)
            self._tasks.create_task(self._release(name))
        if step is Step.FORGET:
            del self._workloads[name]
            self.finished.add(name)

    def _start(self, name: str) -> None:
        if name in self._timers:
            return
        self.admissions += 1
        loop = asyncio.get_running_loop()
        runtime = self._workloads[name].runtime
        self._timers[name] = loop.call_later(runtime, self._due, name)

    def _stop(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer:
            timer.cancel()

    def _due(self, name: str) -> None:
        self._tasks.create_task(self._finish(name))

    async def _finish(self, name: str) -> None:
        status = await self._patch(name, mimic.finish(mimic.timestamp()), _JSON)
        if status == _CONFLICT and name in self._timers:
            self._due(name)

    async def _release(self, name: str) -> None:
        """Release the quota; a change of the Workload meanwhile is read first."""
        while (workload := self._workloads.get(name)) and mimic.step(workload) is Step.RELEASE:
            status = await self._patch(name, mimic.release(workload, mimic.timestamp()), _MERGE)
            if status == _MISSING:
                break
            await self._read(name)
        self._busy.discard(name)

    async def _patch(self, name: str, body: bytes, content_type: str) -> int:
        self.writes[_PATCH] += 1
        path, headers = f"{WORKLOADS}/{name}/status", {"Content-Type": content_type}
        async with self._http.patch(path, data=body, headers=headers) as answer:
            if not answer.ok and answer.status not in {_CONFLICT, _MISSING}:
                raise RuntimeError(f"PATCH {path}: {answer.status} {await answer.text()}")
            await answer.read()
            return answer.status

    async def _read(self, name: str) -> None:
        async with self._http.get(f"{WORKLOADS}/{name}") as answer:
            body = await answer.read()
        if answer.ok:
            self.take(WorkloadEvent("MODIFIED", msgspec.json.decode(body, type=Workload)))


async def main(kubeconfig: Path, file: Path, record: Path) -> None:
    """Run the load of that file."""
    wanted = loads.read(file).workloads
    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    with measures.Recorder(record) as recorder, contextlib.suppress(asyncio.CancelledError):
        # One connection more, which the watch keeps.
        async with (
            session(kubeconfig, connections=_CONNECTIONS + 1) as http,
            asyncio.TaskGroup() as tasks,
        ):
            version = await watching.newest(http, WORKLOADS)  # before it says that it has begun
            runner = Runner(http, tasks)
            writing = tasks.create_task(keep_writing(lambda: _status(runner, wanted)))
            await _follow(
                watching.events(http, WORKLOADS, version, of=WorkloadEvent),
                runner,
                recorder,
                wanted,
            )
            writing.cancel()
            write(_status(runner, wanted))


async def _follow(
    events: AsyncIterator[WorkloadEvent], runner: Runner, recorder: measures.Recorder, wanted: int
) -> None:
    async for event in events:
        recorder.add(measures.seen(event, time.monotonic()))
        runner.take(event)
        if len(runner.finished) >= wanted:
            return


def _status(runner: Runner, wanted: int) -> Status:
    finished = len(runner.finished)
    return Status(
        text=f"{runner.admissions} admissions, {finished} of {wanted} finished",
        done=finished >= wanted,
        writes=dict(runner.writes),
    )


if __name__ == "__main__":
    uvloop.run(main(*map(Path, sys.argv[1:])))
