"""When the controllers of the queue write."""

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest
from prometheus_client import CollectorRegistry

from extender.api.wellknown import IN_USE_FINALIZER
from extender.config.settings import Settings
from extender.kube.decode import Decoder
from extender.kube.reflector import ObjectsSetAside
from extender.runtime.clock import Pacer
from extender.state.cluster.store import Cluster
from extender.state.queue import events as ev
from extender.wiring.queue import QueueControllers
from tests.makers import LoopClock
from tests.queue_makers import cluster_queue, flavor, meta
from tests.unit.kube.recorded import Recorded

pytestmark = pytest.mark.looptime


def controllers(client: Any) -> QueueControllers:
    clock = LoopClock()
    return QueueControllers(
        Settings(),
        client,
        Cluster(),
        decoder=Decoder(),
        recorder=Mock(),
        clock=clock,
        metrics=CollectorRegistry(),
        observer=Mock(),
        about_group=lambda _: None,
        pacer=Pacer(clock),
        aside=ObjectsSetAside(),
    )


async def test_what_is_applied_in_one_go_is_one_write_of_a_status() -> None:
    """`kubectl apply` of a file takes some milliseconds for each object."""
    client = Recorded()
    queue = controllers(client)
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(queue.run(after_another=False))
        await asyncio.sleep(1)
        queue.queues.apply(
            ev.Applied(cluster_queue(meta=meta("cq", finalizers=(IN_USE_FINALIZER,))))
        )
        await asyncio.sleep(0.05)
        queue.queues.apply(ev.Applied(flavor()))
        await asyncio.sleep(1)
        running.cancel()

    written = [body for _, path, body, _ in client.requests if path.endswith("/cq/status")]
    conditions = [each["status"]["conditions"][0]["status"] for each in written]
    assert conditions == ["True"]
