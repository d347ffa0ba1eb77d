"""When each pod got its node, or was there, by the API server: a watch in a thread of its own.

The server filters by `spec.nodeName` and sends metadata only, so that a pod costs the bench
one small event, whatever else happens to it.
"""

import time
from pathlib import Path
from typing import Self

import msgspec

from tests.bench import watching
from tests.bench.load import NAMESPACE, fits
from tests.harness.background import Background
from tests.harness.sessions import session

_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
ON_NODE = "spec.nodeName!="
NEW = "spec.nodeName="
"""Without a node: as a pod is when it is created."""
_CONNECT_SECONDS = 30.0


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    name: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata


class _Event(msgspec.Struct):
    type: str
    object: _Object


class Sightings:
    """Monotonic times at which pods were first seen `ON_NODE`, or `NEW`.

    Use as a context manager: it looks while that is open.
    """

    def __init__(self, kubeconfig: Path, *, fields: str) -> None:
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
            version = await watching.newest(http, _PATH)
            self._background.began()
            async for event in watching.events(
                http, _PATH, version, of=_Event, fields=self._fields, metadata_only=True
            ):
                name = event.object.metadata.name
                (self._seen if fits(name) else self._strays).setdefault(name, time.monotonic())
