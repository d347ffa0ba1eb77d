"""The benchmark runs from end to end; how fast is not asked here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_a_tiny_benchmark_has_both_sides_and_whole_gangs(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    load = ["--nodes", "20", "--gangs", "3", "--size", "4", "--qps", "1000"]

    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", *load, "--json", results],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for column in ("kube-scheduler", "gang-extender"):
        assert column in done.stdout
    (case,) = json.loads(results.read_bytes())
    runs = {run["side"]: run for run in case["runs"]}
    assert runs.keys() == {"plain", "ours"}
    for run in runs.values():
        assert (run["gangs"]["whole"], run["gangs"]["partial"]) == (3, 0)
        assert run["scheduled"] == 12
        assert run["cpu_seconds"].keys() >= {"scheduler", "apiserver", "etcd"}
    assert runs["ours"]["filter"]["count"] >= 12
    assert runs["ours"]["bind"]["count"] == 12
