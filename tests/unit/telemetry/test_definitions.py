"""The definitions of metrics."""

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from extender.telemetry import definitions
from extender.telemetry.definitions import CounterDefinition
from extender.telemetry.metrics import Metrics

ROOT = Path(__file__).parents[3]


def test_names_are_unique_and_all_are_documented() -> None:
    names = [each.name for each in definitions.every()]
    assert len(names) == len(set(names)) > 60
    page = (ROOT / "docs/reference/metrics.md").read_text()
    own = [name for name in names if not name.startswith("kueue_")]
    assert [name for name in own if name not in page] == []


def test_every_metric_of_the_page_of_metrics_is_defined() -> None:
    page = (ROOT / "docs/reference/metrics.md").read_text()
    named = re.findall(r"`((?:gang_extender|job|kueue)_[a-z_]+[a-z])`", page)
    names = {each.name for each in definitions.every()}
    assert {each for each in named if each.endswith(("_seconds", "_total"))} <= names
    short = {name.removesuffix("_total") for name in names}
    assert set(named) <= names | short


def test_a_counter_whose_name_would_be_stored_as_another_is_refused() -> None:
    with pytest.raises(ValueError, match="ends in _total"):
        CounterDefinition("pods", "Pods.")


def test_bindings_are_counted_from_nothing() -> None:
    """A series that appeared with its first failure would not have increased."""
    page = Metrics().render().decode()
    for path in ("asked", "ahead"):
        for result in ("ok", "error"):
            labels = f'{{path="{path}",result="{result}"}}'
            assert f"gang_extender_bindings_total{labels} 0.0" in page


def test_each_can_be_registered() -> None:
    registry = CollectorRegistry()
    for each in definitions.every():
        getattr(each, "on")(registry)  # noqa: B009 - each kind has its own
    page = generate_latest(registry).decode()
    for each in definitions.every():
        assert f"# HELP {each.name} " in page
