"""How `gang-extender serve` and `reconcile` end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE, ROOT, install
from tests.harness.process import Component, free_port

SECONDS = 30


ACCOUNTS = {"serve": "gang-extender", "reconcile": "gang-reconciler"}


@pytest.fixture(params=["serve", "reconcile"])
def kubeconfig(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Path:
    install(control_plane)
    return control_plane.service_account_kubeconfig(NAMESPACE, ACCOUNTS[request.param])


@pytest.fixture
def extender(
    request: pytest.FixtureRequest, control_plane: ControlPlane, kubeconfig: Path
) -> Iterator[Component]:
    name = request.node.callspec.params["kubeconfig"]
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    argv = command(name, kubeconfig, port)
    with control_plane.spawn(name, argv, url=url) as extender:

        def ready() -> bool:
            assert extender.running, extender.tail(40)
            try:
                return httpx.get(f"{url}/readyz", trust_env=False).status_code == 200
            except httpx.TransportError:
                return False

        control_plane.wait_until("the extender is ready", ready)
        yield extender


def command(name: str, kubeconfig: Path, port: int | str) -> list[str]:
    started = [sys.executable, "-m", "extender", name]
    return [*started, "--kubeconfig", str(kubeconfig), "--port", str(port)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0(extender: Component, number: signal.Signals) -> None:
    os.kill(extender.pid, number)

    assert extender.wait(SECONDS) == 0
    assert "stopped" in extender.tail(3)


def test_a_port_that_is_taken_ends_it_with_1_and_says_so(
    extender: Component, kubeconfig: Path
) -> None:
    port = extender.url.rpartition(":")[2]
    second = subprocess.run(
        command(extender.name, kubeconfig, port),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert second.returncode == 1
    assert "address already in use" in second.stderr
