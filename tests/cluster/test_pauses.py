"""kube-scheduler waits while members are bound ahead of it, and does not bring them itself.

A proxy holds the Bindings, and the pauses of this extender last until they have a reason to end:
what is counted does not depend on how fast the machine is.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
import yaml

from tests.cluster.conftest import IN_CACHE, NodeFactory
from tests.cluster.gangs import RESERVED, Gangs
from tests.harness import long_pauses
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.faulty_proxy import FaultyProxy
from tests.harness.gang_scheduler import ROOT, GangScheduler

PAUSING = "pausing"
SIZE = 100
PATIENCE = 300.0
AHEAD = 'gang_extender_bindings_total{path="ahead",result="ok"}'
PLACED = 'gang_extender_decisions_total{reason="Place",verb="filter"}'
PAUSES = "gang_extender_pause_duration_seconds_count"
ARRIVALS = "gang_extender_arrival_pause_duration_seconds_count"
pytestmark = [pytest.mark.collisions(SIZE), pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Pair:
    """A pair that binds members together, and the proxy between the extender and the API server."""

    gang: GangScheduler
    proxy: FaultyProxy

    @property
    def began(self) -> int:
        """How many pauses have begun."""
        return self.gang.extender.log_path.read_text().count(long_pauses.BEGINS)

    @property
    def arriving(self) -> int:
        """How many pauses may have begun for gangs that were being created."""
        return self.gang.extender.log_path.read_text().count(long_pauses.ARRIVING)

    def came(self, end: str) -> float:
        """Return how many of these had that end."""
        return self.gang.metric(f'{ARRIVALS}{{end="{end}"}}')

    def ended(self, end: str) -> float:
        """Return how many pauses had that end."""
        return self.gang.metric(f'{PAUSES}{{end="{end}"}}')


@dataclass(frozen=True)
class Paused:
    """A gang whose Bindings are held, and kube-scheduler in a pause."""

    ahead: float
    """How many members had been bound ahead before."""
    written: float
    """How many pauses had ended because what was to be written was."""
    hung_up: float
    """How many had ended because kube-scheduler had."""
    answered: float
    """How many of this gang filter has answered until now."""


@pytest.fixture(scope="module")
def running(control_plane: ControlPlane) -> Iterator[Pair]:
    """The pair of this module, for pods with schedulerName `pausing`."""
    shipped = yaml.safe_load((ROOT / "scheduler-config" / "kube-scheduler.yaml").read_text())
    patient = [{**each, "httpTimeout": "910s"} for each in shipped["extenders"]]
    with FaultyProxy(control_plane, seed=1) as proxy:
        gang = GangScheduler(
            control_plane,
            name=PAUSING,
            scheduler={"profiles": [{"schedulerName": PAUSING}], "extenders": patient},
            api_port=proxy.port,
            program=long_pauses.__name__,
        )
        yield Pair(gang, proxy)
        gang.stop()


@pytest.fixture
def pair(running: Pair) -> Iterator[Pair]:
    """The same, whole again after the test."""
    yield running
    running.proxy.let_go()
    if not running.gang.scheduler.running:
        running.gang.scheduler.start()


@pytest.fixture
def paused(pair: Pair, api: Api, gangs: Gangs, nodes: NodeFactory) -> Paused:
    """A gang of which one member was asked for."""
    nodes(SIZE // 10, cpu="10")
    pair.proxy.hold("/binding")
    began, placed = pair.began, pair.gang.metric(PLACED)
    ahead, written = pair.gang.metric(AHEAD), pair.ended("written")
    gangs.create("g", SIZE, cpu="1", scheduler_name=PAUSING)
    api.wait_for("a pause has begun", lambda: pair.began == began + 1, PATIENCE)
    assert gangs.bound("g") == set()
    return Paused(ahead, written, pair.ended("hung_up"), pair.gang.metric(PLACED) - placed)


def test_kube_scheduler_waits_until_all_members_are_bound(
    pair: Pair, api: Api, gangs: Gangs, paused: Paused
) -> None:
    """All are bound ahead but those that were filtered before the pause, and the one in it."""
    pair.proxy.let_go()
    gangs.await_phases("g", Running=SIZE, timeout=PATIENCE)

    # A kubelet may be quicker than the answer about the last Binding.
    api.wait_for(
        "all that were not answered before are bound ahead",
        lambda: pair.gang.metric(AHEAD) - paused.ahead >= SIZE - paused.answered - 1,
    )
    assert pair.ended("written") > paused.written
    assert pair.ended("time") == 0


def test_a_kube_scheduler_that_is_stopped_in_a_pause_ends_it(
    pair: Pair, api: Api, gangs: Gangs, paused: Paused
) -> None:
    """What is written ahead ends with it, and the next one brings the members."""
    pair.gang.scheduler.stop()
    api.wait_for(
        "the pause has ended", lambda: pair.ended("hung_up") == paused.hung_up + 1, PATIENCE
    )

    def is_over() -> bool:
        return len(gangs.bound("g")) + pair.gang.metric(RESERVED) >= SIZE

    api.wait_for("nothing is being written", is_over, PATIENCE)
    pair.proxy.let_go()
    pair.gang.scheduler.start()
    gangs.await_phases("g", Running=SIZE, timeout=PATIENCE)


@pytest.fixture
def arriving(pair: Pair, api: Api, gangs: Gangs, nodes: NodeFactory) -> None:
    """A gang of five of which four pods are there, and kube-scheduler in a pause.

    It begins when the extender knows them: before that it would refuse the first one. And it knows
    that this kube-scheduler asks it, whichever test comes first: for others it makes no pauses.
    """
    nodes(2, cpu="10")
    gangs.create("earlier", 1, cpu="1", scheduler_name=PAUSING)
    gangs.await_phases("earlier", Running=1, timeout=PATIENCE)
    pair.gang.scheduler.stop()
    gangs.create("g", 4, min_member=5, cpu="1", scheduler_name=PAUSING)
    url = f"{pair.gang.url}/podgroups/{gangs.namespace}/g"
    api.wait_for(
        "the extender knows its pods",
        lambda: len(httpx.get(url, trust_env=False).json().get("members", ())) == 4,
    )
    began = pair.arriving
    pair.gang.scheduler.start()
    api.wait_for("a pause has begun", lambda: pair.arriving > began, PATIENCE)


@pytest.mark.usefixtures("arriving")
def test_the_pods_of_a_gang_that_is_being_created_are_not_refused(pair: Pair, gangs: Gangs) -> None:
    """kube-scheduler waits with the first one until the last one is there."""
    complete = pair.came("complete")
    gangs.add("g", 1, start=4, cpu="1", scheduler_name=PAUSING)
    gangs.await_phases("g", Running=5, timeout=PATIENCE)

    assert pair.came("complete") == complete + 1
    # The others of so small a gang may be bound while kube-scheduler tries them.
    assert [failure for failure in gangs.failures() if IN_CACHE not in failure] == []


@pytest.mark.usefixtures("arriving")
def test_a_gang_that_is_being_created_keeps_no_other_pod_waiting(
    pair: Pair, api: Api, gangs: Gangs
) -> None:
    others = pair.came("others")
    api.create(gangs.pod("plain", cpu="1", scheduler_name=PAUSING))

    def runs() -> bool:
        phase: str = api.get("pods", "plain", gangs.namespace)["status"]["phase"]
        return phase == "Running"

    api.wait_for("it runs", runs, PATIENCE)
    assert pair.came("others") == others + 1
    assert gangs.bound("g") == set()
