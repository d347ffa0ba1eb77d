"""`python -m tests.bench.extender.scheduler ARGUMENTS`: a stand-in for kube-scheduler.

It asks the extender as kube-scheduler does: filter with the names of a sample of nodes, prioritize
where more than one is left, and bind, which runs beside the next scheduling cycle. Pods that it
sees bound it drops; one that it sees bound during its cycle ends in an error, as it does in
kube-scheduler, with a condition and an Event. What it learns of the cluster comes as lines from the
stand-in for the API server, because how kube-scheduler reads objects is not measured here.
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass

import msgspec
import uvloop

from tests.bench.extender.sample import Nodes
from tests.bench.extender.scene import (
    NAMESPACE,
    SCHEDULER_NAME,
    Objects,
    Scene,
    node_name,
    node_number,
    pod_name,
    pod_uid,
)
from tests.bench.extender.scheduling_queue import SchedulingQueue
from tests.bench.extender.wire import Pool, connect, request

_CREATED = "2026-01-01T00:00:00Z"
_TOP_SCORE = 100
_TOP_POINTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What the process is started with, as JSON."""

    scene: Scene
    extender_port: int
    api_port: int


@dataclass(slots=True)
class Counts:
    """What the process did, and when it began to."""

    first_filter: float = 0.0
    filters: int = 0
    prioritizes: int = 0
    binds: int = 0
    refused: int = 0
    """Filters that left no node."""
    failed: int = 0
    """Binds that were answered with an error."""
    collisions: int = 0
    """Pods that were bound by another during their cycle."""


