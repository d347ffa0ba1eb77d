"""The dashboard of both processes, as Grafana's JSON model.

Panels stand three in a line, below the title of their row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from extender.telemetry import definitions as of
from extender.telemetry.definition import CounterDefinition, GaugeDefinition, HistogramDefinition
from extender.telemetry.promql import Like, Not, gauge, grouped, increase, quantile, rate

UID: Final = "gang-extender"

_WIDTH: Final = 8
_HEIGHT: Final = 8
_IN_LINE: Final = 3
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WINDOW: Final = "$__rate_interval"
_QUEUE: Final = Like("$cluster_queue")

# The library's own, of every process in Python.
_MEMORY: Final = GaugeDefinition("process_resident_memory_bytes", "Resident memory.")
_CPU: Final = CounterDefinition("process_cpu_seconds_total", "Seconds of CPU.")


@dataclass(frozen=True, slots=True)
class Query:
    """One expression, and what its lines are called."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    text: str = ""


def _split(metric: CounterDefinition, *by: str) -> Query:
    names = " ".join(f"{{{{{label}}}}}" for label in by)
    return Query(f"sum {grouped(metric, *by)} ({rate(metric, _WINDOW)})", names)


def _sum(metric: GaugeDefinition, *by: str) -> Query:
    names = " ".join(f"{{{{{label}}}}}" for label in by)
    labels = {"cluster_queue": _QUEUE} if "cluster_queue" in metric.labels else {}
    return Query(f"sum {grouped(metric, *by)} ({gauge(metric, **labels)})", names)


def _latency(title: str, metric: HistogramDefinition, *by: str, text: str = "") -> Panel:
    names = " ".join(f"{{{{{label}}}}}" for label in by)
    queries = (
        Query(quantile(share, metric, _WINDOW, *by), f"{names} p{share * 100:g}".strip())
        for share in (0.5, 0.99)
    )
    return Panel(title, "s", tuple(queries), text)


def _one(metric: GaugeDefinition, legend: str) -> Query:
    return Query(f"sum({gauge(metric)})", legend)


