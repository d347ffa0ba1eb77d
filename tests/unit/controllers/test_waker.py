"""The waker: decides, patches, and tries again where a patch failed. Time is virtual."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from extender.api.wellknown import GANG_GATE, Reason
from extender.controllers.waker import Waker
from extender.kube.errors import ApiError, UnavailableError
from extender.kube.pods import PodRef
from extender.state import events as ev
from extender.state.cluster import Cluster
from extender.telemetry.metrics import Metrics
from tests.makers import ManualClock, key, nodes, planned, pod, pod_group, pods, tell

pytestmark = pytest.mark.looptime

A, B, C = pods(3)
GATED = [replace(each, gates=(GANG_GATE,)) for each in (A, B, C)]
PLAIN = pod("plain")
AT = "1970-01-01T00:16:40+00:00"


class RecordingPatcher:
    """Keeps what is patched; fails as often as scripted."""

    def __init__(self) -> None:
        self.patches: list[tuple[float, str, str]] = []
        self.stamps: set[str] = set()
        self.failures: list[ApiError] = []
        self.most_at_once = 0
        self._at_once = 0

    async def wake(self, pod: PodRef, *, at: str) -> None:
        self.stamps.add(at)
        await self._patch("wake", pod)

    async def ungate(self, pod: PodRef) -> None:
        await self._patch("ungate", pod)

    async def _patch(self, how: str, pod: PodRef) -> None:
        now = round(asyncio.get_running_loop().time(), 2)
        self.patches.append((now, how, pod.name))
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(0.1)
        self._at_once -= 1
        if self.failures:
            raise self.failures.pop(0)

    @property
    def done(self) -> list[tuple[str, str]]:
        return [(how, name) for _, how, name in self.patches]


class Bench:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.patcher = RecordingPatcher()
        self.metrics = Metrics()
        self.waker = Waker(cluster, self.patcher, clock=ManualClock(), metrics=self.metrics)

    def woken(self, how: str) -> float:
        name = "gang_extender_woken_pods_total"
        return self.metrics.registry.get_sample_value(name, {"how": how}) or 0


@pytest_asyncio.fixture
async def bench(cluster: Cluster) -> AsyncIterator[Bench]:
    tell(cluster, nodes(8))
    bench = Bench(cluster)
    task = asyncio.get_running_loop().create_task(bench.waker.run())
    yield bench
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_gates_are_taken_away_at_quorum(bench: Bench) -> None:
    tell(bench.cluster, pod_group(), *GATED[:2])
    await asyncio.sleep(1)
    assert bench.patcher.done == []
    tell(bench.cluster, GATED[2])
    await asyncio.sleep(1)

    assert sorted(bench.patcher.done) == [("ungate", each.name) for each in GATED]
    assert bench.woken("gate") == 3


async def test_gates_are_taken_away_when_the_pod_group_comes_last(bench: Bench) -> None:
    tell(bench.cluster, *GATED)
    await asyncio.sleep(1)
    assert bench.patcher.done == []
    tell(bench.cluster, pod_group())
    await asyncio.sleep(1)

    assert sorted(bench.patcher.done) == [("ungate", each.name) for each in GATED]


async def test_one_refused_sibling_is_woken_at_quorum(bench: Bench) -> None:
    tell(bench.cluster, pod_group(), A, B)
    tell(bench.cluster, *(ev.PodRefused(each, Reason.NOT_ENOUGH_PODS) for each in (A, B)))
    await asyncio.sleep(1)
    assert bench.patcher.done == []
    tell(bench.cluster, C)
    await asyncio.sleep(1)

    assert bench.patcher.done == [("wake", A.name)]
    assert bench.patcher.stamps == {AT}
    assert list(bench.cluster.snapshot().refused) == [B.uid]
    assert bench.woken("annotation") == 1


async def test_a_plan_wakes_those_that_it_counts_on(bench: Bench) -> None:
    tell(bench.cluster, pod_group(), A, B, C)
    tell(bench.cluster, *(ev.PodRefused(each, Reason.NOT_ENOUGH_PODS) for each in (B, C)))
    tell(bench.cluster, planned(gang_0="n0", gang_1="n0", gang_2="n0"))
    await asyncio.sleep(1)

    assert sorted(bench.patcher.done) == [("wake", B.name), ("wake", C.name)]


async def test_room_that_was_given_back_wakes_who_lacked_it(bench: Bench) -> None:
    tell(bench.cluster, A, PLAIN, planned(gang_0="n0"), ev.PodRefused(PLAIN, Reason.RESERVED))
    await asyncio.sleep(1)
    assert bench.patcher.done == []
    tell(bench.cluster, ev.Unreserved([A.uid]))
    await asyncio.sleep(1)

    assert bench.patcher.done == [("wake", PLAIN.name)]


async def test_a_group_is_looked_at_later(bench: Bench) -> None:
    tell(bench.cluster, pod_group(), A, B, C)
    await asyncio.sleep(1)
    tell(bench.cluster, ev.PodRefused(A, Reason.RECENTLY_DENIED))
    bench.waker.after(key("gang"), 3.0)
    await asyncio.sleep(5)

    assert bench.patcher.patches == [(4.0, "wake", A.name)]


async def test_a_gate_that_could_not_be_taken_away_is_tried_again(bench: Bench) -> None:
    bench.patcher.failures = [UnavailableError("down", status=503)]
    tell(bench.cluster, pod_group(min_member=1), GATED[0])
    await asyncio.sleep(3)

    assert bench.patcher.done[:2] == [("ungate", A.name)] * 2
    assert bench.woken("gate") >= 1


async def test_a_member_that_could_not_be_woken_is_tried_again(bench: Bench) -> None:
    bench.patcher.failures = [UnavailableError("down", status=503)] * 2
    tell(bench.cluster, pod_group(), A, B, ev.PodRefused(A, Reason.NOT_ENOUGH_PODS), C)
    await asyncio.sleep(5)

    assert bench.patcher.done == [("wake", A.name)] * 3
    assert bench.woken("annotation") == 1


async def test_a_plain_pod_that_could_not_be_woken_is_tried_again(bench: Bench) -> None:
    bench.patcher.failures = [UnavailableError("down", status=503)]
    tell(bench.cluster, A, PLAIN, planned(gang_0="n0"), ev.PodRefused(PLAIN, Reason.RESERVED))
    tell(bench.cluster, ev.Unreserved([A.uid]))
    await asyncio.sleep(5)

    assert bench.patcher.done == [("wake", PLAIN.name)] * 2


async def test_who_is_gone_is_not_tried_again(bench: Bench) -> None:
    bench.patcher.failures = [UnavailableError("down", status=503)]
    tell(bench.cluster, pod_group(), A, B, ev.PodRefused(A, Reason.NOT_ENOUGH_PODS), C)
    await asyncio.sleep(0.5)
    tell(bench.cluster, ev.PodDeleted(A.uid))
    await asyncio.sleep(5)

    assert bench.patcher.done == [("wake", A.name)]


async def test_only_so_many_are_patched_at_once(bench: Bench) -> None:
    many = [replace(each, gates=(GANG_GATE,)) for each in pods(100)]
    tell(bench.cluster, many, pod_group(min_member=100))
    await asyncio.sleep(1)

    assert len(bench.patcher.patches) == 100
    assert bench.patcher.most_at_once == 32
