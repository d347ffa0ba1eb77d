"""Pods are tried again whose preemption failed because no extender answered."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from typing_extensions import override

from extender.controllers.preemption import FailedCalls
from extender.controllers.timing import LOOK_AGAIN
from extender.kube.errors import UnavailableError
from extender.kube.pod_groups import PodGroupWriter
from extender.kube.pods import PodRef
from extender.state.cluster.store import Cluster
from tests.makers import nodes, observe, pod

pytestmark = pytest.mark.looptime

FULL = "0/1 nodes are available: 1 Insufficient cpu. "
REFUSED = 'preemption: Post "http://127.0.0.1:8888/preempt": dial tcp: connection refused'
UNREADY = "preemption: failed preempt with extender at URL http://127.0.0.1:8888/preempt, code 503"
IN_VAIN = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."


class Writer(PodGroupWriter):
    """Notes what is nominated."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str | None]] = []
        self.fails = False

    @override
    async def nominate(self, pod: PodRef, node: str | None) -> None:
        if self.fails:
            raise UnavailableError("not now")
        self.written.append((pod.name, node))


@pytest.fixture
async def writer(cluster: Cluster) -> AsyncIterator[Writer]:
    found = Writer()
    observe(cluster, [nodes(4)])
    running = asyncio.create_task(FailedCalls(cluster, found).run())
    yield found
    running.cancel()


def waits(said: str, name: str = "p", priority: int = 0, nominated: str | None = None) -> object:
    return pod(name, priority=priority, unschedulable=FULL + said, nominated=nominated)


@pytest.mark.parametrize("said", [REFUSED, UNREADY])
async def test_a_node_is_nominated_for_a_moment_until_it_was_tried(
    said: str, cluster: Cluster, writer: Writer
) -> None:
    observe(cluster, [waits(said)])
    await asyncio.sleep(LOOK_AGAIN * 1.5)
    assert writer.written == [("p", "n0"), ("p", None)]

    observe(cluster, [waits(IN_VAIN)])
    await asyncio.sleep(300)
    assert len(writer.written) == 2


async def test_it_goes_on_with_growing_pauses(cluster: Cluster, writer: Writer) -> None:
    writer.fails = True
    observe(cluster, [waits(REFUSED)])
    await asyncio.sleep(60)
    writer.fails = False
    await asyncio.sleep(320)  # it is tried again within half a minute
    assert 16 <= len(writer.written) <= 22


async def test_one_stands_for_all_of_its_priority_and_below(
    cluster: Cluster, writer: Writer
) -> None:
    observe(cluster, [waits(REFUSED, f"p-{n}", priority=n) for n in range(3)])
    await asyncio.sleep(LOOK_AGAIN * 1.5)
    assert writer.written == [("p-2", "n0"), ("p-2", None)]


async def test_a_nomination_that_was_left_behind_is_taken_back(
    cluster: Cluster, writer: Writer
) -> None:
    observe(cluster, [waits(REFUSED, nominated="n0")])
    await asyncio.sleep(LOOK_AGAIN * 1.5)
    assert writer.written == [("p", None)]


async def test_one_that_failed_for_another_reason_is_left_alone(
    cluster: Cluster, writer: Writer
) -> None:
    observe(cluster, [waits(IN_VAIN)])
    await asyncio.sleep(300)
    assert writer.written == []