def _of_ours(expr: str) -> Query:
    """Return values of the processes that have a watch: every process in Python has some."""
    ours = f"sum {grouped(of.WATCH_AGE, 'instance')} ({gauge(of.WATCH_AGE)})"
    return Query(f"{expr} and on (instance) {ours}", "{{instance}}")


ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "Gangs": (
        Panel("PodGroups by phase", "short", (_sum(of.POD_GROUPS, "phase"),)),
        Panel("Why PodGroups wait", "short", (_sum(of.WAITING_GROUPS, "reason"),)),
        Panel(
            "Longest wait by reason",
            "s",
            (
                Query(
                    f"time() - min {grouped(of.OLDEST_WAITING_GROUP, 'reason')}"
                    f" ({gauge(of.OLDEST_WAITING_GROUP)})",
                    "{{reason}}",
                ),
            ),
        ),
        Panel("Groups that begin to be bound together", "ops", (_split(of.GROUPS_BEGUN, "by"),)),
        Panel(
            "Preemptions of gangs",
            "ops",
            (_split(of.PREEMPTIONS, "reason"), _split(of.PREEMPTION_VICTIMS, "how")),
        ),
        Panel(
            "Groups that wait for victims, and claims to nodes",
            "short",
            (_one(of.PREEMPTING_GROUPS, "preempting"), _one(of.CLAIMS, "claims")),
        ),
    ),
    "Verbs": (
        _latency("Time to answer", of.REQUEST_SECONDS, "verb"),
        Panel(
            "Requests",
            "reqps",
            (
                Query(
                    f"sum {grouped(of.REQUEST_SECONDS, 'verb')} "
                    f"({rate(of.REQUEST_SECONDS, _WINDOW)})",
                    "{{verb}}",
                ),
            ),
        ),
        Panel("Why pods are refused", "ops", (_split(of.DECISIONS, "verb", "reason"),)),
    ),
    "Plans and holds": (
        Panel(
            "Pods",
            "short",
            (
                _one(of.RESERVED_PODS, "planned"),
                _one(of.WAITING_PODS, "held"),
                _one(of.UNSEEN_PODS, "not seen by kube-scheduler"),
            ),
            "Room is kept for planned pods; held ones wait for the rest of their gang.",
        ),
        _latency("Time of a hold", of.PERMIT_WAIT_SECONDS, "result"),
        _latency("Pause of filter while members are bound", of.PAUSE_SECONDS, "end"),
        Panel("Members left to kube-scheduler", "ops", (_split(of.AHEAD_SKIPPED, "why"),)),
        Panel(
            "Pods that were woken",
            "ops",
            (_split(of.WOKEN_PODS, "how"), _split(of.WAKE_FAILURES, "error")),
        ),
        Panel(
            "kube-scheduler",
            "short",
            (
                _one(of.SCHEDULER_BEHIND, "behind"),
                _one(of.SCHEDULER_DISAGREEMENTS, "pods that it disagrees about"),
            ),
        ),
    ),
    "Bindings": (
        Panel("Bindings", "ops", (_split(of.BINDINGS, "path", "result"),)),
        Panel(
            "Share that fails",
            "percentunit",
            (
                Query(
                    f"sum({rate(of.BINDINGS, _WINDOW, result='error')})"
                    f" / sum({rate(of.BINDINGS, _WINDOW)})",
                    "failed",
                ),
            ),
        ),
        _latency("Time to write a Binding", of.BINDING_SECONDS, "result"),
    ),
    "Queues": (
        Panel(
            "Waiting workloads", "short", (_sum(of.PENDING_WORKLOADS, "cluster_queue", "status"),)
        ),
        Panel(
            "Workloads with quota",
            "short",
            (
                Query(
                    _sum(of.RESERVING_WORKLOADS, "cluster_queue").expr, "{{cluster_queue}} quota"
                ),
                Query(
                    _sum(of.ADMITTED_ACTIVE_WORKLOADS, "cluster_queue").expr,
                    "{{cluster_queue}} admitted",
                ),
            ),
        ),
        Panel(
            "Longest wait",
            "s",
            (
                Query(
                    f"time() - min {grouped(of.QUEUE_OLDEST_WAITING, 'cluster_queue')}"
                    f" ({gauge(of.QUEUE_OLDEST_WAITING, cluster_queue=_QUEUE)})",
                    "{{cluster_queue}}",
                ),
            ),
        ),
        Panel(
            "Quota in use, as a share of nominal quota",
            "percentunit",
            (
                Query(
                    f"sum {grouped(of.RESERVATION, 'cluster_queue', 'flavor', 'resource')}"
                    f" ({gauge(of.RESERVATION, cluster_queue=_QUEUE)})"
                    f" / sum {grouped(of.NOMINAL_QUOTA, 'cluster_queue', 'flavor', 'resource')}"
                    f" ({gauge(of.NOMINAL_QUOTA, cluster_queue=_QUEUE)})",
                    "{{cluster_queue}} {{flavor}} {{resource}}",
                ),
            ),
            "Above 100% it borrows, or is overcommitted.",
        ),
        Panel(
            "Quota that is overcommitted",
            "short",
            (_sum(of.QUEUE_OVERCOMMITTED, "cluster_queue", "flavor", "resource"),),
        ),
        Panel(
            "Queues that are not active",
            "short",
            (
                Query(
                    f"max {grouped(of.QUEUE_STATUS, 'cluster_queue', 'status')} ("
                    f"{gauge(of.QUEUE_STATUS, cluster_queue=_QUEUE, status=Not('active'))}) > 0",
                    "{{cluster_queue}} {{status}}",
                ),
            ),
        ),
    ),
    "Admission": (
        _latency("Wait for admission", of.ADMISSION_WAIT_SECONDS, "cluster_queue"),
        Panel(
            "Admissions and ends",
            "ops",
            (
                Query(
                    _split(of.ADMITTED_WORKLOADS, "cluster_queue").expr, "{{cluster_queue}} begun"
                ),
                Query(
                    _split(of.FINISHED_WORKLOADS, "cluster_queue").expr, "{{cluster_queue}} ended"
                ),
            ),
        ),
        _latency("Time of a cycle", of.ADMISSION_ATTEMPT_SECONDS, "result"),
        Panel("Evictions", "ops", (_split(of.EVICTED_WORKLOADS, "cluster_queue", "reason"),)),
        Panel(
            "Preemptions",
            "ops",
            (_split(of.PREEMPTED_WORKLOADS, "preempting_cluster_queue", "reason"),),
        ),
        _latency(
            "From admission until pods are ready",
            of.ADMITTED_UNTIL_READY_SECONDS,
            "cluster_queue",
        ),
    ),
    "Watches and credentials": (
        Panel(
            "Age of watches",
            "s",
            (
                Query(
                    f"max {grouped(of.WATCH_AGE, 'instance', 'kind')} ({gauge(of.WATCH_AGE)})",
                    "{{instance}} {{kind}}",
                ),
            ),
        ),
        Panel(
            "Until credentials and certificates end",
            "s",
            (
                Query(f"{gauge(of.CREDENTIAL_END)} - time()", "{{instance}} {{credential}}"),
                Query(f"{gauge(of.CERTIFICATE_END)} - time()", "{{instance}} {{certificate}}"),
                Query(
                    f"({gauge(of.WEBHOOKS_CERTIFICATE_END)} > 0) - time()", "{{instance}} webhooks"
                ),
            ),
        ),
        Panel(
            "Credentials that were refused", "ops", (_split(of.CREDENTIAL_REFUSALS, "instance"),)
        ),
    ),
    "Processes": (
        Panel("Leader", "short", (_sum(of.LEADER, "instance"),)),
        Panel("Longest lag of the event loop", "s", (_sum(of.LOOP_LONGEST_LAG, "instance"),)),
        Panel(
            "Internal errors in an hour",
            "short",
            (
                Query(
                    f"sum {grouped(of.INTERNAL_ERRORS, 'instance', 'where')}"
                    f" ({increase(of.INTERNAL_ERRORS, '1h')})",
                    "{{instance}} {{where}}",
                ),
            ),
        ),
        Panel("Reconciliations", "ops", (_split(of.RECONCILES, "controller", "result"),)),
        _latency("Time of a reconciliation", of.RECONCILE_SECONDS, "controller"),
        Panel("Events", "ops", (_split(of.EVENTS, "result"),)),
        Panel("Memory", "bytes", (_of_ours(gauge(_MEMORY)),)),
        Panel("CPU", "short", (_of_ours(rate(_CPU, _WINDOW)),)),
        Panel("Objects that are set aside", "short", (_sum(of.SET_ASIDE, "kind"),)),
    ),
}
"""The panels by row."""


