"""Loops that serve many objects go on after an error that one of them causes."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from extender.gang import wake
from extender.gang.verdicts import GangOptions
from extender.kube.recorder import Event, ObjectRef, Recorder
from extender.permit.background import NodeClaims, PodsSeenOnlyInRequests
from extender.permit.group_memory import GroupMemory
from extender.permit.plans import Plans
from extender.permit.timing import BACK_OFF_SECONDS, LATE_SECONDS
from extender.permit.wake import Waker
from extender.runtime.faults import FAULTS, Faults
from extender.state.cluster import events as ev
from extender.state.cluster.records import NodeInfo
from extender.state.cluster.store import Cluster
from extender.state.queue.events import QueueChange
from extender.state.queue.store import Queues
from extender.telemetry.metrics import ComputedMetrics, Metrics, internal_errors, objects_set_aside
from tests.makers import ManualClock, deleted, node

pytestmark = pytest.mark.looptime


def failing(calls: list[Any], *, times: int = 1) -> Callable[..., Any]:
    """Return a function that fails a few times, and keeps what it was called with."""

    def fail(*given: Any, **_: Any) -> wake.Wake:
        calls.append(given)
        if len(calls) <= times:
            raise KeyError("bug")
        return wake.Wake()

    return fail


async def run(component: Any, seconds: float) -> None:
    task = asyncio.ensure_future(component.run())
    await asyncio.sleep(seconds)
    assert not task.done()
    task.cancel()


def counted(where: str) -> int:
    return FAULTS.counts.get(where, 0)


async def test_the_waker_looks_at_the_group_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(wake, "decide_group", failing(calls))
    cluster = Cluster()
    plans = Plans(cluster, GroupMemory(cluster, options=GangOptions(), clock=ManualClock()))
    waker = Waker(cluster, object(), plans, metrics=Metrics())  # type: ignore[arg-type]
    before = counted("waker")
    waker.after("ns/a", 0.0)
    waker.after("ns/b", 1.0)
    await run(waker, BACK_OFF_SECONDS + 1)
    assert [key for (key,) in calls] == ["ns/a", "ns/b", "ns/a"]
    assert counted("waker") == before + 1


async def test_aging_and_the_look_at_unconfirmed_pods_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, clock = Cluster(), ManualClock()
    for component, part in (
        (NodeClaims(cluster, options=GangOptions(), clock=clock), "_when_entered"),
        (PodsSeenOnlyInRequests(cluster, clock=clock), "_view"),
    ):
        where = "node-claims" if part == "_when_entered" else "pods-seen-only-in-requests"
        before = counted(where)
        monkeypatch.setattr(component, part, None)
        await run(component, 3 * LATE_SECONDS + 6)
        assert counted(where) >= before + 2


async def test_an_event_that_cannot_be_written_is_not_the_last() -> None:
    results: list[str] = []

    class Client:
        asked = posting = 0

        async def post(self, *_: object) -> None:
            self.asked += 1
            if self.asked == 1:
                raise RecursionError("too deep")

    recorder = Recorder(
        Client(),  # type: ignore[arg-type]
        clock=ManualClock(),
        instance="i",
        count=results.append,
    )
    about = ObjectRef("v1", "Pod", "ns", "p", "u")
    for occasion in ("1", "2"):
        recorder.record(Event(about, "R", "n", "a", warning=False, occasion=occasion))
    await run(recorder, 1)
    assert results == ["failed", "written"]


@pytest.mark.parametrize("state", [Cluster, Queues])
async def test_a_listener_that_fails_costs_the_others_nothing(state: type[Any]) -> None:
    made, reported, errors = state(), list[Any](), list[Exception]()
    made.subscribe(failing([], times=99))
    made.subscribe(reported.append)
    made.on_fault = errors.append
    if state is Cluster:
        made.apply(ev.ObjectApplied(node("n")))
        made.apply(deleted("n", NodeInfo))
    else:
        made._announced(QueueChange(structure=True))
    assert reported
    assert len(errors) == len(reported)


def test_metrics_that_fail_leave_the_others() -> None:
    def broken() -> Any:
        raise KeyError("bug")

    assert ComputedMetrics(broken).collect() == []

    faults = Faults(clock=lambda: 0.0)
    for _ in range(3):
        faults.report("here", KeyError("bug"), key="k")
    [errors] = internal_errors(faults)
    assert [(each.labels, each.value) for each in errors.samples] == [({"where": "here"}, 3)]
    [aside] = objects_set_aside(lambda: {"pods": 2})
    assert [(each.labels, each.value) for each in aside.samples] == [({"kind": "pods"}, 2)]
