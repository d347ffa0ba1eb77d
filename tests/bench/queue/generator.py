"""`python -m tests.bench.queue.generator KUBECONFIG LOAD`: creates the Workloads, then ends.

Each stream creates one after the other, at its interval; one that is late goes on from where it
is, so that a slow API server is loaded evenly and not in bursts. aiohttp takes 0.3 ms of CPU for
each; httpx takes ten times that, which the measured ones would lack.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp
import uvloop

from tests.bench.queue import load as loads
from tests.bench.queue import manifests
from tests.bench.queue.load import Queue, WorkloadsSet
from tests.bench.queue.manifests import WORKLOADS
from tests.bench.queue.status import Status, Writes, keep_writing, write
from tests.harness.sessions import session

_CONNECTIONS = 32
_POST = "POST workloads"
_PLACEHOLDER = "name-of-the-workload"


def template(queue: Queue, kind: loads.WorkloadClass) -> Callable[[str], bytes]:
    """Return what encodes a Workload of that class by name: they differ in nothing else."""
    body = json.dumps(manifests.workload(_PLACEHOLDER, queue.name, kind))
    before, after = (part.encode() for part in body.split(_PLACEHOLDER))
    return lambda name: before + name.encode() + after


class Generator:
    """One run of it."""

    def __init__(self, http: aiohttp.ClientSession, load: loads.Load) -> None:
        self._http = http
        self._load = load
        self._writes = Writes()
        self._began = time.monotonic()

    async def run(self) -> None:
        """Create everything. RuntimeError when the API server refuses."""
        async with asyncio.TaskGroup() as streams:
            for queue in self._load.queues():
                for number, stream in enumerate(queue.settings.workloads_sets):
                    streams.create_task(self._stream(queue, stream, number))

    def status(self, *, done: bool = False) -> Status:
        """Return how far it is."""
        made = self._writes[_POST]
        return Status(
            text=f"created {made} of {self._load.workloads}",
            done=done,
            writes=dict(self._writes),
            seconds=time.monotonic() - self._began if done else 0.0,
        )

    async def _stream(self, queue: Queue, stream: WorkloadsSet, number: int) -> None:
        kinds = [(kind.class_name, template(queue, kind)) for kind in stream.workloads]
        interval = stream.creation_interval_ms / 1000
        due = time.monotonic()
        for index in range(stream.count):
            await asyncio.sleep(max(due - time.monotonic(), 0.0))
            for name, encode in kinds:
                await self._post(encode(f"{queue.name}-{name}-{number}-{index:05}"))
            due = max(due + interval, time.monotonic())

    async def _post(self, body: bytes) -> None:
        self._writes[_POST] += 1
        headers = {"Content-Type": "application/json"}
        async with self._http.post(WORKLOADS, data=body, headers=headers) as answer:
            if not answer.ok:
                raise RuntimeError(f"POST {WORKLOADS}: {answer.status} {await answer.text()}")
            await answer.read()


async def main(kubeconfig: Path, file: Path) -> None:
    """Create the load of that file."""
    async with session(kubeconfig, connections=_CONNECTIONS) as http, asyncio.TaskGroup() as group:
        generator = Generator(http, loads.read(file))
        writing = group.create_task(keep_writing(generator.status))
        await generator.run()
        writing.cancel()
        write(generator.status(done=True))


if __name__ == "__main__":
    uvloop.run(main(*map(Path, sys.argv[1:])))
