"""Whatever is killed while a hundred members are bound together: the gang starts as a whole.

The moment is exact: a proxy before the API server holds the Bindings, or the answers to them. That
no node is overcommitted, and that no pod changes its node, is in the books.
"""

from collections.abc import Callable, Iterator

import pytest

from tests.cluster.alone import Proxied, alone, pair_behind_proxy
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import RESERVED, Gangs
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.tiers import long_but_for

SIZE = 100
WRITERS = 16
"""So many Bindings are written at a time, as `permit.writing_ahead` has it."""
PATIENCE = 300.0
pytestmark = [pytest.mark.collisions(2 * SIZE), pytest.mark.timeout(900)]
"""Of pods whose bind calls break off kube-scheduler writes that they have no node."""

control_plane, api = alone(kubelet=True)


running = pair_behind_proxy("gang")


@pytest.fixture
def pair(running: Proxied) -> Iterator[Proxied]:
    """The same, whole again after the test."""
    yield running
    running.proxy.let_go()
    ended = running.gang.revive()
    assert not ended, "\n".join(ended)


def kill_extender(pair: Proxied, control_plane: ControlPlane, api: Api, gangs: Gangs) -> None:
    """Kill it and start it anew; what was held of its requests is gone with it."""
    pair.gang.extender.kill()
    pair.proxy.let_go()
    pair.gang.extender.start()
    pair.gang.wait_ready()


def kill_scheduler(pair: Proxied, control_plane: ControlPlane, api: Api, gangs: Gangs) -> None:
    """Kill it, and start it anew when the extender has given up what has no answer."""
    pair.gang.scheduler.kill()

    def is_over() -> bool:
        return len(gangs.bound("g")) + pair.gang.metric(RESERVED) >= SIZE

    api.wait_for("nothing is being written", is_over, PATIENCE)
    pair.proxy.let_go()
    pair.gang.scheduler.start()


def kill_api_server(pair: Proxied, control_plane: ControlPlane, api: Api, gangs: Gangs) -> None:
    """Kill it and start it anew, and kwok, which does not try again what is lost to it."""
    control_plane.apiserver.kill()
    pair.proxy.let_go()
    control_plane.apiserver.start()
    control_plane.wait_ready()
    control_plane.kwok.stop()
    control_plane.kwok.start()


KILLS: dict[str, Callable[[Proxied, ControlPlane, Api, Gangs], None]] = {
    "extender": kill_extender,
    "kube-scheduler": kill_scheduler,
    "API server": kill_api_server,
}


@pytest.mark.parametrize("victim", long_but_for(KILLS))
def test_a_kill_before_the_first_binding(
    victim: str,
    pair: Proxied,
    control_plane: ControlPlane,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    """The gang may start anew as a whole; plain pods have room beside it."""
    nodes(11, "10")
    holding = pair.proxy.hold("/binding")
    gangs.create("g", SIZE, cpu="1")
    api.wait_for("the first Binding is on its way", lambda: holding.held > 0, PATIENCE)
    assert gangs.bound("g") == set()

    KILLS[victim](pair, control_plane, api, gangs)
    api.create(*(gangs.pod(f"plain-{n}", cpu="1") for n in range(5)))
    gangs.await_phases("g", Running=SIZE, timeout=PATIENCE)


@pytest.mark.parametrize("victim", long_but_for(KILLS, "extender"))
def test_a_kill_between_the_first_and_the_last_binding(
    victim: str,
    pair: Proxied,
    control_plane: ControlPlane,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    """Its room is kept for it: there is none for plain pods that come meanwhile."""
    nodes(10, "10")
    holding = pair.proxy.hold("/binding", after=SIZE // 2)
    gangs.create("g", SIZE, cpu="1")
    api.wait_for("half of it is bound", lambda: holding.held > 0, PATIENCE)
    api.wait_for("half of it is bound", lambda: len(gangs.bound("g")) == SIZE // 2, PATIENCE)
    api.create(*(gangs.pod(f"plain-{n}", cpu="1") for n in range(5)))

    KILLS[victim](pair, control_plane, api, gangs)
    gangs.await_phases("g", Running=SIZE, timeout=PATIENCE)


@pytest.mark.parametrize("victim", long_but_for(KILLS))
def test_a_kill_after_the_last_binding_and_before_the_answer(
    victim: str,
    pair: Proxied,
    control_plane: ControlPlane,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    nodes(10, "10")
    holding = pair.proxy.hold("/binding", after=SIZE - WRITERS, answers=True)
    gangs.create("g", SIZE, cpu="1")
    api.wait_for("all of it is bound", lambda: len(gangs.bound("g")) == SIZE, PATIENCE)
    assert holding.held > 0

    KILLS[victim](pair, control_plane, api, gangs)
    gangs.await_phases("g", Running=SIZE, timeout=PATIENCE)
    api.wait_for("no room is kept for it", lambda: pair.gang.metric(RESERVED) == 0, PATIENCE)
