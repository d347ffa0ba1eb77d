"""Credentials that do not count: a process says so, and goes on with new ones without a restart."""

import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE, SERVICE_ACCOUNT, GangScheduler, install
from tests.harness.process import Component, free_port
from tests.harness.started import fetch
from tests.tiers import LONG, long_but_for

ACCOUNTS = {"serve": "gang-extender", "reconcile": "gang-reconciler"}
BRIEF = "brief"
LIFE = timedelta(seconds=45)
"""The process has to be ready before."""
END = 'gang_extender_credential_end_timestamp_seconds{credential="client_certificate"}'
REFUSALS = "gang_extender_credential_refusals_total"
RENEWED = 'gang_extender_credential_reads_total{result="renewed"}'
AGE = re.compile(r'^gang_extender_watch_age_seconds\{kind="(.*)"\} (.*)$', re.MULTILINE)

WATCHED = {
    *("pods", "nodes", "jobs", "poddisruptionbudgets"),
    *("podgroups.scheduling.x-k8s.io", "podgroups.scheduling.sigs.k8s.io"),
    "podgroups.scheduling.k8s.io",  # the API server has none, and is asked for them now and then
}

Start = Callable[[str, Path], Component]


@pytest.fixture
def start(control_plane: ControlPlane) -> Iterator[Start]:
    """Start a command with a kubeconfig."""
    running: list[Component] = []

    def started(command: str, kubeconfig: Path) -> Component:
        port = free_port()
        process = control_plane.spawn(
            f"credentials-{command}",
            [
                *(sys.executable, "-m", "gang_tools", command),
                *("--kubeconfig", str(kubeconfig), "--port", str(port)),
            ],
            url=f"http://127.0.0.1:{port}",
        )
        running.append(process)
        return process

    yield started
    for process in running:
        process.stop()


def page(process: Component, path: str) -> tuple[int, str]:
    try:
        answer = fetch(f"{process.url}{path}")
    except httpx.TransportError as error:
        return 0, str(error)
    return answer.status_code, answer.text


@pytest.mark.parametrize("command", long_but_for(ACCOUNTS, "serve"))
def test_a_token_that_the_server_does_not_know_is_replaced(
    command: str, control_plane: ControlPlane, api: Api, start: Start, tmp_path: Path
) -> None:
    install(control_plane)
    good = control_plane.service_account_kubeconfig(NAMESPACE, ACCOUNTS[command]).read_text()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(re.sub(r"token: .*", "token: unknown", good))
    process = start(command, kubeconfig)

    def refused() -> bool:
        status, text = page(process, "/readyz")
        return status == 503 and "[-]pods: not listed yet: GET /api/v1/pods: 401" in text

    api.wait_for("the token is refused", refused)
    pid = process.pid
    kubeconfig.write_text(good)

    api.wait_for("it is ready", lambda: page(process, "/readyz")[0] == 200, timeout=120)
    assert process.pid == pid
    assert process.running
    metrics = page(process, "/metrics")[1]
    assert f"{RENEWED} 1.0" in metrics
    assert f"{REFUSALS} 0.0" not in metrics


def test_a_certificate_that_ended_is_renewed_in_place(
    control_plane: ControlPlane, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    install(control_plane)
    user = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
    kubeconfig = control_plane.expiring_kubeconfig(user, LIFE)
    gang = GangScheduler(control_plane, name=BRIEF, args=["--kubeconfig", str(kubeconfig)])
    try:
        nodes(1)
        end = gang.metric(END)
        assert end > 0
        api.wait_for("it has ended", lambda: time.time() > end + 1, timeout=120)
        gangs.create("g", 2, scheduler_name=BRIEF)
        api.wait_for("it is refused", lambda: gang.metric(REFUSALS) > 0)
        assert gangs.bound("g") == set()

        assert control_plane.expiring_kubeconfig(user, timedelta(days=1)) == kubeconfig
        gangs.await_phases("g", Running=2, timeout=120)
        assert gang.metric(END) > end
        assert gang.metric(RENEWED) == 1
        assert gang.extender.running
    finally:
        gang.stop()


@LONG
def test_a_watch_without_events_stays_fresh(
    control_plane: ControlPlane, api: Api, start: Start
) -> None:
    """By bookmarks, or by a list where the API server has none to send."""
    install(control_plane)
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    process = start("serve", kubeconfig)
    api.wait_for("it is ready", lambda: page(process, "/readyz")[0] == 200, timeout=120)
    oldest: dict[str, float] = {}
    again: set[str] = set()

    def all_heard() -> bool:
        for kind, age in AGE.findall(page(process, "/metrics")[1]):
            if float(age) < oldest.get(kind, 0):
                again.add(kind)
            oldest[kind] = max(oldest.get(kind, 0), float(age))
        return again >= WATCHED

    api.wait_for("each kind was heard of again", all_heard, timeout=170)
    assert page(process, "/readyz")[0] == 200
