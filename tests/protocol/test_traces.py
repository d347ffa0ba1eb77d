"""Traces, as a collector receives them by OpenTelemetry's protocol."""

import asyncio
import logging
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider

from extender.config.settings import TraceSettings
from extender.kube.errors import ConfigurationError
from extender.state.cluster.store import Cluster
from extender.telemetry import otel
from extender.telemetry.metrics import ProcessMetrics
from extender.telemetry.starts import GangStarts, Trace
from extender.wiring import process
from tests.harness.collector import PATH, Collector
from tests.makers import ManualClock

PATIENCE = 120.0
T0 = 1_700_000_000.0


@pytest.fixture
def counts() -> Counter[str]:
    return Counter()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Each test ends with the threads that send its traces, and with the levels of logs as before.

    `close` returns while a collector does not answer, and what the thread logs afterwards would
    stand in the output of the next test. The library's own lines are silenced for good in a
    process that sends traces.
    """
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + PATIENCE
    for thread in set(threading.enumerate()) - before:
        thread.join(deadline - time.monotonic())
        assert not thread.is_alive(), thread
    logging.getLogger("opentelemetry").setLevel(logging.NOTSET)


def sender(counts: Counter[str], endpoint: str | None, ratio: float = 1.0) -> TracerProvider:
    def count(result: str, spans: int) -> None:
        counts[result] += spans

    return otel.tracer_provider("gang-extender", "1.0", endpoint=endpoint, ratio=ratio, count=count)


def trace(provider: TracerProvider) -> str:
    """Make a trace of three spans, and return its id."""
    clock = ManualClock(T0)
    made = Trace(provider.get_tracer("test"), clock, "gang", began=T0)
    if made.is_recording:
        refused = {"gang_extender.reason": "NotEnoughResources"}
        made.add_stage(
            "plan",
            (T0 + 2, T0 + 3),
            attributes={"gang_extender.pods": 3},
            events=[(T0 + 1, "refused", refused)],
        )
        made.add_stage("bind", (T0 + 3, T0 + 4))
        made.end(
            T0 + 4,
            {"gang_extender.members": 3, "gang_extender.ok": True},
            error="it failed",
        )
    return made.id


def test_a_trace_arrives_as_it_was_noted(collector: Collector, counts: Counter[str]) -> None:
    provider = sender(counts, collector.endpoint)
    sent = trace(provider)
    otel.close(provider, PATIENCE)

    (found,) = collector.traces.values()
    assert collector.posts == [PATH]
    assert found.root.trace == sent
    assert (found.root.name, found.root.error) == ("gang", "it failed")
    assert found.root.attributes == {"gang_extender.members": 3, "gang_extender.ok": True}
    assert (found.root.began, found.root.ended) == pytest.approx((T0, T0 + 4), abs=1e-6)
    assert set(found.children) == {"plan", "bind"}
    assert {each.parent for each in found.children.values()} == {found.root.id}
    plan = found.children["plan"]
    assert plan.events == [("refused", {"gang_extender.reason": "NotEnoughResources"})]
    assert plan.attributes == {"gang_extender.pods": 3}
    assert plan.error is None
    assert plan.resource["service.name"] == "gang-extender"
    assert plan.resource["service.version"]
    assert counts == {"made": 3, "sent": 3}


def test_the_setting_wins_over_the_environment(
    collector: Collector, counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    provider = sender(counts, f"{collector.endpoint}/v1/traces")
    trace(provider)
    otel.close(provider, PATIENCE)

    assert collector.posts == [PATH]


def test_the_environment_says_where_the_collector_is_and_who_sends(
    collector: Collector, counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "gangs-of-berlin")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    provider = sender(counts, None)
    trace(provider)
    otel.close(provider, PATIENCE)

    (found,) = collector.traces.values()
    assert found.root.resource["service.name"] == "gangs-of-berlin"
    assert found.root.resource["deployment.environment.name"] == "test"


def test_a_share_of_the_traces_is_sent_each_with_all_of_its_spans(
    collector: Collector, counts: Counter[str]
) -> None:
    provider = sender(counts, collector.endpoint, ratio=0.5)
    for _ in range(200):
        trace(provider)
    otel.close(provider, PATIENCE)

    assert 50 < len(collector.traces) < 150
    assert {len(each.children) for each in collector.traces.values()} == {2}
    assert counts["made"] == len(collector.spans) == 3 * len(collector.traces)


def test_a_collector_that_does_not_answer_holds_up_neither_gangs_nor_the_end(
    collector: Collector, counts: Counter[str]
) -> None:
    collector.may_answer.clear()
    provider = sender(counts, collector.endpoint)
    for _ in range(100):
        trace(provider)
    otel.close(provider, 0.1)

    assert counts == {"made": 300}
    assert collector.spans == []


@pytest.mark.parametrize("status", [400, 500])
def test_spans_that_a_collector_refuses_are_counted(status: int, counts: Counter[str]) -> None:
    with Collector(status=status) as collector:
        provider = sender(counts, collector.endpoint)
        trace(provider)
        otel.close(provider, PATIENCE)

    assert counts == {"made": 3, "failed": 3}


async def test_the_last_traces_are_sent_at_the_end_of_a_process(collector: Collector) -> None:
    settings = TraceSettings(enabled=True, endpoint=collector.endpoint)
    metrics, clock = ProcessMetrics(), ManualClock()
    starts = GangStarts(Cluster(), clock)
    async with process.tracing(settings, "gang-extender", metrics, starts):
        await asyncio.sleep(0)
        Trace(starts.tracer, clock, "gang", began=clock.now).end(clock.now, {})

    assert len(collector.traces) == 1
    value = metrics.registry.get_sample_value
    assert value("gang_extender_spans_total", {"result": "sent"}) == 1


async def test_what_is_missing_is_named_with_the_setting_and_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, otel.__name__)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)  # cannot be imported

    with pytest.raises(ConfigurationError) as raised:
        async with process.tracing(TraceSettings(enabled=True), "x", ProcessMetrics()):
            pass
    assert str(raised.value) == (
        "telemetry.traces.enabled: the packages of OpenTelemetry are missing"
        " (opentelemetry.sdk.trace): pip install 'gang-extender[otel]'"
    )


async def test_what_the_environment_says_wrongly_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "-1")

    with pytest.raises(ConfigurationError, match="OpenTelemetry cannot be set up: schedule_delay"):
        async with process.tracing(TraceSettings(enabled=True), "x", ProcessMetrics()):
            pass


def test_nothing_of_it_is_imported_where_traces_are_off() -> None:
    """The API is a part of FastAPI; the SDK, the exporter and protobuf are the extra."""
    script = """
import asyncio, sys
import extender.wiring.serve, extender.wiring.reconcile
from extender.config.settings import TraceSettings
from extender.telemetry.metrics import ProcessMetrics
from extender.wiring.process import tracing

async def main():
    async with tracing(TraceSettings(), "x", ProcessMetrics()):
        pass

asyncio.run(main())
print([name for name in sys.modules if name.startswith(
    ("opentelemetry.sdk", "opentelemetry.exporter", "google.protobuf"))])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
