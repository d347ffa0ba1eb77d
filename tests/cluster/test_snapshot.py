"""A snapshot of a cluster with either process, from which `explain` answers without both."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gang_tools.snapshot.file import load
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.cluster.queues import Queues
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.process import run_command
from tests.harness.reconciler import Reconciler

TIMES = ("until", "startsBy", "claimDue", "waitsSince")


def explained(*words: object) -> dict[str, Any]:
    done = run_command("explain", *words, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_times(each) for name, each in value.items() if name not in TIMES}
    return [*map(without_times, value)] if isinstance(value, list) else value


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
    found = queues.its_workload("second")
    return str(found["metadata"]["name"])


def test_a_file_explains_what_the_api_server_does(
    gang: GangScheduler,
    reconciler: Reconciler,
    control_plane: ControlPlane,
    gangs: Gangs,
    workload: str,
    tmp_path: Path,
) -> None:
    kubeconfig = ("--kubeconfig", control_plane.admin_kubeconfig)
    urls = {"extender": gang.url, "reconciler": reconciler.url}
    asked = [("podgroup", "g"), ("pod", "g-0"), ("workload", workload), ("job", "second")]

    def live() -> list[Any]:
        return [explained(*each, "-n", gangs.namespace, *kubeconfig) for each in asked]

    def taken(process: str) -> list[Any] | None:
        """Take a snapshot; return what was explained, if it is the same before and after."""
        before = live()
        words = ("snapshot", "--process", process, "--url", urls[process], *kubeconfig)
        done = run_command(*words, "-o", tmp_path / f"{process}.json.gz")
        assert (done.returncode, done.stderr) == (0, "")
        return before if without_times(live()) == without_times(before) else None

    for process in urls:
        shown = gangs.api.wait_for("nothing changes meanwhile", partial(taken, process))
        file = ("-n", gangs.namespace, "--from-snapshot", tmp_path / f"{process}.json.gz")
        then = [explained(*each, *file) for each in asked]
        assert without_times(then) == without_times(shown)

    plans = load(tmp_path / "extender.json.gz").memory
    assert f"{gangs.namespace}/g" in [each["group"] for each in plans["verdicts"]]
    reasons = load(tmp_path / "reconciler.json.gz").memory["reasons"]
    assert f"{gangs.namespace}/{workload}" in [each["workload"] for each in reasons]
