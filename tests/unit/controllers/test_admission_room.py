"""When workloads that lack room are tried again, and get other numbers. Time is virtual."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from typing_extensions import override

from extender.controllers.admission import FIRST_ROOM_PAUSE
from extender.fit.candidates import RoomLeft
from extender.queueing import cycle
from extender.queueing.cycle import ROOM_PERIOD
from extender.queueing.rules import AdmissionOptions
from extender.state.cluster.store import Cluster
from tests.makers import LoopClock, key, node, nodes, observe
from tests.queue_makers import pod_set, workload
from tests.unit.controllers.test_admission import Scene

pytestmark = pytest.mark.looptime


class Clock(LoopClock):
    """The loop's time, and what a test lets pass besides."""

    late = 0.0

    @override
    def monotonic(self) -> float:
        return super().monotonic() + self.late


class Bench(Scene):
    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.clock = cluster, Clock()
        options = AdmissionOptions(require_room=True)
        super().__init__(options, cpu=100, clock=self.clock, cluster=cluster)

    def slow(self, seconds: float) -> None:
        """Have each cycle take so long; the clock goes on, and the loop's time does not."""
        begin = self.room.begin

        def late() -> None:
            self.clock.late += seconds
            begin()

        self.room.begin = late

    def ask(self, name: str, count: int) -> None:
        self.put(workload(name, pod_set(1, count)))

    def reported(self, name: str) -> str:
        found = self.queues.view().workloads[key(name)].condition("QuotaReserved")
        return f"{found.reason}: {found.message}" if found else ""


@asynccontextmanager
async def waiting(cluster: Cluster) -> AsyncIterator[Bench]:
    """Have a workload of four pods wait for room beside one node with two CPUs."""
    observe(cluster, *nodes(2))
    bench = Bench(cluster)
    task = asyncio.create_task(bench.admission.run())
    bench.ask("w", 4)
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
        before = bench.metrics.tries
        for number in range(9):
            observe(bench.cluster, node("m", 1, labels={"version": str(number)}))
            await asyncio.sleep(FIRST_ROOM_PAUSE / 10)
        await asyncio.sleep(1)
        assert bench.metrics.tries == before + 1


async def test_without_a_change_it_is_tried_now_and_then(cluster: Cluster) -> None:
    async with waiting(cluster) as bench:
        before = bench.metrics.tries
        await asyncio.sleep(10 * ROOM_PERIOD)
        assert 9 <= bench.metrics.tries - before <= 10


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
        before = bench.metrics.tries
        observe(bench.cluster, node("m", 3))
        await asyncio.sleep(10 * ROOM_PERIOD)
        assert bench.metrics.tries == before


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
    async with waiting(cluster) as bench:
        assert bench.reported("w").startswith("QuotaReserved: ")


async def test_the_last_of_many_is_tried_while_nodes_change_all_the_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle, "ROUNDS", 1)
    async with waiting(cluster) as bench:
        for number in range(200):
            bench.ask(f"large{number}", 3 + number)
        bench.ask("small", 1)
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
            bench.ask(f"large{number}", 5 + number)
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
            bench.ask(f"large{number}", 5 + number)
        await asyncio.sleep(10)
        bench.slow(0.05)
        before = bench.metrics.tries
        for number in range(1000):
            observe(cluster, node("m", 0, labels={"version": str(number)}))
            await asyncio.sleep(FIRST_ROOM_PAUSE / 2)
        # Six cycles of 0.05 s, and five times as long nothing: some thirty times in 50 s.
        assert 120 < bench.metrics.tries - before < 300


async def test_nodes_are_read_only_for_a_workload_that_has_quota(cluster: Cluster) -> None:
    async with waiting(cluster) as bench:
        observe(bench.cluster, node("m", 200))
        await asyncio.sleep(1)
        read, prepare = list[int](), bench.room.prepare

        def counted() -> Iterator[None]:
            read.append(1)
            yield from prepare()

        bench.room.prepare = counted
        bench.ask("large", 101)
        await asyncio.sleep(1)
        assert (bench.reported("large").partition(":")[0], read) == ("ExceedsMaxQuota", [])
        bench.ask("small", 1)
        await asyncio.sleep(1)
        assert read
