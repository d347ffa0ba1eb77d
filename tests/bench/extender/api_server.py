"""`python -m tests.bench.extender.api_server ARGUMENTS`: a stand-in for the API server.

It lists and watches what `serve` reads, takes what is written, and answers at once. It proves
nothing about behaviour, for which there is a real one: here one process is measured alone, and
everything around it must cost less than it does. The extender comes by TLS, as to a real one; the
stand-in for kube-scheduler and the benchmark come by a port of their own.
"""

import asyncio
import json
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
import uvloop

from extender.api.wellknown import POD_GROUP_GROUPS
from tests.bench.extender.ledger import Ledger
from tests.bench.extender.scene import SCHEDULER_NAME, Objects, Scene, node_number, pod_uid
from tests.bench.extender.wire import Connection

PODS: Final = "/api/v1/pods"
NODES: Final = "/api/v1/nodes"
JOBS: Final = "/apis/batch/v1/jobs"
POD_GROUPS: Final = f"/apis/{POD_GROUP_GROUPS[0]}/v1alpha1/podgroups"
_BOOKMARK_SECONDS: Final = 30.0
_DONE: Final = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What the process is started with, as JSON."""

    scene: Scene
    tls_port: int
    port: int
    certificate: str
    key: str


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    uid: str = ""


class _Target(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class _Binding(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata
    target: _Target


class _Event(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An Event of events.k8s.io."""

    reason: str = ""
    reporting_controller: str = ""
    regarding: _Metadata = _Metadata()


_decode_binding = msgspec.json.Decoder(_Binding).decode
_decode_event = msgspec.json.Decoder(_Event).decode


