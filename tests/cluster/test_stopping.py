"""What becomes of bindings that have begun when the extender is to stop, or kube-scheduler left.

kube-scheduler finds no node for the last member of each gang. The test asks to bind that one, and
so completes the gang in a moment of its choice, when the API server does not answer.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import httpx
import pytest

from tests.cluster.alone import pair_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import HELD, Gangs, await_held
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.process import Component
from tests.harness.started import fetch
from tests.tiers import LONG

NAME = "ending"
PODS_OF_A_NODE = 110
SECONDS = 120
CONNECTIONS_GET_SECONDS = 5
"""What the process leaves to connections once all is answered."""


ending = pair_of(NAME, settings={"gang": {"rejectPercentage": 100, "scheduleTimeoutSeconds": 600}})


@pytest.fixture(autouse=True)
def alive_again(ending: GangScheduler) -> Iterator[None]:
    """What a test has ended runs again afterwards."""
    yield
    ending.revive()


@contextmanager
def paused(component: Component) -> Iterator[Callable[[], None]]:
    """Have a process take connections and answer nothing, until the end or an earlier call."""

    def go_on() -> None:
        os.kill(component.pid, signal.SIGCONT)

    os.kill(component.pid, signal.SIGSTOP)
    try:
        yield go_on
    finally:
        go_on()


class LastMember:
    """The member that the test binds itself, as kube-scheduler would."""

    def __init__(
        self, scheduler: GangScheduler, gangs: Gangs, group: str, number: int, node: str
    ) -> None:
        name = f"{group}-{number}"
        asks = {"cpu": "1m", "memory": "1Mi", "scheduler_name": NAME}
        gangs.api.create(gangs.late(name, group=group, **asks))
        pod = gangs.api.get("pods", name, gangs.namespace)
        self._url = scheduler.url
        self._body = {
            "PodName": name,
            "PodNamespace": gangs.namespace,
            "PodUID": pod["metadata"]["uid"],
            "Node": node,
        }

    def bind(self) -> None:
        """Ask for it, and do not wait for an answer."""
        threading.Thread(target=self._ask, daemon=True).start()

    def _ask(self) -> None:
        with suppress(httpx.TransportError):
            httpx.post(f"{self._url}/bind", json=self._body, timeout=600, trust_env=False)


def all_but_one_held(
    scheduler: GangScheduler, gangs: Gangs, nodes: NodeFactory, count: int
) -> LastMember:
    """Return the member that completes a gang of which all others are held."""
    node, *_ = nodes(count // PODS_OF_A_NODE + 1, "4", pods=PODS_OF_A_NODE)
    gangs.create_group("g", count)
    last = LastMember(scheduler, gangs, "g", count - 1, node)
    gangs.add("g", count - 1, cpu="1m", memory="1Mi", scheduler_name=NAME)
    await_held(gangs.api, scheduler, count - 1, timeout=120)
    return last


def is_released(scheduler: GangScheduler) -> bool:
    return scheduler.metric(HELD) == 0


@LONG
def test_a_gang_whose_bindings_have_begun_is_completed_after_a_signal_to_stop(
    control_plane: ControlPlane,
    ending: GangScheduler,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    last = all_but_one_held(ending, gangs, nodes, 150)
    with paused(control_plane.apiserver) as go_on:
        last.bind()
        api.wait_for("the gang is released", lambda: is_released(ending))
        os.kill(ending.extender.pid, signal.SIGTERM)
        api.wait_for("it is not ready any more", lambda: readyz(ending).status_code == 503)
        assert "[-]shutdown" in readyz(ending).text
        refused = httpx.post(f"{ending.url}/filter", json={"Pod": {}}, trust_env=False, timeout=60)
        assert refused.json() == {"Error": "filter: the extender is shutting down"}
        with pytest.raises(subprocess.TimeoutExpired):
            ending.extender.wait(CONNECTIONS_GET_SECONDS + 3)
        go_on()
        assert ending.extender.wait(SECONDS) == 0

    assert len(gangs.bound("g")) == 150


def readyz(scheduler: GangScheduler) -> httpx.Response:
    return fetch(f"{scheduler.url}/readyz")


@pytest.mark.parametrize("members", [101, pytest.param(1001, marks=LONG)])
def test_held_binds_end_at_a_signal_and_none_is_bound(
    members: int, ending: GangScheduler, gangs: Gangs, nodes: NodeFactory
) -> None:
    all_but_one_held(ending, gangs, nodes, members)

    os.kill(ending.extender.pid, signal.SIGTERM)

    assert ending.extender.wait(SECONDS) == 0
    assert gangs.bound("g") == set()


def test_bindings_end_soon_after_their_scheduler_is_gone(
    control_plane: ControlPlane,
    ending: GangScheduler,
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    """Another kube-scheduler may use the nodes by the time that the API server is there again."""
    count = 20
    last = all_but_one_held(ending, gangs, nodes, count)
    failed = 'gang_extender_binding_duration_seconds_count{result="error"}'
    control_plane.apiserver.kill()
    last.bind()
    api.wait_for("the gang is released", lambda: is_released(ending))
    ending.scheduler.kill()
    # All but that of the test, which has not hung up.
    api.wait_for("the bindings ended", lambda: ending.metric(failed) == count - 1, timeout=120)
    ending.extender.kill()
    control_plane.apiserver.start()
    control_plane.wait_ready()
    assert gangs.bound("g") == set()

    ending.extender.start()
    ending.wait_ready()
    ending.scheduler.start()
    await_held(api, ending, count - 1, timeout=120)
    api.create(gangs.anchor(scheduler_name=NAME))
    gangs.await_phases("g", Running=count, timeout=120)
