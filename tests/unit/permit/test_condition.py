"""The reporter: writes late, seldom, and again where a write failed. Time is virtual."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from extender.api.reasons import Reason
from extender.gang.verdicts import GangOptions, Refuse
from extender.kube.errors import ApiError, UnavailableError
from extender.permit.background import ConditionReporter
from extender.permit.group_memory import GroupMemory
from extender.state.cluster import events as ev
from extender.state.cluster.records import ConditionInfo, PodGroupInfo, PodGroupStatusInfo
from extender.state.cluster.store import Cluster
from tests.makers import LoopClock, key, nodes, observe, planned, pod, pod_group, pods

pytestmark = pytest.mark.looptime

A, B, C = pods(3)


class Writer:
    def __init__(self, verdicts: GroupMemory) -> None:
        self.written: list[tuple[float, str, str]] = []
        self.tried: list[float] = []
        self.failures: list[ApiError] = []
        self.verdicts = verdicts

    async def apply_condition(self, pod_group: PodGroupInfo, condition: ConditionInfo) -> None:
        now = round(asyncio.get_running_loop().time(), 1)
        self.tried.append(now)
        if self.failures:
            raise self.failures.pop(0)
        self.written.append((now, pod_group.name, condition.message[:3]))


@pytest_asyncio.fixture
async def writer(cluster: Cluster) -> AsyncIterator[Writer]:
    observe(cluster, nodes(8), pod_group(), A, B, C)
    verdicts = GroupMemory(cluster, options=GangOptions(), clock=LoopClock())
    writer = Writer(verdicts)
    reporter = ConditionReporter(cluster, writer.apply_condition, verdicts, clock=LoopClock())
    task = asyncio.create_task(reporter.run())
    yield writer
    task.cancel()


async def test_a_group_that_is_soon_complete_is_not_written(
    cluster: Cluster, writer: Writer
) -> None:
    observe(cluster, planned(gang_0="n0", gang_1="n0", gang_2="n0"), ev.PodWaiting(A, "n0"))
    await asyncio.sleep(4.9)
    observe(cluster, *(ev.PodBinding(each, "n0") for each in (A, B, C)))
    await asyncio.sleep(30)

    assert writer.written == []


async def test_one_that_waits_is_written_and_looked_at_again(
    cluster: Cluster, writer: Writer
) -> None:
    observe(cluster, planned(gang_0="n0", gang_1="n0", gang_2="n0"), ev.PodWaiting(A, "n0"))
    await asyncio.sleep(6)
    observe(cluster, ev.PodWaiting(B, "n0"))
    await asyncio.sleep(10)

    assert writer.written == [(5.0, "gang", "1/3"), (15.0, "gang", "2/3")]


async def test_what_could_not_be_written_is_written_later(cluster: Cluster, writer: Writer) -> None:
    writer.failures = [UnavailableError("down")]
    observe(cluster, planned(gang_0="n0", gang_1="n0", gang_2="n0"), ev.PodWaiting(A, "n0"))
    await asyncio.sleep(16)

    assert writer.written == [(15.0, "gang", "1/3")]


async def test_an_api_server_that_fails_is_spared(cluster: Cluster, writer: Writer) -> None:
    writer.failures = [UnavailableError("down")] * 20
    for name in "abcde":
        observe(
            cluster,
            pod_group(name),
            *pods(3, group=name),
            ev.PodWaiting(pod(f"{name}-0", group=name), "n0"),
        )
    await asyncio.sleep(9)

    assert writer.tried == [5.0, 5.1, 5.2, 5.3, 5.4]


def said(reason: Reason) -> PodGroupInfo:
    """Return the gang's PodGroup with a condition that it is not permitted."""
    condition = ConditionInfo("Permitted", "False", reason, "")
    return pod_group(status=PodGroupStatusInfo(conditions=(condition,)))


async def test_a_wait_is_withdrawn_by_the_replica_that_saw_it(
    cluster: Cluster, writer: Writer
) -> None:
    observe(cluster, planned(gang_0="n0", gang_1="n0", gang_2="n0"), ev.PodWaiting(A, "n0"))
    await asyncio.sleep(6)
    observe(cluster, said(Reason.WAITING_FOR_BIND), ev.Unreserved((A.uid, B.uid, C.uid)))
    await asyncio.sleep(10)

    assert [text for _, _, text in writer.written] == ["1/3", "no "]


async def test_a_denial_is_withdrawn_by_the_replica_that_wrote_it(
    cluster: Cluster, writer: Writer
) -> None:
    writer.verdicts.failed(
        key("gang"), Refuse(Reason.NOT_ENOUGH_RESOURCES, "gang ns/gang: no room", deny=True)
    )
    observe(cluster, planned(gang_0="n0"))
    await asyncio.sleep(6)
    writer.verdicts.started(key("gang"))
    observe(cluster, said(Reason.RECENTLY_DENIED), ev.Unreserved((A.uid,)))
    await asyncio.sleep(10)

    assert [text for _, _, text in writer.written] == ["fai", "no "]


async def test_what_another_one_said_is_left_alone(cluster: Cluster, writer: Writer) -> None:
    observe(cluster, said(Reason.WAITING_FOR_BIND), planned(gang_0="n0"))
    await asyncio.sleep(20)

    assert writer.written == []
