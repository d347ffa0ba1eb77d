"""When who lacks room is tried again, and told other numbers. Time is virtual."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from extender.controllers.admitter import ROOM_PAUSE, ROOM_ROUND, Admitter
from extender.controllers.workload_writer import Workloads
from extender.kube.recorder import Event
from extender.queueing.cycle import Outcome
from extender.queueing.options import Options
from extender.room.nodes import NodeRoom
from extender.room.packing import Packing
from extender.state.cluster import Cluster
from extender.state.queues import events as ev
from extender.state.queues.records import Meta, NamespaceInfo, WorkloadInfo
from extender.state.queues.store import Queues
from tests.makers import NAMESPACE, LoopClock, key, node, nodes, tell
from tests.queue_makers import cluster_queue, flavor, local_queue, meta, pod_set, workload

pytestmark = pytest.mark.looptime


class Writer:
    """Stores what it is given, in a new version."""

    async def write_status(self, before: WorkloadInfo, after: WorkloadInfo) -> WorkloadInfo:
        version = meta("any").version
        return replace(after, meta=replace(before.meta, version=version))

    async def read(self, meta: Meta) -> WorkloadInfo:
        raise AssertionError(meta)

    async def create(self, workload: dict[str, Any]) -> WorkloadInfo:
        raise AssertionError(workload)

    async def patch(self, meta: Meta, change: Mapping[str, Any]) -> WorkloadInfo:
        raise AssertionError(meta, change)

    async def delete(self, meta: Meta) -> None:
        raise AssertionError(meta)


class Clock(LoopClock):
    """The loop's time, and what is told to have passed besides."""

    late = 0.0

    @override
    def monotonic(self) -> float:
        return super().monotonic() + self.late


class Metrics:
    """Keeps when cycles ran that looked at somebody."""

    def __init__(self) -> None:
        self.cycles: list[float] = []

    def cycle(self, _: float, outcomes: tuple[Outcome, ...]) -> None:
        if outcomes:
            self.cycles.append(asyncio.get_running_loop().time())

    def admitted(self, workload: WorkloadInfo, cluster_queue: str, *, waited: float) -> None:
        pass

    def preempted(self, preempting_cluster_queue: str, reason: str) -> None:
        pass


class Bench:
    def __init__(self, cluster: Cluster, heads: int = 16) -> None:
        options = Options(require_room=True, heads_per_queue=heads)
        self.cluster, self.queues, self.metrics = cluster, Queues(), Metrics()
        self.events: list[Event] = []
        self.clock = Clock()
        self.admitter = Admitter(
            self.queues,
            Workloads(self.queues, Writer()),
            record=self.events.append,
            clock=self.clock,
            options=options,
            metrics=self.metrics,
        )
        self.room = self.admitter.room = NodeRoom(self.queues.snapshot(), cluster.snapshot())
        self.queues.subscribe(self.admitter.on_change)
        cluster.watch_room(self.admitter.on_room)
        for record in (NamespaceInfo(NAMESPACE), flavor(), cluster_queue("cq", 100), local_queue()):
            self.queues.apply(ev.Applied(record))

    def slow(self, seconds: float) -> None:
        """Have each cycle take so long; the clock goes on, and the loop's time does not."""
        begin = self.room.begin

        def late() -> None:
            self.clock.late += seconds
            begin()

        self.room.begin = late  # type: ignore[method-assign]

    def put(self, name: str, count: int) -> None:
        self.queues.apply(ev.Applied(workload(name, pod_set(1, count))))

    def told(self, name: str) -> str:
        found = self.queues.snapshot().workloads[key(name)].condition("QuotaReserved")
        return f"{found.reason}: {found.message}" if found else ""


@asynccontextmanager
async def waiting(cluster: Cluster, heads: int = 16) -> AsyncIterator[Bench]:
    """Have a workload of four pods wait for room beside one node with two CPUs."""
    tell(cluster, *nodes(2))
    bench = Bench(cluster, heads)
    task = asyncio.create_task(bench.admitter.run())
    bench.put("w", 4)
    await asyncio.sleep(1)
    yield bench
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_who_lacks_room_is_tried_when_there_is_some(cluster: Cluster) -> None:
    async with waiting(cluster) as bench:
        assert (
            bench.told("w") == "WaitingForRoom: quota yes; room for 2 of 4: 2 cpu short on 1 node"
        )
        tell(bench.cluster, node("m", 2))
        await asyncio.sleep(1)
        assert bench.told("w").startswith("QuotaReserved: ")


