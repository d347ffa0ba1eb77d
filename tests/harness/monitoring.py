"""What `manifests/monitoring` has for Prometheus and Grafana."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client.metrics import MetricWrapperBase

from extender.runtime.faults import Faults
from extender.telemetry import metrics, queue_metrics

ROOT: Final = Path(__file__).parents[2]
RUNBOOKS: Final = "docs/runbooks/"
"""The folder that the alerts link to, as a checkout has it."""
_FOLDER: Final = ROOT / "manifests" / "monitoring"


def prometheus_rule() -> dict[str, Any]:
    """Return the alerts as an object for Prometheus' operator; `spec` is a file of rules."""
    found: dict[str, Any] = yaml.safe_load((_FOLDER / "prometheus-rules.yaml").read_text())
    return found


def rules() -> dict[str, Any]:
    """Return the alerts as Prometheus itself reads them."""
    found: dict[str, Any] = prometheus_rule()["spec"]
    return found


def alerts() -> list[dict[str, Any]]:
    """Return all alerts."""
    return [rule for group in rules()["groups"] for rule in group["rules"]]


def page_of(alert: dict[str, Any]) -> str:
    """Return the name of the runbook of an alert."""
    return Path(str(alert["annotations"]["runbook_url"]).partition("#")[0]).stem


def dashboard() -> dict[str, Any]:
    """Return the dashboard for Grafana."""
    found: dict[str, Any] = json.loads((_FOLDER / "dashboard.json").read_text())
    return found


def panels() -> list[dict[str, Any]]:
    """Return the panels of the dashboard, without the titles of its rows."""
    return [each for each in dashboard()["panels"] if each["type"] != "row"]


def expressions() -> list[str]:
    """Return all expressions of the dashboard."""
    return [target["expr"] for panel in panels() for target in panel["targets"]]


@cache
def defined() -> dict[str, set[str]]:
    """Return the labels of each metric of both processes, by the name that Prometheus stores."""
    reconciler = metrics.ReconcilerMetrics().registry
    queue_metrics.QueueMetrics(reconciler)
    queue_metrics.JobMetrics(reconciler)
    metrics.lags(reconciler, lambda: 0.0)
    found = dict[str, set[str]]()
    for registry in (metrics.Metrics().registry, reconciler):
        for each in registry._collector_to_names:
            if isinstance(each, MetricWrapperBase):
                found[_stored(each._name, str(each._type))] = set(each._labelnames)
    families = [
        *metrics.internal_errors(Faults()),
        *metrics.objects_set_aside(dict),
        *metrics.waiting_groups(()),
        *metrics.access({}, {}, {}, refusals=0),
        *vars(queue_metrics.Families()).values(),
    ]
    return found | {_stored(each.name, str(each.type)): set(each._labelnames) for each in families}


def _stored(name: str, kind: str) -> str:
    return f"{name}_total" if kind == "counter" else name
