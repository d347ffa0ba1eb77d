"""A kube-scheduler is stopped in order while its gang is bound: the next one has it for itself.

A kube-scheduler that gets SIGTERM gives its lease back and ends. The next one may begin at that
moment, with an extender of its own, by whose books the room of what is not bound yet is free.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cluster.alone import alone
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.faulty_proxy import FaultyProxy, Hold
from tests.harness.gang_scheduler import GangScheduler
from tests.tiers import long_but_for

SIZE = 100
PATIENCE = 300.0
LEASES = "coordination.k8s.io/v1/leases"
pytestmark = [pytest.mark.collisions(2 * SIZE), pytest.mark.timeout(900)]
"""Of pods whose bind calls break off kube-scheduler writes that they have no node."""

control_plane, api = alone(kubelet=True)


@dataclass(frozen=True)
class Pairs:
    """Two pairs of which the first one leads, and the proxy that its extender writes through."""

    first: GangScheduler
    second: GangScheduler
    proxy: FaultyProxy
    through: Api
    """Calls the API server through the proxy."""

    def sent(self, holding: Hold) -> int:
        """Return how many Bindings the first extender has sent by the time that it is asked.

        It answers after it has seen which connections had ended before, and the proxy answers after
        it has counted what had been sent before.
        """
        for _ in range(2):
            self.first.metrics()
        self.through.request("GET", "/readyz")
        return holding.passed + holding.held


def leader(api: Api) -> str:
    """Return who has the lease of kube-scheduler; empty where it was given back, or never taken."""
    found = api.list(LEASES, "kube-system", fields="metadata.name=kube-scheduler")
    return str(found[0]["spec"].get("holderIdentity") or "") if found else ""


@pytest.fixture(params=long_but_for(["equal", "off"], "equal"))
def pairs(request: pytest.FixtureRequest, control_plane: ControlPlane, api: Api) -> Iterator[Pairs]:
    """Two pairs that bind members together, or each for itself."""
    settings = {"gang": {"bindTogether": request.param}}
    election = {
        "leaderElection": {"leaderElect": True},
        "profiles": [{"schedulerName": "default-scheduler"}],
    }

    def pair(name: str, api_port: int | None = None) -> GangScheduler:
        return GangScheduler(
            control_plane, name=name, settings=settings, scheduler=election, api_port=api_port
        )

    with FaultyProxy(control_plane, seed=1) as proxy:
        first = pair("first", proxy.port)
        api.wait_for("the first one leads", lambda: leader(api), PATIENCE)
        second = pair("second")
        path = control_plane.through(control_plane.admin_kubeconfig, proxy.port, "test")
        with Api(path) as through:
            yield Pairs(first, second, proxy, through)
        for each in (first, second):
            each.stop()
    if leader(api):
        api.delete(LEASES, "kube-scheduler", "kube-system")


def test_nothing_is_written_for_a_kube_scheduler_that_was_stopped(
    pairs: Pairs, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(10, "10")
    holding, before = pairs.proxy.hold("/binding", after=SIZE // 2), leader(api)
    gangs.create("g", SIZE, cpu="1")
    api.wait_for("Bindings are held up", lambda: holding.held > 0, PATIENCE)
    api.wait_for("half of it is bound", lambda: len(gangs.bound("g")) == SIZE // 2, PATIENCE)

    pairs.first.scheduler.stop(PATIENCE)
    assert pairs.first.scheduler.exit_code == 0
    assert leader(api) != before, "it has kept its lease"
    sent = pairs.sent(holding)
    assert len(gangs.bound("g")) == SIZE // 2
    pairs.proxy.let_go()

    gangs.await_phases("g", Running=SIZE, timeout=PATIENCE)
    assert holding.resumed == 0, "a Binding on its way was not given up"
    assert pairs.sent(holding) == sent, "a Binding was sent later"
