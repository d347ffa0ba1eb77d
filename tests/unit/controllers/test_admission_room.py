"""When workloads that lack room are tried again, and get other numbers. Time is virtual."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from extender.controllers.admission import FIRST_ROOM_PAUSE, AdmissionLoop
from extender.controllers.workload import Workloads
from extender.fit.room_left import RoomLeft
from extender.kube.queues import WorkloadWriter
from extender.kube.recorder import Event
from extender.queueing import cycle
from extender.queueing.admission import ROOM_PERIOD
from extender.queueing.cycle import Outcome
from extender.queueing.options import AdmissionOptions
from extender.queueing.rules import AdmissionRules
from extender.room.nodes import NodeRoom
from extender.state.cluster.store import Cluster
from extender.state.queue import events as ev
from extender.state.queue.records import Meta, NamespaceInfo, WorkloadInfo
from extender.state.queue.store import Queues
from extender.telemetry.queue_metrics import QueueMetrics
from tests.makers import NAMESPACE, LoopClock, key, node, nodes, observe
from tests.queue_makers import cluster_queue, flavor, local_queue, meta, pod_set, workload

pytestmark = pytest.mark.looptime


class Writer(WorkloadWriter):
    """Stores what it is given, in a new version."""

    def __init__(self) -> None:
        pass

    @override
    async def write_status(self, before: WorkloadInfo, after: WorkloadInfo) -> WorkloadInfo:
        version = meta("any").version
        return replace(after, meta=replace(before.meta, version=version))

    @override
    async def read(self, meta: Meta) -> WorkloadInfo:
        raise AssertionError(meta)

    @override
    async def create(self, workload: dict[str, Any]) -> WorkloadInfo:
        raise AssertionError(workload)

    @override
    async def patch(self, meta: Meta, change: Mapping[str, Any]) -> WorkloadInfo:
        raise AssertionError(meta, change)

    @override
    async def delete(self, meta: Meta) -> None:
        raise AssertionError(meta)


class Clock(LoopClock):
    """The loop's time, and what a test lets pass besides."""

    late = 0.0

    @override
    def monotonic(self) -> float:
        return super().monotonic() + self.late


class Metrics(QueueMetrics):
    """Keeps when cycles ran that looked at a workload."""

    def __init__(self) -> None:
        self.cycles: list[float] = []

    @override
    def cycle(self, seconds: float, outcomes: tuple[Outcome, ...]) -> None:
        if outcomes:
            self.cycles.append(asyncio.get_running_loop().time())

    @override
    def admitted(self, workload: WorkloadInfo, cluster_queue: str, *, waited: float) -> None:
        pass

    @override
    def preempted(self, preempting_cluster_queue: str, reason: str) -> None:
        pass


class Bench:
    def __init__(self, cluster: Cluster) -> None:
        options = AdmissionOptions(require_room=True)
        self.cluster, self.queues, self.metrics = cluster, Queues(), Metrics()
        self.events: list[Event] = []
        self.clock = Clock()
        self.room = NodeRoom(self.queues.view(), cluster.view())
        self.admission = AdmissionLoop(
            self.queues,
            Workloads(self.queues, Writer()),
            record=self.events.append,
            clock=self.clock,
            rules=AdmissionRules(options, self.room),
            metrics=self.metrics,
        )
        self.queues.subscribe(self.admission.on_change)
        cluster.watch_room(self.admission.on_room)
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

    def reported(self, name: str) -> str:
        found = self.queues.view().workloads[key(name)].condition("QuotaReserved")
        return f"{found.reason}: {found.message}" if found else ""


@asynccontextmanager
async def waiting(cluster: Cluster) -> AsyncIterator[Bench]:
    """Have a workload of four pods wait for room beside one node with two CPUs."""
    observe(cluster, *nodes(2))
    bench = Bench(cluster)
    task = asyncio.create_task(bench.admission.run())
    bench.put("w", 4)
    await asyncio.sleep(1)
    yield bench
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_workload_without_room_is_tried_when_there_is_some(cluster: Cluster) -> None:
    async with waiting(cluster) as bench:
        assert (
            bench.reported("w")
            == "WaitingForRoom: quota yes; room for 2 of 4: 2 cpu short on 1 node"
        )
        observe(bench.cluster, node("m", 2))
        await asyncio.sleep(1)
        assert bench.reported("w").startswith("QuotaReserved: ")


