"""Alerts have runbooks, and the dashboard is one that Grafana can draw."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

from extender.api.reasons import EventReason, Reason
from extender.config import Settings
from extender.telemetry import alerts
from extender.telemetry.dashboard import ROWS, dashboard
from tests.documents import anchors, inline

ROOT = Path(__file__).parents[3]
RUNBOOKS = ROOT / alerts.RUNBOOKS


def rules(base: str = alerts.RUNBOOKS) -> Iterator[dict[str, Any]]:
    for group in alerts.rules(base)["groups"]:
        yield from group["rules"]


def test_each_alert_says_what_it_means_and_has_a_heading_in_a_runbook() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names) > 20
    for rule in rules():
        said = rule["annotations"]
        assert said["summary"].endswith(".")
        assert said["description"].endswith(".")
        page, _, anchor = said["runbook_url"].partition("#")
        assert anchor in anchors(ROOT / page), rule["alert"]
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}


def test_each_runbook_is_of_an_alert_and_is_named_in_the_operations() -> None:
    pages = {path.stem for path in RUNBOOKS.glob("*.md")}
    assert pages == {each.page for each in alerts.every()}
    named = set(inline(ROOT / "docs/operations.md"))
    assert [each.name for each in alerts.every() if each.name not in named] == []
    headings = {anchor for path in RUNBOOKS.glob("*.md") for anchor in anchors(path)}
    alarms = {anchor for anchor in headings if anchor.startswith("gangextender")}
    assert alarms == {each.name.lower() for each in alerts.every()}


def test_links_have_the_base_that_is_given() -> None:
    found = [rule["annotations"]["runbook_url"] for rule in rules("https://example.com/books/")]
    assert all(url.startswith("https://example.com/books/") for url in found)


def test_the_object_for_the_operator_has_the_rules_of_the_file() -> None:
    found = yaml.safe_load((ROOT / "manifests/monitoring/prometheus-rules.yaml").read_text())
    assert (found["apiVersion"], found["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert found["spec"] == alerts.rules()


def test_a_watch_is_stale_where_the_process_says_so() -> None:
    assert Settings().kube.stale_seconds == alerts.STALE_SECONDS


def test_a_gang_that_lacks_pods_or_room_is_not_stuck() -> None:
    lacks = {
        *alerts.WAITS_FOR_ROOM,
        Reason.NEVER_FITS,
        Reason.NOT_ENOUGH_PODS,
        Reason.GATED,
        Reason.NOT_ADMITTED,
        Reason.INVALID_TOPOLOGY,
        Reason.INVALID_PLACEMENT,
        EventReason.PODS_FAILED,
    }
    assert lacks.isdisjoint(alerts.STARTS_SOON)


def test_the_rows_of_the_dashboard() -> None:
    found = dashboard()["panels"]
    assert [each["title"] for each in found if each["type"] == "row"] == [*ROWS]
    assert len({each["id"] for each in found}) == len(found)
    for panel in found:
        if panel["type"] != "row":
            assert panel["targets"], panel["title"]
            assert all(target["legendFormat"] for target in panel["targets"])


def test_no_two_panels_overlap() -> None:
    places = [each["gridPos"] for each in dashboard()["panels"]]
    for one, other in combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
    assert all(place["x"] + place["w"] <= 24 for place in places)
