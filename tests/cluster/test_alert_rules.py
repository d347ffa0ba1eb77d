"""Prometheus takes the rules, and each alert fires when it should and not when it should not."""

from functools import partial
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from extender.telemetry.metrics import ComputedMetrics, access
from tests.harness import monitoring, promtool_rules
from tests.harness.promtool_rules import RulesError, Series

pytestmark = pytest.mark.timeout(900)  # the first one builds promtool

Cases = dict[str, dict[str, Series]]

CASES: Cases = yaml.safe_load((Path(__file__).parent / "alert_cases.yaml").read_text())


def test_promtool_takes_the_rules(tmp_path: Path) -> None:
    said = promtool_rules.check(tmp_path, monitoring.rules())
    assert f"{len(monitoring.alerts())} rules found" in said


def test_every_expression_of_the_dashboard_can_be_evaluated(tmp_path: Path) -> None:
    expressions = [
        each.replace("$__rate_interval", "5m").replace("$cluster_queue", ".*")
        for each in monitoring.expressions()
    ]
    rules = [{"record": f"panel:{number}", "expr": x} for number, x in enumerate(expressions)]
    promtool_rules.check(tmp_path, {"groups": [{"name": "dashboard", "rules": rules}]})


def test_every_alert_fires_where_it_should_and_not_where_all_is_well(tmp_path: Path) -> None:
    assert CASES.keys() == {each["alert"] for each in monitoring.alerts()}
    promtool_rules.prove(
        tmp_path,
        [
            (name, case[state], state == "fires")
            for name, case in CASES.items()
            for state in ("fires", "healthy")
        ],
    )


def test_what_an_alert_says(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(monitoring.rules()))
    series = 'gang_extender_watch_age_seconds{kind="pods",instance="a:8888"}'
    said = {
        "rule_files": ["rules.yaml"],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": series, "values": "600x10"}],
                "alert_rule_test": [
                    {
                        "eval_time": "5m",
                        "alertname": "GangExtenderWatchStale",
                        "exp_alerts": [
                            {
                                "exp_labels": {
                                    "severity": "critical",
                                    "kind": "pods",
                                    "instance": "a:8888",
                                },
                                "exp_annotations": {
                                    "summary": "A watch is silent.",
                                    "description": "a:8888 has seen nothing of pods for 10m 0s: "
                                    "it is not ready.",
                                    "runbook_url": "docs/runbooks/stale-watch.md"
                                    "#gangextenderwatchstale",
                                },
                            }
                        ],
                    }
                ],
            }
        ],
    }
    (tmp_path / "said.yaml").write_text(yaml.safe_dump(said))
    promtool_rules.run("test", "rules", str(tmp_path / "said.yaml"))


def test_a_process_whose_watch_is_silent_and_whose_certificate_ends(tmp_path: Path) -> None:
    """What a page says of its access, at a moment that no cluster test waits for."""
    now, day = 2_000_000_000.0, 86_400.0
    pages = {}
    for state, age, left in (("fires", 200.0, 3 * day), ("healthy", 50.0, 300 * day)):
        registry = CollectorRegistry()
        ends = {"client_certificate": now + left}
        registry.register(ComputedMetrics(partial(access, {"pods": age}, ends, {}, refusals=0)))
        pages[state] = promtool_rules.scraped(generate_latest(registry).decode(), now)
    promtool_rules.prove(
        tmp_path,
        [
            (name, series, state == "fires")
            for name in ("GangExtenderWatchStale", "GangExtenderClientCertificateEnds")
            for state, series in pages.items()
        ],
    )


@pytest.mark.parametrize("wrong", ["fires", "healthy"])
def test_a_case_that_comes_to_something_else_is_found(tmp_path: Path, wrong: str) -> None:
    series = CASES["GangExtenderWatchStale"][wrong]
    with pytest.raises(RulesError, match="WatchStale"):
        promtool_rules.fires(
            tmp_path, "GangExtenderWatchStale", series, expected=wrong == "healthy"
        )
