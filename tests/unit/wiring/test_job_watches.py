"""The watches of batch Jobs."""

import asyncio
import json
from typing import Any, NoReturn

import pytest

from extender.api.wellknown import POD_GROUP_LABEL, QUEUE_LABEL
from extender.jobs import registry
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.errors import NotFoundError
from extender.runtime.clock import Pacer, SystemClock
from extender.state.cluster.store import Cluster
from extender.state.queue.store import Queues
from extender.wiring.queue import Sources

QUEUED = {QUEUE_LABEL: "queue"}


def job(name: str, version: int, *, labels: dict[str, str] | None = None, **spec: Any) -> bytes:
    """Return a Job whose pods are members of the PodGroup of its name."""
    pods = {"metadata": {"labels": {POD_GROUP_LABEL: name}}}
    meta = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}
    return json.dumps({
        "metadata": {**meta, "labels": labels or {}},
        "spec": {"parallelism": 2, "template": pods, **spec},
    }).encode()  # fmt: skip


class Vanished:
    """An API server that lists a Job, and does not have the resource from then on."""

    def __init__(self, *pages: bytes) -> None:
        self._pages = [*pages]

    async def request(self, _method: str, _path: str, **_: object) -> bytes:
        """Return the next page."""
        if not self._pages:
            raise NotFoundError("no such resource", status=404)
        return self._pages.pop(0)

    def stream(self, _path: str, *, idle_seconds: float) -> NoReturn:
        """Refuse a watch."""
        raise NotFoundError(f"no such resource for {idle_seconds} s", status=404)


async def test_jobs_outlive_a_resource_that_seems_to_be_gone() -> None:
    """Every cluster has batch Jobs: a 404 is an error, which makes the watch stale."""
    page = b'{"metadata": {"resourceVersion": "5"}, "items": [%s]}' % job("q", 1, labels=QUEUED)
    sources, queues = sources_of(Vanished(page))
    [reflector] = [each for each in sources.reflectors if each.kind == "jobs of batch/job"]
    pauses = iter(range(3))

    async def sleep(_seconds: float) -> None:
        if next(pauses, None) is None:
            raise asyncio.CancelledError

    reflector._watcher._sleep = sleep
    with pytest.raises(asyncio.CancelledError):
        await reflector.run(Pacer(SystemClock()))

    assert [each.meta.name for each in queues.view().jobs.values()] == ["q"]
    assert "no such resource" in reflector.freshness.trouble


def sources_of(client: Any) -> tuple[Sources, Queues]:
    """Return the sources of the queue with a client, and the state that they feed."""
    queues = Queues()
    sources = Sources(
        client,
        queues,
        QueueDecoder(Decoder()),
        cluster=Cluster(),
        integrations=registry.select(None),
        job_selector=QUEUE_LABEL,
    )
    return sources, queues