class StandIn:
    """The objects of a scene, and what becomes of them."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._objects = scene, Objects(scene)
        self.ledger = Ledger(scene)
        self._version = 1
        self._created: list[str] = []
        """When each gang came, by its number."""
        self._versions: dict[int, int] = {}
        """Of pods that came."""
        self._texts: dict[int, str] = {}
        """Why a pod has no node, as kube-scheduler wrote it, in JSON without its quotes."""
        self._watches: dict[str, list[Connection]] = {}
        self._schedulers: list[Connection] = []
        self._writes: Counter[str] = Counter()
        """Those of the extender, and kube-scheduler's conditions."""
        self._events: Counter[str] = Counter()
        """By who wrote them, and why."""
        self._scheduled: Counter[str] = Counter()
        """Events of that reason, by UID of the pod."""
        self._began = self._last = self._last_event = 0.0
        self._counts: Any = None

    def answer(self, client: Connection, method: str, target: str, body: bytes) -> None:
        """Answer a request."""
        path, _, query = target.partition("?")
        match path:
            case "/bench/begin":
                self._begin(client)
            case "/bench/watch":
                self._follow(client)
            case "/bench/ended":
                self._keep(client, body)
            case "/bench/state":
                self._say_state(client)
            case _ if method == "GET":
                self._read(client, path, query)
            case _:
                self._write(client, method, path, body)

    def bookmarks(self) -> None:
        """Send every watch the version that it is at, as an API server does once a minute."""
        meta = {"metadata": {"resourceVersion": str(self._version)}}
        line = json.dumps({"type": "BOOKMARK", "object": meta}).encode() + b"\n"
        for clients in self._watches.values():
            for client in clients:
                client.chunk(line)

    # -- reading

    def _read(self, client: Connection, path: str, query: str) -> None:
        options = parse_qs(query)
        if "watch" in options:
            client.stream()
            clients = self._watches.setdefault(path, [])
            clients[:] = [each for each in clients if each.is_open] + [client]
        elif found := self._pod(path):
            client.send(self._shown(found))
        else:
            first, limit = (int(options.get(name, ["0"])[0]) for name in ("continue", "limit"))
            client.send(self._page(path, first, limit or sys.maxsize))

    def _page(self, path: str, first: int, limit: int) -> bytes:
        count, make = self._collection(path)
        after = min(first + limit, count)
        meta = {"resourceVersion": str(self._version)}
        if after < count:
            meta["continue"] = str(after)
        items = b",".join(make(number) for number in range(first, after))
        return b'{"metadata":%s,"items":[%s]}' % (json.dumps(meta).encode(), items)

    def _collection(self, path: str) -> tuple[int, Callable[[int], bytes]]:
        """Return how many objects a resource has, and what makes one by its place in the list."""
        scene, objects = self._scene, self._objects
        gangs, before = len(self._created), scene.running_gangs

        def of_gang(
            runs: Callable[[int], bytes], came: Callable[..., bytes]
        ) -> Callable[[int], bytes]:
            return lambda place: runs(place) if place < before else self._made(came, place - before)

        def pod(place: int) -> bytes:
            comes = place - scene.running
            return objects.running(place) if comes < 0 else self._shown(comes)

        return {
            NODES: (scene.nodes, objects.node),
            PODS: (scene.running + gangs * scene.size, pod),
            POD_GROUPS: (before + gangs, of_gang(objects.running_group, objects.group)),
            JOBS: (before + gangs, of_gang(objects.running_job, objects.job)),
        }.get(path, (0, objects.node))

    def _made(self, came: Callable[..., bytes], gang: int) -> bytes:
        return came(gang, version=self._version, created=self._created[gang])

    def _pod(self, path: str) -> int | None:
        """Return the number of the pod that came and that a path names."""
        parts = path.split("/")
        return self._scene.number(parts[6]) if len(parts) > 6 and parts[5] == "pods" else None

    def _shown(self, number: int) -> bytes:
        created = self._created[self._scene.gang_of(number)]
        version = self._versions.get(number, 1)
        node = self.ledger.nodes.get(number)
        if node is not None:
            return self._objects.bound(number, version=version, created=created, node=node)
        text = self._texts.get(number, "")
        return self._objects.waiting(number, version=version, created=created, text=text)

    # -- writing

    def _write(self, client: Connection, method: str, path: str, body: bytes) -> None:
        number = self._pod(path)
        if number is not None and path.endswith("/binding"):
            self._writes["bindings"] += 1
            self._bind(client, number, _decode_binding(body))
            return
        if path.endswith("/events"):
            self._note_event(_decode_event(body))
        else:
            self._writes[_kind(method, path)] += 1
        if number is None:
            client.send(body if body.startswith(b"{") else _DONE, 201 if method == "POST" else 200)
            return
        if path.endswith("/status"):
            self._say(number, json.loads(body))
        self._changed(number)
        client.send(self._shown(number))
        if not path.endswith("/status"):
            self._notify(b"touched %d" % number)

    def _bind(self, client: Connection, number: int, binding: _Binding) -> None:
        node = node_number(binding.target.name)
        if binding.metadata.uid not in ("", pod_uid(number)):
            client.send(b'{"kind":"Status","code":409,"message":"another UID"}', 409)
            return
        if not self.ledger.bind(number, node):
            client.send(b'{"kind":"Status","code":409,"message":"it has a node"}', 409)
            return
        self._last = time.monotonic()
        client.send(_DONE, 201)
        self._changed(number)
        self._notify(b"bound %d %d" % (number, node))
        self._create()

    def _say(self, number: int, body: dict[str, Any]) -> None:
        for condition in body.get("status", {}).get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                self._texts[number] = json.dumps(condition["message"])[1:-1]

    def _note_event(self, event: _Event) -> None:
        self._last_event = time.monotonic()
        whose = "kube-scheduler" if event.reporting_controller == SCHEDULER_NAME else "extender"
        self._events[f"{whose}: {event.reason}"] += 1
        if event.reason == "Scheduled":
            self._scheduled[event.regarding.uid] += 1

    def _changed(self, number: int) -> None:
        self._version += 1
        self._versions[number] = self._version
        self._show(PODS, b"MODIFIED", self._shown(number))

    def _show(self, path: str, kind: bytes, raw: bytes) -> None:
        for client in self._watches.get(path, ()):
            client.chunk(b'{"type":"%s","object":%s}\n' % (kind, raw))

    def _notify(self, line: bytes) -> None:
        for client in self._schedulers:
            client.chunk(line + b"\n")

    def _create(self) -> None:
        """Make gangs come while fewer than so many wait."""
        if not self._began:
            return
        scene, ledger = self._scene, self.ledger
        while len(self._created) < min(scene.gangs, ledger.whole + scene.ahead):
            gang = len(self._created)
            self._created.append(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
            self._version += 1
            self._show(JOBS, b"ADDED", self._made(self._objects.job, gang))
            self._show(POD_GROUPS, b"ADDED", self._made(self._objects.group, gang))
            for number in scene.of(gang):
                self._version += 1
                self._versions[number] = self._version
                self._show(PODS, b"ADDED", self._shown(number))
            self._notify(b"gang %d" % gang)

    # -- what the benchmark and the stand-in for kube-scheduler ask for

    def _begin(self, client: Connection) -> None:
        """Have the first gangs come."""
        self._began = time.monotonic()
        self._create()
        client.send(b"{}")

    def _follow(self, client: Connection) -> None:
        """Stream gangs that come, and pods that get a node or are touched, a line for each."""
        client.stream()
        self._schedulers = [each for each in self._schedulers if each.is_open] + [client]
        for gang in range(len(self._created)):
            client.chunk(b"gang %d\n" % gang)

    def _keep(self, client: Connection, body: bytes) -> None:
        """Keep what the stand-in for kube-scheduler counted."""
        self._counts = json.loads(body)
        client.send(b"{}")

    def _say_state(self, client: Connection) -> None:
        """Say how far it is."""
        twice = sum(count > 1 for count in self._scheduled.values())
        events = [f"{twice} pods have two Events Scheduled"] if twice else []
        found = {
            "bound": len(self.ledger.nodes),
            "began": self._began,
            "last_bound": self._last,
            "last_event": self._last_event,
            "events": dict(self._events),
            "unannounced": sum(pod_uid(each) not in self._scheduled for each in self.ledger.nodes),
            "writes": dict(self._writes),
            "scheduler": self._counts,
            "faults": [*self.ledger.faults(), *events],
        }
        client.send(json.dumps(found).encode())


def _kind(method: str, path: str) -> str:
    """Return what is written, such as `PATCH pods/status`."""
    parts = path.split("/")
    at = parts.index("namespaces") + 2 if "namespaces" in parts else 3
    return f"{method} {'/'.join(part for n, part in enumerate(parts[at:]) if n != 1)}"


async def main(arguments: Arguments) -> None:
    """Serve until the process is ended."""
    loop, stand_in = asyncio.get_running_loop(), StandIn(arguments.scene)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(arguments.certificate, arguments.key)

    def connection() -> Connection:
        return Connection(stand_in.answer)

    await loop.create_server(connection, "127.0.0.1", arguments.tls_port, ssl=tls, backlog=1024)
    await loop.create_server(connection, "127.0.0.1", arguments.port, backlog=1024)
    while True:
        await asyncio.sleep(_BOOKMARK_SECONDS)
        stand_in.bookmarks()


if __name__ == "__main__":
    uvloop.run(main(msgspec.json.decode(sys.argv[1], type=Arguments)))
