"""The metrics of both processes and the page about them."""

import re

from prometheus_client import CollectorRegistry, generate_latest

from extender.telemetry.metrics import ComputedMetrics, Metrics, waiting_groups
from tests.harness import monitoring

PAGE = (monitoring.ROOT / "docs/reference/metrics.md").read_text()


def test_all_metrics_are_documented() -> None:
    names = monitoring.defined()
    assert len(names) > 60
    own = [name for name in names if not name.startswith("kueue_")]
    assert [name for name in own if name not in PAGE] == []


def test_every_metric_of_the_page_of_metrics_is_defined() -> None:
    named = re.findall(r"`((?:gang_extender|job|kueue)_[a-z_]+[a-z])`", PAGE)
    names = monitoring.defined().keys()
    assert {each for each in named if each.endswith(("_seconds", "_total"))} <= names
    short = {name.removesuffix("_total") for name in names}
    assert set(named) <= names | short


def test_bindings_are_counted_from_nothing() -> None:
    """A series that appeared with its first failure would not have increased."""
    page = Metrics().render().decode()
    for path in ("asked", "ahead"):
        for result in ("ok", "error"):
            labels = f'{{path="{path}",result="{result}"}}'
            assert f"gang_extender_bindings_total{labels} 0.0" in page


def test_groups_are_counted_by_reason_with_the_oldest() -> None:
    registry = CollectorRegistry()
    found = [("NeverFits", 30.0), ("NotEnoughPods", 20.0), ("NeverFits", 10.0)]
    registry.register(ComputedMetrics(lambda: waiting_groups(found)))

    lines = generate_latest(registry).decode().splitlines()

    assert [line for line in lines if not line.startswith("#")] == [
        'gang_extender_waiting_groups{reason="NeverFits"} 2.0',
        'gang_extender_waiting_groups{reason="NotEnoughPods"} 1.0',
        'gang_extender_oldest_waiting_group_timestamp_seconds{reason="NeverFits"} 10.0',
        'gang_extender_oldest_waiting_group_timestamp_seconds{reason="NotEnoughPods"} 20.0',
    ]
