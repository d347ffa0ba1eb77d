"""When each pod got its node, or was there, by the API server: a watch in a thread of its own.

The server filters by `spec.nodeName` and sends metadata only, so that a pod costs the bench
one small event, whatever else happens to it. A young API server has room for some ten events per
watcher and closes the watch of one that is late (the bench may well wait for a core): it is then
continued where it ended.
"""

import time
from pathlib import Path
from typing import Self

import aiohttp
import msgspec

from tests.bench.load import NAMESPACE, fits
from tests.harness.background import Background
from tests.harness.sessions import session

_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
ON_NODE = "spec.nodeName!="
NEW = "spec.nodeName="
"""Without a node: as a pod is when it is created."""
_HEADERS = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
_CONNECT_SECONDS = 30.0


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    name: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata


class _Event(msgspec.Struct):
    type: str
    object: _Object


class _List(msgspec.Struct):
    metadata: _Metadata


class Sightings:
    """Monotonic times at which pods were first seen `ON_NODE`, or `NEW`.

    Use as a context manager: it looks while that is open.
    """

    def __init__(self, kubeconfig: Path, *, fields: str) -> None:
        self.interruptions = 0
        self._fields = fields
        self._kubeconfig = kubeconfig
        self._seen: dict[str, float] = {}
        self._strays: dict[str, float] = {}  # of gangs that cannot fit
        self._background = Background("the watch of pods", self._watch)

    def __enter__(self) -> Self:
        self._background.start(_CONNECT_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._background.stop()

    def count(self) -> int:
        """Return how many pods of gangs that fit were seen; RuntimeError when the watch broke."""
        self._background.check()
        return len(self._seen)

    def times(self) -> dict[str, float]:
        """Return a copy, by name of the pod, of the gangs that fit."""
        return dict(self._seen)

    def strays(self) -> set[str]:
        """Return the pods that got a node although their gangs cannot fit."""
        return set(self._strays)

    async def _watch(self) -> None:
        async with session(self._kubeconfig) as http:
            version = await self._newest(http)
            while True:
                version = await self._watch_from(http, version)
                self.interruptions += 1

    async def _newest(self, http: aiohttp.ClientSession) -> str:
        async with http.get(_PATH, params={"limit": "1"}) as answer:
            answer.raise_for_status()
            return msgspec.json.decode(await answer.read(), type=_List).metadata.resource_version

    async def _watch_from(self, http: aiohttp.ClientSession, version: str) -> str:
        """Return the resourceVersion of the last event before the API server closed the watch."""
        params = {"watch": "true", "fieldSelector": self._fields, "resourceVersion": version}
        decoder = msgspec.json.Decoder(_Event)
        async with http.get(_PATH, params=params, headers=_HEADERS) as answer:
            answer.raise_for_status()
            self._background.began()
            async for line in answer.content:
                now = time.monotonic()
                event = decoder.decode(line)
                if event.type == "ERROR":
                    raise RuntimeError(line.decode())
                version = event.object.metadata.resource_version
                name = event.object.metadata.name
                (self._seen if fits(name) else self._strays).setdefault(name, now)
        return version
