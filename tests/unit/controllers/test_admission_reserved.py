"""Workloads that hold quota and are not admitted, in the admission loop. Time is virtual."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from extender.api.wellknown import REQUIRE_ROOM_ANNOTATION
from extender.controllers.timing import LATE
from extender.kube.errors import ForbiddenError
from extender.queueing import lifecycle
from extender.queueing.cycle import ROOM_PERIOD
from extender.state.cluster.store import Cluster
from extender.state.queue.records import WorkloadInfo
from tests.makers import key, node, nodes, observe
from tests.queue_makers import admission, cluster_queue, meta, pod_set, stated, workload
from tests.unit.controllers.test_admission_room import Bench

pytestmark = pytest.mark.looptime


_STATUS = ("conditions", "admission", "requeue")


def reserving(name: str, count: int) -> WorkloadInfo:
    """Return a workload that holds quota and awaits nodes."""
    waits = workload(name, pod_set(1, count))
    held = replace(admission(waits), reserved_only=True)
    return lifecycle.reserved(waits, held, 0.0)


@asynccontextmanager
async def awaiting(cluster: Cluster, room: str = "") -> AsyncIterator[Bench]:
    """Have a workload of four pods hold quota beside one node with two CPUs."""
    observe(cluster, *nodes(2))
    bench = Bench(cluster)
    annotations = {REQUIRE_ROOM_ANNOTATION: room}
    bench.put(cluster_queue("cq", 100, meta=meta("cq", annotations=annotations)))
    bench.put(reserving("w", 4))
    task = asyncio.create_task(bench.admission.run())
    yield bench
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_admission_that_is_refused_is_tried_again_after_a_pause(cluster: Cluster) -> None:
    async with awaiting(cluster) as bench:
        bench.server.script = [ForbiddenError("no", status=403)] * 1000
        observe(cluster, node("m", 2))
        await asyncio.sleep(10)
        assert 2 <= bench.server.writes <= 6
        bench.server.script.clear()
        await asyncio.sleep(LATE)
        assert bench.server.stored[key("w")].admitted


async def test_what_its_pods_lack_is_said_soon(cluster: Cluster) -> None:
    async with awaiting(cluster, "Provision") as bench:
        assert stated(bench.server.stored[key("w")], "Admitted")[2] == lifecycle.NO_NODES
        await asyncio.sleep(1)
        lacks = "quota yes; room for 2 of 4: 2 cpu short on 1 node"
        said = stated(bench.server.stored[key("w")], "Admitted")
        assert said == ("False", "WaitingForNodes", lacks)


async def test_what_has_lost_its_quota_says_no_more_that_it_awaits_nodes(cluster: Cluster) -> None:
    async with awaiting(cluster) as bench:
        await asyncio.sleep(1)
        waits = bench.queues.view().workloads[key("w")]
        step = lifecycle.nodes_refused(waits, "no capacity", now=bench.clock.wall())
        assert step.after is not None
        after = lifecycle.released(step.after, bench.clock.wall())
        bench.server.touch(key("w"), **{n: getattr(after, n) for n in _STATUS})
        bench.watch("w")
        await asyncio.sleep(3 * ROOM_PERIOD)
        assert bench.reported("w") == "Pending: no capacity"


async def test_long_cycles_leave_time_for_others_while_nodes_change(cluster: Cluster) -> None:
    async with awaiting(cluster) as bench:
        bench.slow(1.0)
        await asyncio.sleep(1)
        before = bench.metrics.cycles
        for number in range(600):
            observe(cluster, node("m", 1, labels={"version": str(number)}))
            await asyncio.sleep(0.1)
        assert 6 <= bench.metrics.cycles - before <= 15
