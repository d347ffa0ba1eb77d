"""What a process answers about itself."""

import httpx
import pytest

from extender.config.settings import Health
from extender.runtime.clock import LoopLag, SystemClock
from extender.server.health import Probes, health_app
from extender.telemetry.metrics import ProcessMetrics
from extender.wiring.process import Loop


async def numbers() -> bytes:
    return b"numbers"


def loop_of(limit: float = 30.0) -> tuple[Loop, LoopLag]:
    """Return what looks after a loop, and its lag."""
    loop = Loop(SystemClock(), ProcessMetrics().registry, Health(max_loop_lag_seconds=limit))
    return loop, loop.lag


async def livez(loop: Loop) -> httpx.Response:
    app = health_app(numbers, Probes(dict, loop.trouble))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://test", trust_env=False
    ) as client:
        return await client.get("/livez")


def late(lag: LoopLag, *lags: float) -> None:
    for seconds in lags:
        lag.note(SystemClock().monotonic(), seconds)


async def test_a_loop_that_keeps_up_is_alive() -> None:
    loop, lag = loop_of()
    late(lag, *[0.05] * 100, 20.0)
    answer = await livez(loop)
    assert (answer.status_code, answer.text) == (200, "ok\n")


async def test_one_that_is_late_for_most_of_a_minute_is_not() -> None:
    loop, lag = loop_of()
    late(lag, *[8.0] * 5)
    answer = await livez(loop)
    assert answer.status_code == 503
    assert answer.text == (
        "the event loop was late for 40 of the last 60 seconds, 30 are too many "
        "(health.maxLoopLagSeconds)\n"
    )


@pytest.mark.parametrize(("limit", "status"), [(0.0, 200), (60.0, 200), (20.0, 503)])
async def test_the_limit_is_a_setting(limit: float, status: int) -> None:
    loop, lag = loop_of(limit)
    late(lag, *[8.0] * 5)
    assert (await livez(loop)).status_code == status


def test_the_lag_is_in_the_metrics() -> None:
    registry = ProcessMetrics().registry
    loop = Loop(SystemClock(), registry, Health())
    late(loop.lag, 0.2, 0.02)
    name = "gang_extender_event_loop"
    assert registry.get_sample_value(f"{name}_longest_lag_seconds") == 0.2
    assert registry.get_sample_value(f"{name}_lag_seconds_count") == 2
    assert registry.get_sample_value(f"{name}_lag_seconds_bucket", {"le": "0.05"}) == 1


@pytest.mark.parametrize(
    ("ready", "remark", "want"),
    [
        (None, None, (200, "[+]pods\n[+]groups\n")),
        (None, "403", (200, "[+]pods\n[!]groups: 403\n")),
        ("stale", None, (503, "[-]pods: stale\n[+]groups\n")),
    ],
)
async def test_readiness_does_not_depend_on_what_is_only_remarked(
    ready: str | None, remark: str | None, want: tuple[int, str]
) -> None:
    probes = Probes(lambda: {"pods": ready}, remarks=lambda: {"groups": remark})
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=health_app(numbers, probes)),
        base_url="http://test",
        trust_env=False,
    ) as client:
        answer = await client.get("/readyz")

    assert (answer.status_code, answer.text) == want
