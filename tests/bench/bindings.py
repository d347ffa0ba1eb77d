"""`python -m tests.bench.bindings`: the Bindings of a load, and nothing else.

No scheduler decides and nothing watches: what it takes is what the API server and etcd take for
these writes, which no scheduler of whole gangs can do without. It writes as the extender does, by
the same client and as many at a time.
"""

import asyncio
import signal
from collections.abc import Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import Annotated

import msgspec
import typer
import uvloop

from extender.config.settings import Settings
from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.kube.pods import PodRef, PodWriter
from extender.permit.writing_ahead import PARALLEL

READY = "begins to write"


def main(
    kubeconfig: Annotated[Path, typer.Option(exists=True)],
    namespace: Annotated[str, typer.Option()],
) -> None:
    """Bind all pods of a namespace, to all nodes in turn; then stay until SIGTERM."""
    uvloop.run(_run(kubeconfig, namespace))


async def _run(kubeconfig: Path, namespace: str) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    posts = Settings().kube.connections // 2
    async with KubeClient(await keyring(kubeconfig), posts=posts) as client:
        nodes = cycle(node["name"] for node in await _metadata(client, "/api/v1/nodes"))
        pods = await _metadata(client, f"/api/v1/namespaces/{namespace}/pods")
        todo = iter([(PodRef(namespace, pod["name"], pod["uid"]), next(nodes)) for pod in pods])
        print(READY, flush=True)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(PARALLEL):
                tasks.create_task(_write(PodWriter(client), todo))
        await ended.wait()


async def _metadata(client: KubeClient, path: str) -> list[Mapping[str, str]]:
    listed = msgspec.json.decode(await client.request("GET", path))
    return [each["metadata"] for each in listed["items"]]


async def _write(writer: PodWriter, todo: Iterator[tuple[PodRef, str]]) -> None:
    for pod, node in todo:
        await writer.bind(pod, node)


if __name__ == "__main__":
    typer.run(main)
