"""Real Jobs run from end to end through the benchmark; how fast is not asked here."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.process import free_port
from tests.tiers import LONG

ROOT = Path(__file__).parents[4]
JOBS = 30

pytestmark = pytest.mark.timeout(900)


def _bench(folder: Path, *args: str) -> tuple[int, str, dict[str, dict[str, Any]]]:
    """Return the exit code, what was printed, and the runs by what was measured."""
    results = folder / "results.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.bench.queue", "--part", "jobs"),
            *("--jobs", str(JOBS), "--jobs-quota", "1", "--json", results),
            *args,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    runs = [run for part in json.loads(results.read_bytes()) for run in part["runs"]]
    return done.returncode, done.stdout + done.stderr, {run["side"]: run for run in runs}


def _reconciler(folder: Path) -> str:
    """Return the command of our reconciler as one that comes from elsewhere."""
    config = folder / "reconciler.yaml"
    settings = {"reconcile": {"leaderElect": False}, "queue": {"podGroups": "Off"}}
    config.write_text(yaml.safe_dump(settings))
    port = str(free_port())
    return shlex.join(
        [sys.executable, "-m", "gang_tools", "reconcile", "--config", str(config), "--port", port]
    )


def test_all_jobs_are_complete_within_the_quota(tmp_path: Path) -> None:
    code, output, runs = _bench(tmp_path, "--jobs-rate", "15")

    assert code == 0, output
    assert runs.keys() == {"ours", "whole"}
    for run in runs.values():
        measures = run["measures"]
        assert [measures[each] for each in ("created", "admitted", "finished")] == [JOBS] * 3
        assert (measures["broken"], measures["failed"], run["faults"]) == (0, 0, [])
        assert measures["waits"]["job, created to finished"]["count"] == JOBS
        assert 0 < measures["usage"] <= 1
        # The real job controller, scheduler and kubelets had their part in it.
        assert run["writes"]["POST pods"] >= 3 * JOBS
        assert run["writes"]["PATCH workloads/status"] >= JOBS
        assert "POST jobs" not in run["writes"]
        assert run["cpu_seconds"].keys() >= {"controller", "controller-manager", "apiserver"}
    assert "extender" in runs["whole"]["cpu_seconds"]
    assert "extender" not in runs["ours"]["cpu_seconds"]
    assert "15 created each second" in output
    for line in ("Jobs/s", "seconds, job, created to finished, p99", "API writes for each"):
        assert line in output


def test_the_smallest_program_completes_all_jobs_within_the_quota(tmp_path: Path) -> None:
    smallest = shlex.join([sys.executable, "-m", "tests.bench.queue.smallest"])
    code, output, runs = _bench(tmp_path, "--external", smallest)

    assert code == 0, output
    run = runs["external"]
    assert (run["measures"]["finished"], run["faults"]) == (JOBS, [])
    assert run["writes"]["PATCH jobs"] == JOBS
    assert "POST workloads" not in run["writes"]


@pytest.mark.parametrize("groups", [False, True])
def test_the_smallest_program_with_objects_shows_all_jobs(tmp_path: Path, *, groups: bool) -> None:
    shown = [sys.executable, "-m", "tests.bench.queue.shown", *["--groups"] * groups]
    code, output, runs = _bench(tmp_path, "--external", shlex.join(shown))

    assert code == 0, output
    run = runs["external"]
    assert (run["measures"]["finished"], run["faults"]) == (JOBS, [])
    # A Workload, its quota, ready pods and end, and no finalizer; a PodGroup, its room and phases.
    wanted = {"POST workloads": 1, "PATCH workloads/status": 3, "PATCH workloads": 1}
    wanted |= {"PATCH podgroups": 1, "PATCH podgroups/status": 4} if groups else {}
    made = {what: n for what, n in run["writes"].items() if "workloads" in what or "podgr" in what}
    assert made == {what: n * JOBS for what, n in wanted.items()}


@LONG
def test_jobs_that_are_not_complete_fail_the_run(tmp_path: Path) -> None:
    code, output, runs = _bench(
        tmp_path,
        *("--external", _reconciler(tmp_path)),
        *("--jobs-runtime", "3600", "--timeout", "5"),
    )

    assert code == 1, output
    assert runs["external"]["measures"]["finished"] == 0
    assert f"0 of {JOBS} Jobs finished" in output
    assert "ended at the limit of 5 s" in output


@LONG
def test_a_queue_that_ends_fails_the_run(tmp_path: Path) -> None:
    code, output, runs = _bench(tmp_path, "--external", "false")

    assert (code, runs) == (1, {})
    assert "the controller ended with 1" in output
