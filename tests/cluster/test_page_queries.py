"""What the page asks Prometheus, judged by promtool on series of samples."""

import json
from pathlib import Path

import pytest

from gang_tools.page import prometheus
from tests.harness import promtool_rules
from tests.harness.promtool_rules import Series

pytestmark = pytest.mark.timeout(900)  # the first one builds promtool

AT = '{job="r", instance="a"}'
LEADS = f"gang_extender_leader{AT}"
STARTED = 'kueue_admitted_workloads_total{job="r", instance="a", cluster_queue="q"}'
QUEUE = '{cluster_queue="q"}'
QUOTA = 'job="r", instance="a", cluster_queue="q", flavor="f"'


def used(resource: str, amount: int, nominal: int) -> Series:
    labels = f'{{{QUOTA}, resource="{resource}"}}'
    return {
        f"kueue_cluster_queue_resource_reservation{labels}": f"{amount}x20",
        f"kueue_cluster_queue_nominal_quota{labels}": f"{nominal}x20",
    }


def evicted(reason: str) -> Series:
    return {f'kueue_evicted_workloads_total{{{AT[1:-1]}, reason="{reason}"}}': "1x19 4"}


# A sample each half minute; the last one is of the tenth minute.
CASES: dict[str, tuple[str, Series, list[tuple[str, int]]]] = {
    "what was admitted in the last minute counts": (
        prometheus.STARTED,
        {LEADS: "1x20", STARTED: "2x18 3 5"},
        [("{}", 3)],
    ),
    "the first of a queue counts": (
        prometheus.STARTED,
        {LEADS: "1x20", STARTED: "_x20 1"},
        [("{}", 1)],
    ),
    "what a process has counted that started anew counts": (
        prometheus.STARTED,
        {LEADS: "1x20", STARTED: "100x19 3"},
        [("{}", 3)],
    ),
    "what was admitted while nothing was scraped counts afterwards": (
        prometheus.STARTED,
        {LEADS: "1x9 stale _x9 1", STARTED: "100x9 stale _x9 104"},
        [("{}", 4)],
    ),
    "what an old process counted before the first scrape does not count": (
        prometheus.STARTED,
        {LEADS: "_x20 1", STARTED: "_x20 100"},
        [],
    ),
    "all replicas count together": (
        prometheus.STARTED,
        {
            LEADS: "1x20",
            STARTED: "7x20",
            LEADS.replace('"a"', '"b"'): "0x18 1 1",
            STARTED.replace('"a"', '"b"'): "_x20 2",
        },
        [("{}", 2)],
    ),
    "of evictions preemptions count": (
        prometheus.PREEMPTED,
        {LEADS: "1x20", **evicted("Preempted"), **evicted("PodsReadyTimeout")},
        [("{}", 3)],
    ),
    "use is of the busiest resource": (
        prometheus.USE,
        {**used("cpu", 2, 4), **used("memory", 7, 4), **used("nvidia.com/gpu", 9, 0)},
        [(QUEUE, 175)],
    ),
    "active and inadmissible workloads wait, and the old leader's count for nothing": (
        prometheus.WAITING,
        {
            f'kueue_pending_workloads{{instance="{instance}", cluster_queue="q", status="{s}"}}': n
            for instance, s, n in (("a", "active", "2x20"), ("b", "active", "2x20"),
                                   ("b", "inadmissible", "3x20"))
        },
        [(QUEUE, 5)],
    ),
}  # fmt: skip


def test_an_answer_means_what_the_page_itself_counts(tmp_path: Path) -> None:
    tests = [
        {
            "name": name,
            "interval": "30s",
            "input_series": [{"series": key, "values": value} for key, value in series.items()],
            "promql_expr_test": [
                {
                    "expr": expr,
                    "eval_time": "10m",
                    "exp_samples": [{"labels": labels, "value": value} for labels, value in wanted],
                }
            ],
        }
        for name, (expr, series, wanted) in CASES.items()
    ]
    file = tmp_path / "cases.yaml"
    file.write_text(json.dumps({"evaluation_interval": "1m", "tests": tests}))
    promtool_rules.run("test", "rules", str(file))
