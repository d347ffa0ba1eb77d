"""Workloads under quota and Jobs with room on nodes, from end to end; how fast is not asked here.

The stand-in comes through the door for external controllers, and does to the last write what it
should; ours has its own mind about what to preempt.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.queue.load import SMALL, read
from tests.bench.room import load as rooms
from tests.tiers import LONG

ROOT = Path(__file__).parents[4]
WORKLOADS = read(SMALL).workloads
STAND_IN = shlex.join([sys.executable, "-m", "tests.bench.queue.stand_in"])

pytestmark = pytest.mark.timeout(900)


def _bench(results: Path, *, external: str = "") -> tuple[int, str, list[dict[str, Any]]]:
    """Return the exit code, what was printed, and the runs."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.bench.queue", "--part", "quota"),
            *("--config", SMALL, "--timeout", "600"),
            *("--external", external, "--json", results),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    runs = [run for part in json.loads(results.read_bytes()) for run in part["runs"]]
    return done.returncode, done.stdout + done.stderr, runs


def test_our_reconciler_admits_all_within_the_quota(tmp_path: Path) -> None:
    code, output, (run,) = _bench(tmp_path / "results.json")

    assert code == 0, output
    measures = run["measures"]
    assert [measures[each] for each in ("created", "admitted", "finished")] == [WORKLOADS] * 3
    assert (measures["broken"], run["faults"]) == (0, [])
    assert run["writes"]["PATCH workloads/status"] >= WORKLOADS
    assert "gang-extender" in output


@LONG
def test_all_are_admitted_within_the_quota_and_finish(tmp_path: Path) -> None:
    code, output, (run,) = _bench(tmp_path / "results.json", external=STAND_IN)

    assert code == 0, output
    measures = run["measures"]
    assert [measures[each] for each in ("created", "admitted", "finished")] == [WORKLOADS] * 3
    assert (measures["broken"], run["faults"]) == (0, [])
    assert {kind: wait["count"] for kind, wait in measures["waits"].items()} == {
        "small": 32,
        "large": 12,
    }
    assert 0 < measures["usage"] <= 1
    assert run["cpu_seconds"].keys() >= {"controller", "apiserver", "etcd", "bench"}
    assert run["peak_mib"]["controller"] > 0
    for line in ("Workloads/s", "seconds to admission, large, p99", "API writes per Workload"):
        assert line in output
    assert measures["evictions"] == 0
    # What the benchmark writes itself does not count.
    assert run["writes"] == {"PATCH workloads/status": WORKLOADS}


def test_a_controller_that_ends_fails_the_run(tmp_path: Path) -> None:
    code, output, runs = _bench(tmp_path / "results.json", external="false")

    assert (code, runs) == (1, [])
    assert "the controller ended with 1" in output


@LONG
def test_a_workload_admitted_by_room_does_not_wait_for_it(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.bench.queue", "--part", "room"),
            *("--room-config", rooms.SMALL, "--json", results),
        ],
        cwd=ROOT,
        # Wide enough for all columns: a title that is broken in two is not found.
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    runs = {run["side"]: run for run in json.loads(results.read_bytes())[0]["runs"]}
    measures = {mode: run["measures"] for mode, run in runs.items()}
    assert measures.keys() == {"room", "unkept", "quota"}
    for each in measures.values():
        assert all(kind["finished"] for kind in each["classes"].values())
        assert 0 <= each["usage"]["idle"] <= each["usage"]["used"] <= 1
    assert measures["room"]["without_room"]
    assert not measures["quota"]["without_room"]
    assert runs["room"]["cpu_seconds"].keys() >= {"reconciler", "extender", "kube-scheduler"}
    assert "then waited for room" in done.stdout