async def test_many_changes_are_one_try(cluster: Cluster) -> None:
    async with waiting(cluster) as bench:
        before = len(bench.metrics.cycles)
        for number in range(9):
            observe(bench.cluster, node("m", 1, labels={"version": str(number)}))
            await asyncio.sleep(FIRST_ROOM_PAUSE / 10)
        await asyncio.sleep(1)
        assert len(bench.metrics.cycles) == before + 1


async def test_without_a_change_it_is_tried_now_and_then(cluster: Cluster) -> None:
    async with waiting(cluster) as bench:
        before = len(bench.metrics.cycles)
        await asyncio.sleep(10 * ROOM_PERIOD)
        assert 9 <= len(bench.metrics.cycles) - before <= 10


async def test_other_numbers_are_written_after_a_while_and_without_an_event(
    cluster: Cluster,
) -> None:
    async with waiting(cluster) as bench:
        events = len(bench.events)
        observe(bench.cluster, node("m", 1))
        await asyncio.sleep(1)
        assert bench.reported("w").endswith("room for 2 of 4: 2 cpu short on 1 node")
        await asyncio.sleep(30)
        assert bench.reported("w").endswith("room for 3 of 4: 1 cpu short on 2 nodes")
        assert len(bench.events) == events


async def test_no_workload_with_room_is_tried_for_room(cluster: Cluster) -> None:
    async with waiting(cluster) as bench:
        observe(bench.cluster, node("m", 2))
        await asyncio.sleep(1)
        before = len(bench.metrics.cycles)
        observe(bench.cluster, node("m", 3))
        await asyncio.sleep(10 * ROOM_PERIOD)
        assert len(bench.metrics.cycles) == before


async def test_room_that_comes_while_it_is_asked_for_is_not_missed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    take = RoomLeft.take

    def growing(self: RoomLeft, *given: Any) -> Any:
        if not asked:
            observe(cluster, node("m", 2))
        asked.append(given)
        return take(self, *given)

    monkeypatch.setattr(RoomLeft, "take", growing)
    observe(cluster, *nodes(2))
    bench = Bench(cluster)
    task = asyncio.create_task(bench.admission.run())
    bench.put("w", 4)
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert bench.reported("w").startswith("QuotaReserved: ")


async def test_the_last_of_many_is_tried_while_nodes_change_all_the_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle, "ROUNDS", 1)
    async with waiting(cluster) as bench:
        for number in range(200):
            bench.put(f"large{number}", 3 + number)
        bench.put("small", 1)
        for number in range(600):
            observe(cluster, node("m", 0, labels={"version": str(number)}))
            await asyncio.sleep(FIRST_ROOM_PAUSE / 2)
            if bench.reported("small").startswith("QuotaReserved: "):
                return
        raise AssertionError("it never was its turn")


async def test_what_comes_while_others_are_tried_is_not_forgotten(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle, "ROUNDS", 1)
    async with waiting(cluster) as bench:
        for number in range(60):
            bench.put(f"large{number}", 5 + number)
        await asyncio.sleep(ROOM_PERIOD)
        observe(cluster, node("some", 1))
        await asyncio.sleep(
            2 * FIRST_ROOM_PAUSE
        )  # the first have been tried, and the last have not
        observe(cluster, node("enough", 1))
        await asyncio.sleep(1)
        assert bench.reported("w").startswith("QuotaReserved: ")


async def test_the_pause_is_longer_than_what_it_takes_to_try_all(cluster: Cluster) -> None:
    async with waiting(cluster) as bench:
        for number in range(5 * cycle.ROUNDS):
            bench.put(f"large{number}", 5 + number)
        await asyncio.sleep(10)
        bench.slow(0.05)
        before = len(bench.metrics.cycles)
        for number in range(1000):
            observe(cluster, node("m", 0, labels={"version": str(number)}))
            await asyncio.sleep(FIRST_ROOM_PAUSE / 2)
        # Six cycles of 0.05 s, and five times as long nothing: some thirty times in 50 s.
        assert 120 < len(bench.metrics.cycles) - before < 300