class _FilterResult(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    node_names: list[str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] = {}
    failed_nodes: dict[str, str] = {}
    error: str = ""


class _HostPriority(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    host: str
    score: int


class _BindingResult(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    error: str = ""


_decode_filter = msgspec.json.Decoder(_FilterResult).decode
_decode_priorities = msgspec.json.Decoder(list[_HostPriority]).decode
_decode_bind = msgspec.json.Decoder(_BindingResult).decode


class Scheduler:
    """One scheduling cycle after the other, until all pods have nodes."""

    def __init__(self, arguments: Arguments) -> None:
        self._scene = scene = arguments.scene
        self._objects, self._nodes = Objects(scene), Nodes(scene)
        self._queue = SchedulingQueue(time.monotonic)
        self._assumed: dict[int, int] = {}
        """Nodes of pods whose bind is on its way."""
        self._bound: set[int] = set()
        self._cycles = Pool(arguments.extender_port)
        self._bindings = Pool(arguments.extender_port)
        self._api = Pool(arguments.api_port)
        self._news = asyncio.Event()
        self._said: dict[int, str] = {}
        """Why a pod has no node, as it was written last."""
        self._recorded = 0
        self._rest = b""
        self.counts = Counts()

    async def run(self) -> None:
        """Return when all pods have nodes."""
        async with asyncio.TaskGroup() as tasks:
            while len(self._bound) < self._scene.pods:
                number = self._queue.pop()
                if number is None:
                    await self._wait()
                else:
                    await self._cycle(number, tasks)

    def heard(self, piece: bytes) -> None:
        """Take lines of the stand-in for the API server."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._take(*line.split())
            self._news.set()

    def _take(self, *words: bytes) -> None:
        """Take the words of a line: a gang came, a pod has a node, or a pod was touched."""
        match words:
            case b"gang", gang:
                self._heard_gang(int(gang))
            case b"bound", number, node:
                self._heard_bound(int(number), int(node))
            case b"touched", number:
                self._queue.wake(int(number))
            case _:
                raise ValueError(words)

    def _heard_gang(self, gang: int) -> None:
        for number in self._scene.of(gang):
            self._queue.add(number)

    def _heard_bound(self, number: int, node: int) -> None:
        assumed = self._assumed.pop(number, None)
        if assumed != node:
            if assumed is not None:
                self._nodes.give_back(assumed)
            self._nodes.take(node)
        self._bound.add(number)
        self._queue.remove(number)
        self._queue.move()

    async def _wait(self) -> None:
        """Return when there is news, or a pod has waited for its backoff."""
        self._news.clear()
        try:
            async with asyncio.timeout(self._queue.seconds()):
                await self._news.wait()
        except TimeoutError:
            return

    async def _cycle(self, number: int, tasks: asyncio.TaskGroup) -> None:
        """Look for a node for a pod, and begin to bind it."""
        names = self._nodes.sample()
        if not names:
            self._queue.refuse(number)
            return
        asked = self._objects.asked(number, created=_CREATED)
        self.counts.filters += 1
        self.counts.first_filter = self.counts.first_filter or time.monotonic()
        found = _decode_filter(await self._cycles.post("/filter", _args(asked, names)))
        if not found.node_names:
            self.counts.refused += 1
            tasks.create_task(self._say_refused(number, found))
            self._put_back(number, failed=bool(found.error))
            return
        node = await self._best(asked, found.node_names)
        if not self._queue.has(number):
            self.counts.collisions += 1
            text = f"pod {pod_uid(number)} is in the cache, so can't be assumed"
            tasks.create_task(self._say(number, "SchedulerError", text))
            return
        self._assumed[number] = node
        self._nodes.take(node)
        tasks.create_task(self._bind(number, node))

    def _put_back(self, number: int, *, failed: bool) -> None:
        """Have a pod tried again, but not one that has a node by now."""
        if number in self._bound:
            return
        if failed:
            self._queue.fail(number)
        else:
            self._queue.refuse(number)

    async def _best(self, asked: bytes, names: list[str]) -> int:
        """Return the node with most points: the extender's, and those for room that is left."""
        if len(names) == 1:
            return node_number(names[0])
        self.counts.prioritizes += 1
        quoted = b",".join(b'"%s"' % name.encode() for name in names)
        answer = await self._cycles.post("/prioritize", _args(asked, quoted))
        points = {each.host: each.score for each in _decode_priorities(answer)}
        most = max(self._nodes.free(name) for name in names)

        def score(name: str) -> float:
            room = _TOP_SCORE * self._nodes.free(name) / most if most > 0 else 0.0
            return room + points.get(name, 0) * _TOP_SCORE / _TOP_POINTS

        return node_number(max(names, key=score))

    async def _bind(self, number: int, node: int) -> None:
        self.counts.binds += 1
        body = {
            "PodName": pod_name(self._scene, number),
            "PodNamespace": NAMESPACE,
            "PodUID": pod_uid(number),
            "Node": node_name(node),
        }
        answer = await self._bindings.post("/bind", json.dumps(body).encode())
        error = _decode_bind(answer).error
        if not error:
            note = f"Successfully assigned {NAMESPACE}/{body['PodName']} to {body['Node']}"
            await self._record(number, "Scheduled", note)
            return
        self.counts.failed += 1
        if self._assumed.pop(number, None) is not None:
            self._nodes.give_back(node)
            self._put_back(number, failed=True)
            self._queue.move()
            self._news.set()
        await self._say(number, "SchedulerError", error)

    async def _say_refused(self, number: int, found: _FilterResult) -> None:
        """Write why a pod has no node, as the extender has answered."""
        refused = {**found.failed_and_unresolvable_nodes, **found.failed_nodes}
        text = found.error or next(iter(refused.values()), "")
        message = f"0/{self._scene.nodes} nodes are available: {len(refused)} {text}."
        await self._say(number, "SchedulerError" if found.error else "Unschedulable", message)

    async def _say(self, number: int, reason: str, message: str) -> None:
        """Write the pod's condition and an Event, as kube-scheduler does for one without a node.

        What it has written last it does not write again.
        """
        if self._said.get(number) == message:
            return
        self._said[number] = message
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
        }
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod_name(self._scene, number)}/status"
        body = json.dumps({"status": {"conditions": [condition]}}).encode()
        await self._record(number, "FailedScheduling", message)
        await self._api.post(path, body, method="PATCH")

    async def _record(self, number: int, reason: str, note: str) -> None:
        self._recorded += 1
        name = pod_name(self._scene, number)
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{self._recorded:x}", "namespace": NAMESPACE},
            "reportingController": SCHEDULER_NAME,
            "regarding": {"kind": "Pod", "name": name, "uid": pod_uid(number)},
            "reason": reason,
            "type": "Normal" if reason == "Scheduled" else "Warning",
            "note": note,
        }
        path = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
        await self._api.post(path, json.dumps(event).encode())


def _args(pod: bytes, names: bytes) -> bytes:
    return b'{"Pod":%s,"Nodes":null,"NodeNames":[%s]}' % (pod, names)


async def main(arguments: Arguments) -> None:
    """Schedule all pods and say what that took."""
    scheduler = Scheduler(arguments)
    watch = await connect(arguments.api_port, scheduler.heard)
    watch.send(request("GET", "/bench/watch"))
    await scheduler.run()
    await Pool(arguments.api_port).post(
        "/bench/ended", json.dumps(asdict(scheduler.counts)).encode()
    )


if __name__ == "__main__":
    uvloop.run(main(msgspec.json.decode(sys.argv[1], type=Arguments)))