def dashboard() -> dict[str, Any]:
    """Return the dashboard, to be imported or provisioned."""
    return {
        "uid": UID,
        "title": "gang-extender",
        "tags": ["kubernetes", "scheduling"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_sources(), _queues()]},
        "panels": list(_panels()),
    }


def expressions() -> list[str]:
    """Return all expressions of the dashboard."""
    panels = (panel for panels in ROWS.values() for panel in panels)
    return [query.expr for panel in panels for query in panel.queries]


def _panels() -> Iterator[dict[str, Any]]:
    number, y = 1, 0
    for row, panels in ROWS.items():
        yield {
            "id": number,
            "type": "row",
            "title": row,
            "collapsed": False,
            "gridPos": {"h": 1, "w": _WIDTH * _IN_LINE, "x": 0, "y": y},
            "panels": [],
        }
        number, y = number + 1, y + 1
        for at, panel in enumerate(panels):
            line, place = divmod(at, _IN_LINE)
            where = {
                "h": _HEIGHT,
                "w": _WIDTH,
                "x": place * _WIDTH,
                "y": y + line * _HEIGHT,
            }
            yield _panel(panel, number, where)
            number += 1
        y += -(-len(panels) // _IN_LINE) * _HEIGHT


def _panel(panel: Panel, number: int, where: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "gridPos": where,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": _SOURCE,
                "expr": line.expr,
                "legendFormat": line.legend,
            }
            for at, line in enumerate(panel.queries)
        ],
    }


def _sources() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }


def _queues() -> dict[str, Any]:
    return {
        "name": "cluster_queue",
        "label": "ClusterQueue",
        "type": "query",
        "datasource": _SOURCE,
        "query": f"label_values({gauge(of.QUEUE_STATUS)}, cluster_queue)",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
