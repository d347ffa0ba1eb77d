"""Keeps the ledger of one control plane: watches of pods and nodes, in a thread of its own."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar

import aiohttp
import msgspec

from extender.runtime.process import deep_stack
from tests.harness.background import Background
from tests.harness.books.admissions import Flavor, Job, Workload
from tests.harness.books.ledger import DELETED, Findings, Ledger, Metadata, Node, Pod
from tests.harness.client import Api, ApiError, Object
from tests.harness.sessions import session

_ON_NODES: Final = "spec.nodeName!="
_PAUSE_SECONDS: Final = 0.1
_START_SECONDS: Final = 120.0
_SETTLE_SECONDS: Final = 120.0
_GONE: Final = 410

_QUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
_NONE_SECONDS: Final = 1.0
"""Between two looks for a kind whose CRD is not there."""

T = TypeVar("T", bound=Pod | Node | Workload | Flavor | Job)


class _List(msgspec.Struct, Generic[T]):
    metadata: Metadata
    items: list[T]


class _Watched(msgspec.Struct):
    """An event before it is known whether it has an object of the kind."""

    type: str
    object: msgspec.Raw


_decode_watched = msgspec.json.Decoder(_Watched).decode


class _Head(msgspec.Struct):
    metadata: Metadata = Metadata()
    code: int = 0


class _LostError(Exception):
    """The API server has forgotten the events from that version on."""


class _Watch(Generic[T]):
    """Lists the objects of a kind and follows what happens to them, without end."""

    def __init__(
        self,
        path: str,
        of: type[T],
        *,
        fields: str = "",
        listed: Callable[[Sequence[T]], None],
        changed: Callable[[str, T], None],
    ) -> None:
        self._path = path
        self._fields = {"fieldSelector": fields} if fields else {}
        self._decode_list = msgspec.json.Decoder(_List[of]).decode  # type: ignore[valid-type]
        self._decode = msgspec.json.Decoder(of).decode
        self._listed, self._changed = listed, changed
        self.lists = 0

    async def run(self, http: aiohttp.ClientSession, begun: Callable[[], None]) -> None:
        """Follow the objects. An API server that is away is asked again."""
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list(http)
                    begun()
                version = await self._follow(http, version)
            except _LostError:
                version = ""
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _list(self, http: aiohttp.ClientSession) -> str:
        async with http.get(self._path, params=self._fields) as answer:
            if answer.status == HTTPStatus.NOT_FOUND:
                await asyncio.sleep(_NONE_SECONDS)
            answer.raise_for_status()
            text = await answer.read()
        with deep_stack():  # the API server takes Workloads that are nested very deep
            found: _List[T] = self._decode_list(text)
        self._listed(found.items)
        self.lists += 1
        return found.metadata.resource_version

    async def _follow(self, http: aiohttp.ClientSession, version: str) -> str:
        """Return the version of the last event before the API server closed the watch."""
        params = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        async with http.get(self._path, params={**params, **self._fields}) as answer:
            if answer.status == _GONE:
                raise _LostError
            answer.raise_for_status()
            try:
                async for line in answer.content:
                    version = self._note(line)
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(_PAUSE_SECONDS)
            finally:
                # Nothing is sent any more, and the end need not be agreed on.
                if answer.connection is not None and answer.connection.transport is not None:
                    answer.connection.transport.abort()
        return version

    def _note(self, line: bytes) -> str:
        """Pass an event on; return its version."""
        with deep_stack():
            return self._noted(_decode_watched(line))

    def _noted(self, event: _Watched) -> str:
        if event.type in {"ERROR", "BOOKMARK"}:
            return _version(event)
        found = self._decode(event.object)
        self._changed(event.type, found)
        return found.metadata.resource_version


def _version(event: _Watched) -> str:
    head = msgspec.json.decode(event.object, type=_Head)
    if event.type == "BOOKMARK":
        return head.metadata.resource_version
    if head.code == _GONE:
        raise _LostError
    raise RuntimeError(f"a watch of the ledger ended: {bytes(event.object).decode()}")


class Bookkeeper:
    """A ledger that follows a cluster while the context is open."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._ledger = ledger = Ledger()
        self._nodes = _Watch("/api/v1/nodes", Node, listed=ledger.listed_nodes, changed=ledger.node)
        self._pods = _Watch(
            "/api/v1/pods", Pod, fields=_ON_NODES, listed=ledger.listed, changed=ledger.pod
        )
        told = ledger.admissions
        self._told: list[_Watch[Any]] = [
            _follow(f"{_QUEUE}/workloads", Workload, told.workload),
            _follow(f"{_QUEUE}/resourceflavors", Flavor, told.flavor),
            _follow("/apis/batch/v1/jobs", Job, told.job),
        ]
        self._background = Background("the watch of the books", self._run)

    def __enter__(self) -> Self:
        self._background.start(_START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._background.stop()

    @property
    def cpu_seconds(self) -> float:
        """CPU that the books took."""
        return self._background.cpu_seconds

    @property
    def gaps(self) -> int:
        """How often events were lost, so that something may have been missed."""
        return max(0, self._pods.lists - 1)

    @property
    def bound(self) -> int:
        """How many Bindings showed."""
        return self._ledger.bound

    def settle(self, api: Api) -> None:
        """Return when the books show the pods that there are. AssertionError when they do not."""

        def settled() -> bool:
            there = {
                pod["metadata"]["uid"]: int(pod["metadata"]["resourceVersion"])
                for pod in api.list("pods", fields=_ON_NODES)
            }
            return there == self._background.answer(self._ledger.versions)

        api.wait_for("the books show all pods", settled, _SETTLE_SECONDS)

        def told() -> bool:
            there = {
                each["metadata"]["uid"]: int(each["metadata"]["resourceVersion"])
                for each in _workloads(api)
            }
            return there == self._background.answer(lambda: dict(self._ledger.admissions.versions))

        api.wait_for("the books show all workloads", told, _SETTLE_SECONDS)

    def ask(self) -> Findings:
        """Return what was found since this was asked last."""
        return self._background.answer(self._ledger.ask)

    def partial(self, sizes: Mapping[str, int]) -> list[str]:
        """Return the groups, as NAMESPACE/NAME, with members on nodes but fewer than they need."""
        return self._background.answer(lambda: self._ledger.partial(sizes))

    async def _run(self) -> None:
        async with (
            session(self._kubeconfig, connections=2 + len(self._told)) as http,
            asyncio.TaskGroup() as tasks,
        ):
            known = asyncio.Event()
            tasks.create_task(self._nodes.run(http, known.set))
            for watch in self._told:
                tasks.create_task(watch.run(http, lambda: None))
            await known.wait()  # pods are judged by what their nodes have
            tasks.create_task(self._pods.run(http, self._background.began))


def _follow(path: str, of: type[T], tell: Callable[..., None]) -> _Watch[T]:
    """Return a watch of objects, each of which is told about when it is there or has changed."""

    def changed(kind: str, found: T) -> None:
        if isinstance(found, Workload):
            tell(found, deleted=kind == DELETED)
        else:
            tell(found)

    def listed(found: Sequence[T]) -> None:
        for each in found:
            changed("", each)

    return _Watch(path, of, listed=listed, changed=changed)


def _workloads(api: Api) -> Sequence[Object]:
    try:
        return api.list(f"{_QUEUE.removeprefix('/apis/')}/workloads")
    except ApiError:
        return ()  # a control plane without the queue
