"""While the API server is slow admissions come first, and in the order of what has come by then."""

import asyncio
from dataclasses import replace

import pytest
from typing_extensions import override

from extender.controllers.admission import FIRST_DELAY
from extender.controllers.timing import CONCURRENT_WRITES, LOOK_AGAIN
from extender.state.queue.records import WorkloadInfo
from tests.makers import key
from tests.queue_makers import cluster_queue, workload
from tests.unit.controllers.queue_server import Server
from tests.unit.controllers.test_admission import LOWER, Scene, holder

pytestmark = pytest.mark.looptime


class SlowServer(Server):
    """Takes its time for reasons, and counts what it refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons, self.refused = 0, 0
        self.reasons_go_on = asyncio.Event()

    @override
    async def write_status(self, before: WorkloadInfo, after: WorkloadInfo) -> WorkloadInfo:
        if before.admission == after.admission:
            self.reasons += 1
            await self.reasons_go_on.wait()
        try:
            return await super().write_status(before, after)
        except Exception:
            self.refused += 1
            raise


class SlowScene(Scene):
    """A ClusterQueue on such a server."""

    def __init__(self, cpu: int = 1) -> None:
        self.slow = SlowServer()
        super().__init__(cpu=cpu, server=self.slow)


async def test_an_admission_waits_for_no_reason_that_is_under_way() -> None:
    scene = SlowScene()
    scene.put(holder("runs", 1, "cq"), workload("next", 1))
    async with scene.running():
        await scene.until(lambda: scene.slow.reasons)
        scene.finish("runs")
        await scene.until(lambda: scene.admitted() == {"next"})
        scene.slow.reasons_go_on.set()
        await scene.until(lambda: scene.slow.refused)
        assert scene.admitted() == {"next"}


async def test_reasons_are_written_slowly_while_admissions_wait() -> None:
    scene = SlowScene(cpu=CONCURRENT_WRITES)
    scene.slow.reasons_go_on.set()
    scene.server.go_on.clear()
    scene.put(*(workload(f"runs-{number}", 1) for number in range(CONCURRENT_WRITES)))
    scene.put(*(workload(f"waits-{number}", 1, priority=-number) for number in range(50)))
    async with scene.running():
        await asyncio.sleep(FIRST_DELAY + 3.5 * LOOK_AGAIN)
        assert 1 < scene.slow.reasons < 6
        scene.server.go_on.set()
        await asyncio.sleep(3 * LOOK_AGAIN)
        assert scene.slow.reasons == 50


async def test_what_goes_first_may_come_while_earlier_admissions_wait_to_be_written() -> None:
    """A cycle decides when its decisions can be written, or after a second."""
    scene = Scene(cpu=CONCURRENT_WRITES + 3)
    scene.server.go_on.clear()
    names = [f"early-{number}" for number in range(CONCURRENT_WRITES + 2)]
    scene.put(*(workload(name, 1) for name in names))
    async with scene.running():
        await scene.until(lambda: all(scene.view.is_assumed(key(name)) for name in names))
        scene.put(workload("late", 1))
        await asyncio.sleep(LOOK_AGAIN / 2)
        scene.put(workload("urgent", 1, priority=1))
        await asyncio.sleep(LOOK_AGAIN / 4)
        assert not scene.view.is_assumed(key("late"))
        await asyncio.sleep(LOOK_AGAIN)
        assert scene.view.is_assumed(key("urgent"))
        assert not scene.view.is_assumed(key("late"))


async def test_a_victim_that_ends_while_others_are_written_is_not_evicted() -> None:
    scene = SlowScene()
    scene.slow.reasons_go_on.set()
    low = replace(holder("low", 1, "cq"), priority=-1)
    scene.put(cluster_queue("cq", CONCURRENT_WRITES + 1, preemption=LOWER), low)
    scene.put(*(workload(f"runs-{number}", 1) for number in range(CONCURRENT_WRITES)))
    scene.server.go_on.clear()
    async with scene.running():
        await asyncio.sleep(LOOK_AGAIN)
        scene.put(workload("high", 1, priority=1))
        await asyncio.sleep(2 * LOOK_AGAIN)
        assert scene.admission.pending.preemptors.victims(key("high")) == {key("low")}
        scene.finish("low")
        scene.server.go_on.set()
        await asyncio.sleep(LOOK_AGAIN)
    assert scene.slow.refused == 0
    assert not scene.server.stored[key("low")].evicted
    assert "high" in scene.admitted()


async def test_a_victim_is_evicted_whose_admission_has_no_answer_yet() -> None:
    scene = SlowScene()
    scene.slow.reasons_go_on.set()
    scene.put(cluster_queue("cq", 1, preemption=LOWER), workload("low", 1))
    scene.server.go_on.clear()
    async with scene.running():
        await scene.until(lambda: scene.view.is_assumed(key("low")))
        scene.put(workload("high", 1, priority=1))
        await asyncio.sleep(2 * LOOK_AGAIN)
        assert scene.server.stored[key("low")].evicted
