"""What a process says about its watches and credentials."""

import ssl
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from extender.kube.credentials import Credentials, Keyring
from extender.kube.errors import UnauthorizedError
from extender.kube.watch import Freshness
from extender.telemetry.metrics import ComputedMetrics
from extender.wiring.process import Watches
from tests.makers import ManualClock


@dataclass
class Watched:
    """Stands for a Reflector."""

    kind: str
    freshness: Freshness
    synced: bool = True
    needed: bool = True
    forbidden: str = ""


@dataclass
class Bench:
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.pods, self.jobs = (Watched(kind, Freshness(self.clock)) for kind in ("pods", "jobs"))
        those: Any = [self.pods, self.jobs]
        self.watches = Watches(those, stale_seconds=180)


def test_fresh_watches_are_ready() -> None:
    bench = Bench()
    bench.clock.now += 180

    assert bench.watches.checks() == {"pods": None, "jobs": None}
    assert bench.watches.stale() is None


def test_a_stale_watch_is_named_and_the_verbs_go_on() -> None:
    bench = Bench()
    bench.clock.now += 200
    bench.pods.freshness.heard()
    bench.jobs.freshness.failed(UnauthorizedError("GET /jobs: 401 Unauthorized"))

    assert bench.watches.checks() == {
        "pods": None,
        "jobs": "nothing heard for 200 s, the limit is 180 s: GET /jobs: 401 Unauthorized",
    }
    assert bench.watches.stale() == "jobs"
    assert bench.watches.synced, "the verbs answer all the same"


def test_a_watch_that_was_never_filled_is_not_ready_from_the_start() -> None:
    bench = Bench()
    bench.jobs.synced = False
    assert bench.watches.checks()["jobs"] == "not listed yet"
    bench.jobs.freshness.failed(UnauthorizedError("GET /jobs: 401"))

    assert bench.watches.checks()["jobs"] == "not listed yet: GET /jobs: 401"
    assert not bench.watches.synced


def test_one_that_is_not_needed_is_named_and_holds_up_nothing() -> None:
    bench = Bench()
    bench.jobs.needed = False
    watches = Watches(bench.watches.reflectors, stale_seconds=180)
    assert (watches.remarks(), watches.unsure_of("jobs")) == ({"jobs": None}, None)

    bench.jobs.forbidden = "GET /jobs: 403"
    assert watches.remarks() == {"jobs": "GET /jobs: 403"}
    bench.jobs.synced = False
    assert watches.remarks() == {"jobs": "not listed yet"}
    assert (watches.synced, watches.unsure_of("jobs")) == (True, "jobs")
    bench.jobs.synced = True
    bench.clock.now += 200
    bench.pods.freshness.heard()

    assert watches.unsure_of("jobs") == "jobs"
    assert str(watches.remarks()["jobs"]).startswith("nothing heard for 200 s")
    assert (watches.stale(), watches.checks()) == (None, {"pods": None})
    assert watches.unsure_of("pods") is None


async def test_metrics_of_watches_and_credentials() -> None:
    bench = Bench()
    bench.clock.now += 42
    shown = Credentials("https://x", ssl.create_default_context(), ends={"token": 1234.0})

    async def read() -> Credentials:
        return shown

    keyring = Keyring(shown, read)
    await keyring.refused(shown)
    registry = CollectorRegistry()
    registry.register(ComputedMetrics(lambda: bench.watches.metrics(keyring)))
    page = generate_latest(registry).decode()

    for sample in (
        'gang_extender_watch_age_seconds{kind="pods"} 42.0',
        'gang_extender_credential_end_timestamp_seconds{credential="token"} 1234.0',
        'gang_extender_credential_reads_total{result="unchanged"} 1.0',
        'gang_extender_credential_reads_total{result="failed"} 0.0',
        "gang_extender_credential_refusals_total 1.0",
    ):
        assert sample in page.splitlines()
    assert page.count("# HELP") == 4
