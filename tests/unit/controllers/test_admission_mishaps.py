"""What is decided in a cycle holds, or is decided again, whatever happens in the middle of it."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from extender.controllers.timing import SETTLE
from extender.kube.errors import UnknownOutcomeError
from extender.queueing.cycle import ROOM_PERIOD, Admit, Cycle, NotAdmitted, Outcome, Preempt, Result
from extender.queueing.pending import PendingQueues
from extender.runtime.controller import WorkQueue
from extender.runtime.faults import FAULTS
from extender.state.queue import events as ev
from extender.state.queue.records import WorkloadInfo
from tests.makers import key
from tests.queue_makers import (
    cluster_queue,
    condition,
    local_queue,
    validate_queues,
    workload,
)
from tests.unit.controllers.test_admission import LOWER, Scene, holder
from tests.unit.controllers.test_admission_slices import WorkingClock

pytestmark = pytest.mark.looptime


def interrupt(
    monkeypatch: pytest.MonkeyPatch, when: Callable[[Outcome], bool], do: Callable[[], object]
) -> list[Outcome]:
    """Call `do` once, after the first decision of which `when` holds; return all decisions."""
    decided: list[Outcome] = []
    called: list[bool] = []
    original = Cycle.pieces

    def pieces(cycle: Cycle) -> Iterator[Outcome | None]:
        for piece in original(cycle):
            if piece is not None:
                decided.append(piece)
            yield piece
            if piece is not None and when(piece) and not called:
                called.append(True)
                do()

    monkeypatch.setattr(Cycle, "pieces", pieces)
    return decided


def in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each piece of a cycle followed by a turn of the loop."""
    monkeypatch.setattr("extender.controllers.admission.SLICE_SECONDS", 0.0)


def preempting_scene(cpu: int, *workloads: WorkloadInfo) -> Scene:
    scene = Scene(cpu=cpu)
    scene.put(cluster_queue("cq", cpu, preemption=LOWER), *workloads)
    return scene


def low(name: str, cpu: int = 1) -> WorkloadInfo:
    return replace(holder(name, cpu, "cq"), priority=0)


def delete(scene: Scene, name: str) -> None:
    scene.queues.apply(ev.Deleted(scene.server.stored.pop(key(name))))


def evicted(scene: Scene, name: str) -> bool:
    return scene.server.stored[key(name)].evicted


def is_preempt(outcome: Outcome) -> bool:
    return isinstance(outcome, Preempt)


async def test_no_workload_is_evicted_for_one_that_got_quota_later_in_the_cycle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_slices(monkeypatch)
    ends = replace(holder("ends", 1, "cq"), priority=500)
    scene = preempting_scene(2, low("stays"), ends, workload("a", 1, priority=100))
    decided = interrupt(monkeypatch, is_preempt, lambda: scene.finish("ends"))
    async with scene.running():
        await asyncio.sleep(10)
    assert [type(each) for each in decided] == [Preempt, Admit]
    assert scene.admitted() == {"a", "stays"}
    assert not evicted(scene, "stays")


async def test_no_workload_is_evicted_for_one_that_was_deleted_later_in_the_cycle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_slices(monkeypatch)
    scene = preempting_scene(1, low("stays"), workload("a", 1, priority=100))
    decided = interrupt(monkeypatch, is_preempt, lambda: delete(scene, "a"))
    async with scene.running():
        await asyncio.sleep(10)
    assert list(map(type, decided)) == [Preempt]
    assert not evicted(scene, "stays")


async def test_one_that_is_being_admitted_again_is_a_victim_like_any_other() -> None:
    once = replace(low("again"), admission=None, conditions=(condition("Evicted", "Preempted"),))
    scene = preempting_scene(1, once)
    scene.server.go_on.clear()
    async with scene.running():
        await scene.until(lambda: scene.server.writes)
        scene.put(workload("a", 1, priority=100))
        await asyncio.sleep(1)
        scene.server.go_on.set()
        await scene.until(lambda: scene.admitted() == {"a"})


async def test_a_workload_that_counts_on_the_victim_of_a_deleted_one_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_slices(monkeypatch)
    first, second = workload("a", 1, priority=101), workload("b", 1, priority=100)
    scene = preempting_scene(2, low("victim", 2), first, second)

    def counts_on_it(outcome: Outcome) -> bool:
        return isinstance(outcome, NotAdmitted) and outcome.workload == key("b")

    decided = interrupt(monkeypatch, counts_on_it, lambda: delete(scene, "a"))
    async with scene.running():
        await asyncio.sleep(10)
    assert list(map(type, decided))[:2] == [Preempt, NotAdmitted]
    assert evicted(scene, "victim")


def fail() -> None:
    raise KeyError("bug")


async def test_admissions_of_a_slice_that_fails_are_decided_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(cpu=3)
    scene.add("a", "b", "c")
    interrupt(monkeypatch, lambda outcome: isinstance(outcome, Admit), fail)
    async with scene.running():
        await asyncio.sleep(3 * ROOM_PERIOD)
    assert scene.admitted() == {"a", "b", "c"}


