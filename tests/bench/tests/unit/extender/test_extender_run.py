"""The benchmark of the extender alone, from end to end; how fast is not asked here."""

from dataclasses import replace

import msgspec
import pytest
from rich.console import Console

from tests.bench.extender import report
from tests.bench.extender.runs import API_SERVER, EXTENDER, SCHEDULER, Limits, Result, measure
from tests.bench.extender.scene import Scene
from tests.bench.progress import Progress

STALL = 120.0
"""Seconds without one more pod that end a run: machines that test have other work too."""


@pytest.mark.timeout(600)
def test_all_gangs_are_whole_and_every_process_is_measured() -> None:
    scene = Scene(nodes=20, running=20 * 108, gangs=2, size=5)  # two more have room on each
    found = measure(scene, repeat=1, settings={}, limits=Limits(stall=STALL), progress=Progress())
    assert found.faults == []
    assert found.bound == 10
    assert found.counts["filters"] >= found.counts["binds"] >= 1
    assert found.writes["bindings"] == 10
    assert found.events["kube-scheduler: Scheduled"] == found.counts["binds"]
    assert found.unannounced == 0
    assert found.late_cpu >= found.cpu[EXTENDER]
    assert found.cpu.keys() >= {EXTENDER, SCHEDULER, API_SERVER}
    assert found.cpu[EXTENDER] > 0
    assert found.pods_per_second
    assert found.peak_mib > 10


@pytest.mark.timeout(600)
def test_plain_pods_come_beside_gangs_to_a_scheduler_that_lags() -> None:
    scene = Scene(nodes=20, running=20 * 107, gangs=2, size=5, plain=3)
    found = measure(
        scene,
        repeat=1,
        settings={},
        limits=Limits(stall=STALL),
        progress=Progress(),
        lag=0.05,
    )
    assert (found.faults, found.bound) == ([], 16)
    # Which of them kube-scheduler asks for depends on how far it is behind.
    assert found.unannounced == 0
    assert sum(n for what, n in found.events.items() if what.endswith(": Scheduled")) == 16


RESULT = Result(
    scene=Scene(nodes=1000, running=100_000, gangs=2, size=50),
    repeat=1,
    bound=100,
    seconds=0.5,
    cpu={EXTENDER: 0.1, SCHEDULER: 0.02, API_SERVER: 0.01},
    late_cpu=0.15,
    events={"kube-scheduler: Scheduled": 100},
    unannounced=0,
    peak_mib=200.0,
    counts={"filters": 150, "refused": 50, "prioritizes": 0, "binds": 100},
    writes={"bindings": 100, "PATCH pods": 25},
    partial_peak=1,
    faults=[],
)


def test_the_table_has_medians_by_the_number_of_nodes_and_the_growth_of_the_cost() -> None:
    large = replace(RESULT, scene=replace(RESULT.scene, nodes=20_000), cpu={**RESULT.cpu})
    results = [
        replace(RESULT, repeat=1),
        replace(large, cpu={**RESULT.cpu, EXTENDER: 0.13}),
        replace(RESULT, repeat=2, cpu={**RESULT.cpu, EXTENDER: 0.12}),
    ]
    console = Console(width=140)
    with console.capture() as captured:
        console.print(report.table(results))
    lines = {
        parts[1].strip(): [each.strip() for each in parts[2:-1]]
        for line in captured.get().splitlines()
        if len(parts := line.split("│")) > 2
    }
    assert lines["CPU ms a pod, extender"] == ["1.100 (1.000..1.200)", "1.300"]
    assert lines["ratio to the first column"] == ["1.00", "1.18"]
    assert lines["pods/s, first filter to last binding"] == ["200", "200"]
    assert lines["filter calls a pod"] == ["1.50", "1.50"]
    assert lines["writes beside bindings, a pod"] == ["0.25", "0.25"]
    assert lines["Events Scheduled a pod, kube-scheduler"] == ["1.00", "1.00"]
    assert lines["CPU ms a pod, extender, until the last Event"] == ["1.500", "1.500"]


def test_a_run_that_broke_off_is_shown_and_its_faults_are_named() -> None:
    broken = replace(RESULT, bound=0, seconds=0.0, counts={}, faults=["it took too long"])
    assert report.faults([RESULT, broken]) == ["it took too long"]
    assert "0 pods/s" in report.line(broken)
    report.table([broken])
    assert msgspec.json.decode(report.as_json([RESULT, broken]))[0]["bound"] == 100
