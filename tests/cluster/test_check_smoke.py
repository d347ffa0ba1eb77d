"""`gang-extender check` where everything runs: the extender is asked, and a gang of two is sent."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.cluster.checking import Answer
from tests.cluster.conftest import NodeFactory
from tests.harness.client import PATIENCE_SECONDS, Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler, install

PREFIX = "gang-extender-check-"


@pytest.fixture(scope="module", autouse=True)
def installed(control_plane: ControlPlane) -> None:
    """What an administrator applies."""
    install(control_plane)


@pytest.fixture(autouse=True)
def _log() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def _nothing_is_left(api: Api) -> Iterator[None]:
    yield
    api.wait_for("its namespaces end", lambda: not left(api))


def left(api: Api) -> list[str]:
    """Return the namespaces that nothing has deleted yet."""
    return [
        each["metadata"]["name"]
        for each in api.list("namespaces")
        if each["metadata"]["name"].startswith(PREFIX)
        and not each["metadata"].get("deletionTimestamp")
    ]


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """Those of a cluster whose one reconciler is not elected."""
    path = tmp_path / "settings.yaml"
    path.write_text("reconcile: {leaderElect: false}\n")
    return path


def test_a_gang_goes_through_a_cluster_in_which_all_runs(
    control_plane: ControlPlane, gang: GangScheduler, nodes: NodeFactory, settings: Path
) -> None:
    nodes(2)
    file = control_plane.folder / "gang-kube-scheduler.yaml"
    seconds = str(PATIENCE_SECONDS)
    answer = Answer(
        *("--kubeconfig", control_plane.admin_kubeconfig, "--config", settings),
        *("--scheduler-config", file, "--smoke", "--smoke-seconds", seconds),
    )

    assert answer.lines("failure") == {}
    assert answer.exit_code == 0
    fine = answer.lines("ok")
    assert fine["extender.ready"] == f"{gang.url} is ready"
    assert fine["smoke.gang"].startswith("the first pod waited, and both were bound ")


@pytest.mark.usefixtures("gang", "reconciler")
def test_a_gang_that_finds_no_room_says_what_it_waits_for(
    control_plane: ControlPlane, nodes: NodeFactory, api: Api
) -> None:
    """The extender's reason is in the status after five seconds."""
    nodes(1, pods=1)
    answer = Answer(
        "--kubeconfig", control_plane.admin_kubeconfig, "--smoke", "--smoke-seconds", "15"
    )

    assert answer.exit_code == 1
    found = answer.lines("failure")["smoke.gang"]
    assert found.startswith("0 of 2 pods are bound after 15 s: PodGroup ")
    assert "1 of the 2 pods" in found
    assert left(api) == []


def test_a_kube_scheduler_that_asks_no_extender_is_found_out(
    control_plane: ControlPlane, nodes: NodeFactory
) -> None:
    nodes(1)
    bare = {"profiles": [{"schedulerName": "bare"}]}
    with control_plane.scheduler(bare, name="bare"):
        answer = Answer(
            *("--kubeconfig", control_plane.admin_kubeconfig),
            *("--smoke", "--scheduler-name", "bare", "--smoke-seconds", str(PATIENCE_SECONDS)),
        )

    assert answer.exit_code == 1
    assert "was bound alone" in answer.lines("failure")["smoke.gang"]


def test_without_a_scheduler_it_says_so(control_plane: ControlPlane) -> None:
    answer = Answer(
        *("--kubeconfig", control_plane.admin_kubeconfig),
        *("--smoke", "--scheduler-name", "none", "--smoke-seconds", "1"),
    )

    [finding] = [each for each in answer.found if each["id"] == "smoke.gang"]
    assert finding["level"] == "failure"
    assert finding["mend"].startswith("no scheduler has looked at the pods")


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_it_cleans_up_when_it_is_stopped(
    control_plane: ControlPlane, api: Api, end: signal.Signals
) -> None:
    options = ["--smoke", "--scheduler-name", "none", "--smoke-seconds", "600"]
    command = [sys.executable, "-m", "gang_tools", "check", *options]
    running = subprocess.Popen(
        [*command, "--kubeconfig", str(control_plane.admin_kubeconfig)],
        stdout=subprocess.DEVNULL,
        # Tests that run in the background of a shell hand an ignored SIGINT on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        [name] = api.wait_for("its namespace is there", lambda: left(api))
        api.wait_for("it has made a pod", lambda: api.list("pods", name))
        running.send_signal(end)
        code = running.wait(PATIENCE_SECONDS)
    finally:
        running.kill()
        running.wait()
        remaining = left(api)
        for each in remaining:  # or the tests that follow find it
            api.delete("namespaces", each)

    assert code != 0
    assert remaining == []