@pytest.mark.parametrize("slices", [True, False])
async def test_preemptions_of_a_cycle_that_fails_are_decided_again(
    monkeypatch: pytest.MonkeyPatch, slices: bool
) -> None:
    if slices:
        in_slices(monkeypatch)
    scene = preempting_scene(1, low("victim"), workload("a", 1, priority=100))
    interrupt(monkeypatch, is_preempt, fail)
    async with scene.running():
        await asyncio.sleep(3 * ROOM_PERIOD)
    assert evicted(scene, "victim")


async def test_a_look_at_all_that_always_fails_does_not_stop_admissions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    monkeypatch.setattr(PendingQueues, "requeue_all", lambda *_: fail())
    scene.put(cluster_queue("cq", 2))
    scene.add("a")
    async with scene.running():
        await asyncio.sleep(3 * ROOM_PERIOD)
    assert scene.admitted() == {"a"}


async def test_a_workload_without_a_place_keeps_a_change_of_queues_from_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    original = PendingQueues.update

    def update(pending: PendingQueues, name: str, *given: Any) -> None:
        if name == key("odd"):
            raise KeyError("odd")
        original(pending, name, *given)

    scene.put(cluster_queue("other", 1), local_queue("other"), workload("waits", 5, "other"))
    async with scene.running():
        await scene.until(lambda: scene.waits("waits"))
        monkeypatch.setattr(PendingQueues, "update", update)
        scene.put(workload("odd", 9))
        scene.put(cluster_queue("other", 10))
        await scene.until(lambda: scene.admitted() == {"waits"})


class Turns:
    """Counts the calls of a method in each turn of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, method: str) -> None:
        self.calls = [0]
        original = getattr(owner, method)

        def call(*given: Any) -> Any:
            if not self.calls[-1]:
                asyncio.get_running_loop().call_soon(self.calls.append, 0)
            self.calls[-1] += 1
            return original(*given)

        monkeypatch.setattr(owner, method, call)


async def test_a_change_of_queues_has_rests_within_a_long_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(clock=WorkingClock())
    scene.put(*(workload(f"w{number}", 5 + number % 4) for number in range(100)))
    async with scene.running():
        await scene.until(lambda: scene.waits("w0"))
        turns = Turns(monkeypatch, PendingQueues, "update")
        scene.put(cluster_queue("cq", 2))
        await asyncio.sleep(1)
    assert sum(turns.calls) >= 100
    assert max(turns.calls) <= 4


async def test_conditions_of_workloads_behind_an_equal_one_are_written_with_rests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(clock=WorkingClock())
    scene.put(*(workload(f"w{number}", 5, created=float(number)) for number in range(100)))
    async with scene.running():
        await scene.until(lambda: scene.waits("w0"))
        turns = Turns(monkeypatch, WorkQueue, "add_after")
        await scene.until(lambda: scene.waits("w99"))
        await asyncio.sleep(SETTLE)
    assert sum(turns.calls) >= 99
    assert max(turns.calls) <= 4


@pytest.mark.parametrize("status", [502, 504])
async def test_quota_of_a_write_that_is_stored_after_its_error_is_given_to_no_other(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene()
    write, late = scene.server.write_status, list[asyncio.Task[WorkloadInfo]]()

    async def store_late(before: WorkloadInfo, after: WorkloadInfo) -> WorkloadInfo:
        await asyncio.sleep(0.05)
        return await write(before, after)

    async def write_status(before: WorkloadInfo, after: WorkloadInfo) -> WorkloadInfo:
        if not late:
            late.append(asyncio.create_task(store_late(before, after)))
            raise UnknownOutcomeError("timeout", status=status)
        return await write(before, after)

    monkeypatch.setattr(scene.server, "write_status", write_status)
    scene.add("a", "b")
    async with scene.running():
        await asyncio.sleep(30)
    assert scene.admitted() == {"a"}
    validate_queues(scene.queues)


async def test_an_error_while_workloads_are_requeued_does_not_keep_later_ones_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(cpu=1)
    requeued: list[set[str]] = []

    def requeue(_: PendingQueues, cluster_queues: set[str], *_more: object) -> None:
        requeued.append({*cluster_queues})
        if len(requeued) == 1:
            raise RuntimeError("a bug")

    monkeypatch.setattr(PendingQueues, "requeue_sharing", requeue)
    before = FAULTS.counts.get("admission", 0)
    for name in ("a", "b"):
        scene.admission._core.end(Result(freed=frozenset({name})))
        await asyncio.sleep(1)

    assert requeued == [{"a"}, {"b"}]
    assert FAULTS.counts["admission"] == before + 1
    assert scene.admission._requeue_all  # with those that were to be tried


async def test_an_error_while_what_lacks_room_is_requeued_is_not_the_last_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, tries = Scene(cpu=1), list[float]()

    def sweep(_: PendingQueues) -> bool:
        tries.append(asyncio.get_running_loop().time())
        raise RuntimeError("a bug")

    monkeypatch.setattr(PendingQueues, "sweep", sweep)
    monkeypatch.setattr(PendingQueues, "lacks_capacity", True)
    async with scene.running():
        scene.admission.on_room()
        await asyncio.sleep(3.5 * ROOM_PERIOD)
    assert 3 <= len(tries) <= 5
