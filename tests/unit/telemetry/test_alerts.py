"""Alerts and the dashboard name metrics that exist, and alerts have runbooks."""

import re
from itertools import combinations

import pytest

from extender.api.reasons import EventReason, Reason
from extender.config.settings import Settings
from gang_tools.page import prometheus
from tests.documents import anchors, inline
from tests.harness import monitoring, promtool_rules
from tests.harness.monitoring import ROOT, RUNBOOKS

OF_PROMETHEUS = {"instance", "job", "namespace", "pod", "container"}
PARTS = ("_count", "_bucket", "_sum")
ALERTS = {each["alert"]: each for each in monitoring.alerts()}
OF_THE_PAGE = (prometheus.USE, prometheus.WAITING, prometheus.STARTED, prometheus.PREEMPTED)
EXPRESSIONS = [
    *(each["expr"] for each in ALERTS.values()),
    *monitoring.expressions(),
    *OF_THE_PAGE,
]


def test_each_alert_says_what_it_means_and_has_a_heading_in_a_runbook() -> None:
    assert len(ALERTS) == len(monitoring.alerts()) > 20
    for name, rule in ALERTS.items():
        said = rule["annotations"]
        assert said["summary"].endswith(".")
        assert said["description"].endswith(".")
        page, _, anchor = said["runbook_url"].partition("#")
        assert page.startswith(RUNBOOKS)
        assert anchor in anchors(ROOT / page), name
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}


def test_each_runbook_is_of_an_alert_and_is_named_in_the_page_about_monitoring() -> None:
    folder = ROOT / RUNBOOKS
    pages = {path.stem for path in folder.glob("*.md")}
    assert pages == {monitoring.page_of(each) for each in ALERTS.values()}
    named = set(inline(ROOT / "docs/tasks/admin/monitor.md"))
    assert [name for name in ALERTS if name not in named] == []
    headings = {anchor for path in folder.glob("*.md") for anchor in anchors(path)}
    alarms = {anchor for anchor in headings if anchor.startswith("gangextender")}
    assert alarms == {name.lower() for name in ALERTS}


def test_the_alerts_are_an_object_of_the_operator() -> None:
    found = monitoring.prometheus_rule()
    assert (found["apiVersion"], found["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert found["metadata"]["namespace"] == "gang-extender-system"


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_names_metrics_and_labels_that_are_defined(expression: str) -> None:
    known = monitoring.defined()
    asked = promtool_rules.names_of(expression)
    assert asked
    for name, labels in asked.items():
        plain = next((name.removesuffix(x) for x in PARTS if name.removesuffix(x) in known), name)
        assert plain in known or name == "up" or name.startswith("process_"), name
        assert labels <= known.get(plain, set()) | OF_PROMETHEUS, name


def test_a_watch_is_stale_where_the_process_says_so() -> None:
    expression = ALERTS["GangExtenderWatchStale"]["expr"]
    assert expression.endswith(f"> {Settings().kube.stale_seconds:g}")


def test_a_gang_that_lacks_pods_or_room_is_not_stuck() -> None:
    def reasons(alert: str) -> set[str]:
        found = re.search(r'reason=~"([^"]+)"', ALERTS[alert]["expr"])
        assert found is not None
        return set(found[1].split("|"))

    stuck, waits = reasons("GangExtenderGangStuck"), reasons("GangExtenderGangWaitsLong")
    assert stuck | waits <= {*Reason, *EventReason}
    lacks = {
        Reason.NEVER_FITS,
        Reason.WAITING_FOR_NODES,
        Reason.NOT_ENOUGH_PODS,
        Reason.GATED,
        Reason.NOT_ADMITTED,
        Reason.INVALID_TOPOLOGY,
        Reason.INVALID_PLACEMENT,
        EventReason.PODS_FAILED,
    }
    assert stuck.isdisjoint(waits | lacks)


def test_the_rows_of_the_dashboard() -> None:
    found = monitoring.dashboard()["panels"]
    assert sum(each["type"] == "row" for each in found) > 4
    assert len({each["id"] for each in found}) == len(found)
    for panel in monitoring.panels():
        assert panel["targets"], panel["title"]
        assert all(target["legendFormat"] for target in panel["targets"])


def test_no_two_panels_overlap() -> None:
    places = [each["gridPos"] for each in monitoring.dashboard()["panels"]]
    for one, other in combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
    assert all(place["x"] + place["w"] <= 24 for place in places)
