"""Workloads under quota, from end to end; how fast is not asked here.

The stand-in comes through the door for external controllers, and does to the last write what it
should; ours has its own mind about what to preempt.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.queue.load import SMALL, read
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
    assert {
        kind: measures["waits"][f"{kind}, created to admitted"]["count"]
        for kind in ("small", "large")
    } == {"small": 32, "large": 12}
    assert 0 < measures["usage"] <= 1
    assert run["cpu_seconds"].keys() >= {"controller", "apiserver", "etcd", "bench"}
    assert run["peak_mib"]["controller"] > 0
    for line in ("Workloads/s", "seconds, large, created to admitted, p99", "API writes for each"):
        assert line in output
    assert measures["evictions"] == 0
    # What the benchmark writes itself does not count.
    assert run["writes"] == {"PATCH workloads/status": WORKLOADS}
