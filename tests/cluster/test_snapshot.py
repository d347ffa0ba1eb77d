"""The whole belief of both processes in a file each, from which `explain` answers without them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.cluster.queues import Queues
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.reconciler import Reconciler

TIMES = ("until", "startsBy", "claimDue", "waitsSince")


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "extender", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def explained(*words: object) -> dict[str, Any]:
    done = run("explain", *words, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def get(url: str, path: str) -> dict[str, Any]:
    answer = httpx.get(f"{url}{path}", trust_env=False, timeout=60)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_times(each) for name, each in value.items() if name not in TIMES}
    return [*map(without_times, value)] if isinstance(value, list) else value


def quiet(api: Api, process: str, url: str, path: str, *, file: Path) -> dict[str, Any]:
    """Return what a process says, before and after a snapshot is taken to a file."""
    shown = dict[str, Any]()

    def taken() -> bool:
        shown.clear()
        shown.update(get(url, path))
        done = run("snapshot", "--process", process, "--url", url, "-o", file)
        assert (done.returncode, done.stderr) == (0, "")
        return bool(without_times(get(url, path)) == without_times(shown))

    api.wait_for(f"a quiet moment of the {process}", taken)
    return shown


@pytest.fixture
def workload(gangs: Gangs, queues: Queues, nodes: NodeFactory) -> str:
    """The name of the Workload of a job that waits for quota; a gang waits for room beside it."""
    nodes(2, "4")
    queues.simple(cpu=2)
    queues.job("first", 2, run_for="10m")
    queues.await_started("first")
    queues.job("second", 2, run_for="10m")
    queues.await_condition("second", "QuotaReserved", "False", reason="WaitingForQuota")
    gangs.create("g", 3, cpu="3")
    gangs.await_refused("g", "2 of the 3 pods that it still needs fit")
    found = queues.workload("second")
    assert found is not None
    return str(found["metadata"]["name"])


def test_a_file_explains_what_the_process_does(
    gang: GangScheduler,
    reconciler: Reconciler,
    control_plane: ControlPlane,
    gangs: Gangs,
    workload: str,
    tmp_path: Path,
) -> None:
    space, here = gangs.namespace, ("-n", gangs.namespace)
    plans, queue = tmp_path / "extender.json.gz", tmp_path / "reconciler.json"

    served = quiet(gangs.api, "extender", gang.url, f"/podgroups/{space}/g", file=plans)
    path = f"/workloads/{space}/{workload}/explanation"
    waits = quiet(gangs.api, "reconciler", reconciler.url, path, file=queue)

    of_extender, of_reconciler = ("--from-snapshot", plans), ("--from-snapshot", queue)
    found = explained("podgroup", "g", *here, *of_extender)
    assert without_times(found) == without_times(served)
    assert (found["source"], found["state"]) == ("Extender", "Waiting")
    member = explained("pod", "g-0", *here, *of_extender)
    assert member["group"]["reason"] == served["reason"]
    assert explained("workload", workload, *here, *of_reconciler) == waits
    assert explained("job", "second", *here, *of_reconciler) == waits
    asked = explained("podgroup", "g", *here, "--kubeconfig", control_plane.admin_kubeconfig)
    by_reconciler = explained("podgroup", "g", *here, *of_reconciler)
    for what in ("source", "gates", "room", "position"):
        assert by_reconciler[what] == asked[what]

    refused = run("explain", "job", "second", *here, *of_extender)
    assert refused.returncode == 1
    assert "which has no queues: take the reconciler's" in refused.stderr
