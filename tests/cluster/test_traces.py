"""One trace a gang and one an admission, at a collector, with the ids that are in the logs."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.alone import in_place_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.cluster.queues import Queues
from tests.harness.collector import Collector, ReceivedTrace
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.process import Component, free_port
from tests.harness.reconciler import Reconciler


def telemetry(endpoint: str) -> dict[str, Any]:
    """Return settings that send all traces there, and say as JSON what happens to gangs."""
    traces = {"enabled": True, "endpoint": endpoint}
    return {"telemetry": {"traces": traces}, "log": {"format": "json", "level": "debug"}}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture
def traced(gang: GangScheduler, collector: Collector) -> Iterator[GangScheduler]:
    """The pair of the other tests with traces, as it was again after the test.

    The first members of a gang are held for certain where none is bound together with another one.
    """
    gang.restart_with({**telemetry(collector.endpoint), "gang": {"bindTogether": "off"}})
    yield gang
    gang.restart_with({})


@pytest.fixture
def traced_reconciler(
    control_plane: ControlPlane, reconciler: Reconciler, collector: Collector
) -> Iterator[Reconciler]:
    """A reconciler with traces, in the place of the one that all share."""
    settings = telemetry(collector.endpoint)
    with in_place_of(reconciler, control_plane, "traced-reconciler", settings) as other:
        yield other


def lines(process: Component, **wanted: str) -> list[dict[str, Any]]:
    """Return what a process has logged as JSON that has these fields."""
    text = process.log_path.read_text().splitlines()
    found = [json.loads(line) for line in text if line.startswith("{")]
    return [line for line in found if wanted.items() <= line.items()]


def only(collector: Collector, attribute: str, value: str) -> ReceivedTrace:
    """Return the one trace whose root has an attribute."""
    assert collector.wait_until(lambda: bool(collector.of(attribute, value)))
    (found,) = collector.of(attribute, value)
    return found


def spans_in_order(trace: ReceivedTrace, *names: str) -> None:
    """Assert that a trace has these stages, one after the other within its root."""
    assert names == tuple(name for name in trace.children if name in names)
    times = [trace.root.began]
    for name in names:
        span = trace.children[name]
        assert span.parent == trace.root.id
        times.append(span.began)
        assert span.began <= span.ended <= trace.root.ended + 1e-6
    assert times == sorted(times)


def test_a_gang_is_one_trace_from_filter_to_the_last_binding(
    traced: GangScheduler, gangs: Gangs, nodes: NodeFactory, collector: Collector
) -> None:
    nodes(2)
    gangs.create("traced", 3)
    gangs.await_phases("traced", Running=3)

    trace = only(collector, "k8s.namespace.name", gangs.namespace)
    spans_in_order(trace, "plan", "hold", "bind")
    assert trace.root.name == "gang"
    assert trace.root.error is None
    assert trace.root.attributes == {
        "k8s.namespace.name": gangs.namespace,
        "gang_extender.group": "traced",
        "gang_extender.gang_id": trace.root.trace,
        "gang_extender.members": 3,
        "gang_extender.min_members": 3,
        "gang_extender.reason": "QuorumReached",
    }
    assert trace.children["plan"].attributes == {"gang_extender.pods": 3}
    assert trace.children["bind"].attributes["gang_extender.bound"] == 3
    about = lines(traced.extender, group=f"{gangs.namespace}/traced")
    assert {each["gang_id"] for each in about} == {trace.root.trace}
    said = [each["event"] for each in about]
    assert {"gang planned", "gang held", "gang bound"} <= set(said)
    assert said[-1] == "gang bound"


def test_an_admission_is_one_trace_from_the_queue_to_the_start_of_the_job(
    traced_reconciler: Reconciler,
    gang: GangScheduler,
    queues: Queues,
    nodes: NodeFactory,
    collector: Collector,
) -> None:
    nodes(1)
    cluster_queue, queue = queues.simple(cpu=4)
    queues.job("traced", 2)
    queues.await_admitted("traced")

    trace = only(collector, "k8s.namespace.name", queues.namespace)
    spans_in_order(trace, "wait", "decide", "write", "start")
    attributes = trace.root.attributes
    assert (trace.root.name, trace.root.error) == ("admission", None)
    assert attributes["gang_extender.cluster_queue"] == cluster_queue
    assert attributes["gang_extender.queue"] == queue
    assert attributes["gang_extender.job"] == "Job/traced"
    assert attributes["gang_extender.pods"] == 2
    assert attributes["gang_extender.reason"] == "Started"
    assert trace.root.resource["service.name"] == "gang-extender-reconciler"
    workload = f"{queues.namespace}/{attributes['gang_extender.workload']}"
    (admitted,) = lines(traced_reconciler.process, event="workload admitted", workload=workload)
    assert admitted["admission_id"] == trace.root.trace
    assert admitted["cluster_queue"] == cluster_queue


def test_without_a_collector_gangs_start_and_the_process_ends_in_order(
    gang: GangScheduler, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(2)
    before = len(lines(gang.extender, event="stopped"))
    gang.restart_with(telemetry(f"http://127.0.0.1:{free_port()}"))
    try:
        for number in range(3):
            gangs.create(f"untraced-{number}", 2)
        for number in range(3):
            gangs.await_phases(f"untraced-{number}", Running=2)
        made = 'gang_extender_spans_total{result="made"}'
        gangs.api.wait_for("spans were made", lambda: gang.metric(made) >= 9)
        assert gang.metric('gang_extender_spans_total{result="sent"}') == 0
    finally:
        gang.restart_with({})
    assert len(lines(gang.extender, event="stopped")) == before + 1