async def test_many_changes_are_one_try(cluster: Cluster) -> None:
    async with waiting(cluster) as bench:
        before = len(bench.metrics.cycles)
        for number in range(9):
            tell(bench.cluster, node("m", 1, labels={"version": str(number)}))
            await asyncio.sleep(ROOM_PAUSE / 10)
        await asyncio.sleep(1)
        assert len(bench.metrics.cycles) == before + 1


async def test_without_a_change_it_is_tried_now_and_then(cluster: Cluster) -> None:
    async with waiting(cluster) as bench:
        before = len(bench.metrics.cycles)
        await asyncio.sleep(10 * ROOM_ROUND)
        assert 9 <= len(bench.metrics.cycles) - before <= 10


async def test_other_numbers_are_told_after_a_while_and_without_an_event(cluster: Cluster) -> None:
    async with waiting(cluster) as bench:
        events = len(bench.events)
        tell(bench.cluster, node("m", 1))
        await asyncio.sleep(1)
        assert bench.told("w").endswith("room for 2 of 4: 2 cpu short on 1 node")
        await asyncio.sleep(30)
        assert bench.told("w").endswith("room for 3 of 4: 1 cpu short on 2 nodes")
        assert len(bench.events) == events


async def test_nobody_is_tried_for_room_who_has_it(cluster: Cluster) -> None:
    async with waiting(cluster) as bench:
        tell(bench.cluster, node("m", 2))
        await asyncio.sleep(1)
        before = len(bench.metrics.cycles)
        tell(bench.cluster, node("m", 3))
        await asyncio.sleep(10 * ROOM_ROUND)
        assert len(bench.metrics.cycles) == before


async def test_room_that_comes_while_it_is_asked_for_is_not_missed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, slack = [], Packing._slack

    def growing(self: Packing, *given: Any) -> float:
        if not asked:
            tell(cluster, node("m", 2))
        asked.append(given)
        return slack(self, *given)

    monkeypatch.setattr(Packing, "_slack", growing)
    tell(cluster, *nodes(2))
    bench = Bench(cluster)
    task = asyncio.create_task(bench.admitter.run())
    bench.put("w", 4)
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert bench.told("w").startswith("QuotaReserved: ")


async def test_the_last_of_many_is_tried_while_nodes_change_all_the_time(cluster: Cluster) -> None:
    async with waiting(cluster, heads=1) as bench:
        for number in range(200):
            bench.put(f"large{number}", 3 + number)
        bench.put("small", 1)
        for number in range(600):
            tell(cluster, node("m", 0, labels={"version": str(number)}))
            await asyncio.sleep(ROOM_PAUSE / 2)
            if bench.told("small").startswith("QuotaReserved: "):
                return
        raise AssertionError("it never was its turn")


async def test_what_comes_while_others_are_tried_is_not_forgotten(cluster: Cluster) -> None:
    async with waiting(cluster, heads=1) as bench:
        for number in range(60):
            bench.put(f"large{number}", 5 + number)
        await asyncio.sleep(ROOM_ROUND)
        tell(cluster, node("some", 1))
        await asyncio.sleep(2 * ROOM_PAUSE)  # the first have been tried, and the last have not
        tell(cluster, node("enough", 1))
        await asyncio.sleep(1)
        assert bench.told("w").startswith("QuotaReserved: ")


async def test_the_pause_is_longer_than_what_it_takes_to_try_all(cluster: Cluster) -> None:
    async with waiting(cluster) as bench:
        for number in range(5 * Options().heads_per_queue):
            bench.put(f"large{number}", 5 + number)
        await asyncio.sleep(10)
        bench.slow(0.05)
        before = len(bench.metrics.cycles)
        for number in range(1000):
            tell(cluster, node("m", 0, labels={"version": str(number)}))
            await asyncio.sleep(ROOM_PAUSE / 2)
        # Six cycles of 0.05 s, and five times as long nothing: some thirty times in 50 s.
        assert 120 < len(bench.metrics.cycles) - before < 300
