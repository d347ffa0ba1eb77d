"""How `gang-extender serve` and `reconcile` end, as the commands that a user starts."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE, ROOT, install
from tests.harness.process import Component, free_port
from tests.harness.started import is_ready

SECONDS = 120


ACCOUNTS = {"serve": "gang-extender", "reconcile": "gang-reconciler"}


@pytest.fixture(scope="module", params=ACCOUNTS)
def spawned(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Iterator[Component]:
    """One of both processes, which a test may end."""
    command: str = request.param
    install(control_plane)
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, ACCOUNTS[command])
    port = free_port()
    argv = [str(Path(sys.executable).parent / "gang-extender"), command]
    argv += ["--kubeconfig", str(kubeconfig), "--port", str(port)]
    log = control_plane.logs / f"{command}.log"
    with Component(command, argv, log_path=log, url=f"http://127.0.0.1:{port}") as process:
        yield process


@pytest.fixture
def process(control_plane: ControlPlane, spawned: Component) -> Component:
    """One of both processes, which runs."""
    if not spawned.running:
        spawned.start()
    control_plane.wait_until(f"{spawned.name} is ready", lambda: is_ready(spawned, spawned.url))
    return spawned


def test_a_port_that_is_taken_ends_it_with_1_and_says_so(process: Component) -> None:
    second = subprocess.run(
        process.argv,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert second.returncode == 1
    assert "address already in use" in second.stderr
    assert process.running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0(process: Component, number: signal.Signals) -> None:
    os.kill(process.pid, number)

    assert process.wait(SECONDS) == 0
    assert "stopped" in process.tail(3)
