"""The file of a snapshot: how it is written, and how its lists are read as from an API server."""

import gzip
import re
import sys
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from extender.api.core_v1 import Stored
from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.kube.errors import NotFoundError
from extender.kube.watch import Reader
from extender.runtime.clock import Clock, SystemClock

KIND: Final = "Snapshot"
FORMAT: Final = 2
"""Grows when an older release could misread a file."""
_GZIP: Final = b"\x1f\x8b"
_IN_NAMESPACE: Final = re.compile(r"(/.+)/namespaces/([^/]+)/([^/]+)(?:/([^/]+))?")


class SnapshotError(Exception):
    """A file is no snapshot that can be read, or a process gave none."""


class ObjectList(Struct, frozen=True):
    """A list as the API server gives one, on one page."""

    items: list[Raw]
    metadata: dict[str, str] = {}


class Snapshot(Struct, frozen=True, rename="camel"):
    """The objects of a cluster, and what one process remembered, at one time.

    It answers requests for lists and objects as the API server would have.
    """

    taken_at: datetime
    lists: dict[str, Raw]
    """The lists, by path."""
    memory: dict[str, Any] = {}
    """The memory of the process, for a reader."""
    settings: dict[str, Any] = {}
    """The sections of its settings that decisions depend on."""
    kind: str = KIND
    format: int = FORMAT
    version: str = ""
    """The version of gang-extender."""

    async def request(self, method: str, path: str, *, most: int = sys.maxsize) -> bytes:
        """Return the list, or the object, at a path. Raises NotFoundError."""
        where = path.partition("?")[0]
        if where in self.lists:
            return bytes(self.lists[where])
        found = _IN_NAMESPACE.fullmatch(where)
        if found is None or f"{found[1]}/{found[3]}" not in self.lists:
            raise NotFoundError(f"{method} {where}: the snapshot has none", status=404)
        items = self._in_namespace(f"{found[1]}/{found[3]}", found[2])
        if found[4] is None:
            return msgspec.json.encode(ObjectList([*items.values()]))
        if found[4] not in items:
            raise NotFoundError(f"{method} {where}: the snapshot has none", status=404)
        return bytes(items[found[4]])

    def _in_namespace(self, path: str, namespace: str) -> Mapping[str, Raw]:
        """Return the objects of a list that are in a namespace, by name."""
        items = msgspec.json.decode(self.lists[path], type=ObjectList).items
        named = [(msgspec.json.decode(each, type=Stored).metadata, each) for each in items]
        return {meta.name: each for meta, each in named if meta.namespace == namespace}


class _Head(Struct, frozen=True):
    kind: str = ""
    format: int = 0
    version: str = ""


def load(path: Path) -> Snapshot:
    """Return the snapshot in a file, compressed or not. Raises SnapshotError and OSError."""
    data = path.read_bytes()
    try:
        data = gzip.decompress(data) if data.startswith(_GZIP) else data
        head = msgspec.json.decode(data, type=_Head)
        if head.kind == KIND and head.format == FORMAT:
            return msgspec.json.decode(data, type=Snapshot)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SnapshotError(f"{path}: it is no whole gzip file: {error}") from None
    except msgspec.MsgspecError as error:
        raise SnapshotError(f"{path}: it is no snapshot of gang-extender: {error}") from None
    if head.kind != KIND:
        raise SnapshotError(f"{path}: it is no snapshot of gang-extender")
    raise SnapshotError(
        f"{path}: it has format {head.format}, and this release reads format {FORMAT}; it was "
        f"written by gang-extender {head.version or 'of another version'}"
    )


def save(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file, compressed if its name ends with `.gz`. By default only its owner may read it.

    Raises OSError. What was there before stays until all is written. Until then the name begins
    with a dot: the kubelet ignores such files.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.partial")
    try:
        beside.touch(0o600)
        beside.write_bytes(gzip.compress(data, 6) if path.suffix == ".gz" else data)
        beside.chmod(mode)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@dataclass(slots=True)
class StoppedClock:
    """A clock that stands still until it is set."""

    began: float
    """The beginning, in seconds since the epoch."""
    now: float = 0.0
    """The time, in seconds since the beginning."""

    def monotonic(self) -> float:
        """Return the time."""
        return self.now

    def wall(self) -> float:
        """Return the time since the epoch."""
        return self.began + self.now


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """A place to read objects from, and the clock for them."""

    reader: Reader
    clock: Clock


@asynccontextmanager
async def opened(
    kubeconfig: Path | None, snapshot: Snapshot | None, context: str | None = None
) -> AsyncIterator[ObjectSource]:
    """Give a snapshot as a source, or else the API server. Raises ConfigurationError."""
    if snapshot is not None:
        yield ObjectSource(snapshot, StoppedClock(snapshot.taken_at.timestamp()))
        return
    async with KubeClient(await keyring(kubeconfig, context)) as client:
        yield ObjectSource(client, SystemClock())
