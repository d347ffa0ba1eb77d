"""The benchmark runs from end to end; how fast is not asked here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import LONG

ROOT = Path(__file__).parents[4]


def _bench(*options: str, results: Path) -> tuple[str, list[dict[str, Any]]]:
    """Return what was printed, and the cases."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.bench", "--nodes", "20", "--qps", "1000", *options),
            *("--json", results),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, json.loads(results.read_bytes())


@pytest.mark.timeout(900)
def test_a_tiny_benchmark_has_both_sides_and_whole_gangs(tmp_path: Path) -> None:
    options = ("--shape", "3x4", "--bare")
    output, (case,) = _bench(*options, results=tmp_path / "results.json")

    for column in ("kube-scheduler", "gang-extender"):
        assert column in output
    runs = {run["side"]: run for run in case["runs"]}
    assert runs.keys() == {"plain", "ours", "bare"}
    for run in runs.values():
        assert (run["gangs"]["whole"], run["gangs"]["partial"], run["partial"]) == (3, 0, 0)
        assert (run["scheduled"], run["overcommits"], run["faults"]) == (12, [], [])
        by = "extender" if run["side"] == "bare" else "scheduler"
        assert run["cpu_seconds"].keys() >= {by, "apiserver", "etcd"}
    assert runs["plain"]["collisions"] == 0


@pytest.mark.timeout(900)
def test_gangs_that_come_as_jobs_have_their_waits_in_the_report(tmp_path: Path) -> None:
    options = ("--shape", "3x4", "--arrive", "burst", "--bare")
    output, (case,) = _bench(*options, results=tmp_path / "results.json")

    assert "3 gangs of 4 created at once" in output
    assert "last pod created to last on a node, p99, ms" in output
    assert {run["side"] for run in case["runs"]} == {"plain", "ours", "bare"}
    for run in case["runs"]:
        assert (run["gangs"]["whole"], run["gangs"]["partial"]) == (3, 0)
        assert (run["scheduled"], run["overcommits"], run["partial"]) == (12, [], 0)
        found = run["waits"]
        assert 0 <= found["from_last"]["p50"] <= found["from_last"]["p99"]
        assert 0 < found["from_first"]["p99"] >= found["from_last"]["p99"]
        by = "extender" if run["side"] == "bare" else "scheduler"
        assert run["cpu_seconds"].keys() >= {by, "controllers", "apiserver", "etcd"}


@LONG
@pytest.mark.timeout(900)
def test_gangs_that_cannot_fit_are_tried_and_get_nothing(tmp_path: Path) -> None:
    output, (case,) = _bench("--shape", "churn:3x4", results=tmp_path / "results.json")

    alone, churn = case["runs"]  # kube-scheduler alone has no part in it
    assert [run["side"] for run in case["runs"]] == ["ours", "ours"]
    for run in (alone, churn):
        assert (run["gangs"]["whole"], run["gangs"]["partial"]) == (3, 0)
        assert run["scheduled"] == 12
    assert (churn["gangs"]["impossible_bound"], churn["refused"]) == (0, 12)
    assert "gang-extender, churn" in output


@pytest.mark.timeout(900)
def test_gangs_of_high_priority_come_to_full_nodes(tmp_path: Path) -> None:
    options = ("--preempt", "--shape", "10x4", "--preemptors", "2")
    output, (case,) = _bench(*options, results=tmp_path / "results.json")

    assert "20 nodes full of 10 gangs of 4, then 2 of higher priority" in output
    runs = {run["side"]: run for run in case["runs"]}
    assert runs.keys() == {"plain", "ours"}
    for run in runs.values():
        found = run["measures"]
        assert (found["bound"], found["whole"]) == (8, 2)
        assert found["evictions"] >= 8
        assert found["gangs_hit"] >= 2
        assert found["seconds"] > 0
        assert (run["overcommits"], run["faults"]) == ([], [])
        assert run["cpu_seconds"].keys() >= {"scheduler", "apiserver", "etcd"}
    ours = runs["ours"]["measures"]
    assert (ours["evictions"], ours["gangs_hit"], ours["left_partial"]) == (8, 2, 0)
    assert runs["ours"]["cpu_seconds"].keys() >= {"extender", "reconciler"}
