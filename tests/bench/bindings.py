"""`python -m tests.bench.bindings`: the Bindings of a load, and nothing else.

No scheduler decides: what it takes is what the API server and etcd take for
these writes, which no scheduler of whole gangs can do without. It writes as the extender does, by
the same client and as many at a time.

PodGroups and pods without a node are watched, and a gang is bound as soon as all its members are
there. No scheduler of whole gangs may begin earlier.
"""

import asyncio
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Annotated

import msgspec
import typer
import uvloop

from extender.api.wellknown import GROUP_X, POD_GROUP_LABEL
from extender.config.settings import Settings
from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.kube.pods import PodRef, PodWriter
from extender.kube.watch import Apply, InitApply, InitDone, Watcher
from extender.permit.timing import PARALLEL
from extender.runtime.faults import Backoff
from tests.bench.sightings import NEW

READY = "begins to write"


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    uid: str
    labels: dict[str, str] = {}


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    min_member: int = 0


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()


class _List(msgspec.Struct, frozen=True):
    items: list[_Object]


def main(
    kubeconfig: Annotated[Path, typer.Option(exists=True)],
    namespace: Annotated[str, typer.Option()],
) -> None:
    """Bind all gangs of a namespace, to all nodes in turn, until SIGTERM."""
    uvloop.run(_run(kubeconfig, namespace))


async def _run(kubeconfig: Path, namespace: str) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    posts = Settings().kube.connections // 2
    async with KubeClient(await keyring(kubeconfig), posts=posts) as client:
        listed = msgspec.json.decode(await client.request("GET", "/api/v1/nodes"), type=_List)
        nodes = cycle([node.metadata.name for node in listed.items])
        work = asyncio.create_task(_bind(client, namespace, nodes))
        stop = asyncio.create_task(ended.wait())
        await asyncio.wait({work, stop}, return_when="FIRST_COMPLETED")
        if work.done():
            work.result()
        work.cancel()


async def _bind(client: KubeClient, namespace: str, nodes: Iterator[str]) -> None:
    """Bind what is there, and what comes, until cancelled."""
    todo = asyncio.Queue[PodRef]()
    gangs = _Gangs(namespace, todo)
    groups = f"/apis/{GROUP_X}/v1alpha1/namespaces/{namespace}/podgroups"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    listed = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_follow(client, groups, {}, gangs.group_seen, listed[0]))
        new = {"fieldSelector": NEW}
        tasks.create_task(_follow(client, pods, new, gangs.pod_seen, listed[1]))
        for each in listed:
            await each.wait()
        print(READY, flush=True)
        for _ in range(PARALLEL):
            tasks.create_task(_write_all(PodWriter(client), todo, nodes))


class _Gangs:
    """Gangs that are not whole yet; the pods of one that is are `todo`."""

    def __init__(self, namespace: str, todo: "asyncio.Queue[PodRef]") -> None:
        self._namespace, self._todo = namespace, todo
        self._sizes: dict[str, int] = {}
        self._pods: defaultdict[str, dict[str, PodRef]] = defaultdict(dict)
        self._known: set[str] = set()

    def group_seen(self, group: _Object) -> None:
        """Take in a PodGroup."""
        self._sizes[group.metadata.name] = group.spec.min_member
        self._look(group.metadata.name)

    def pod_seen(self, pod: _Object) -> None:
        """Take in a pod without a node."""
        if pod.metadata.uid in self._known:
            return
        self._known.add(pod.metadata.uid)
        gang = pod.metadata.labels.get(POD_GROUP_LABEL, "")
        self._pods[gang][pod.metadata.uid] = _ref(self._namespace, pod)
        self._look(gang)

    def _look(self, gang: str) -> None:
        size = self._sizes.get(gang)
        if size is not None and len(self._pods[gang]) >= size:
            for pod in self._pods.pop(gang).values():
                self._todo.put_nowait(pod)


async def _write_all(
    writer: PodWriter, todo: "asyncio.Queue[PodRef]", nodes: Iterator[str]
) -> None:
    while True:
        await writer.bind(await todo.get(), next(nodes))


async def _follow(
    client: KubeClient,
    path: str,
    selectors: dict[str, str],
    seen: Callable[[_Object], None],
    listed: asyncio.Event,
) -> None:
    """Call `seen` with each object that is there, and with each one that comes or changes."""
    pauses = Backoff(0.1, 5.0, jitter=lambda: 1.0)
    watcher = Watcher(client, path, sleep=asyncio.sleep, backoff=pauses, selectors=selectors)
    async for event in watcher.events():
        if isinstance(event, InitApply | Apply):
            seen(msgspec.json.decode(event.object, type=_Object))
        elif isinstance(event, InitDone):
            listed.set()


def _ref(namespace: str, pod: _Object) -> PodRef:
    return PodRef(namespace, pod.metadata.name, pod.metadata.uid)


if __name__ == "__main__":
    typer.run(main)
