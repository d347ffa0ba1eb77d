"""The alerts on the metrics of both processes, and the rules of Prometheus that they make.

Every alert has a heading of its name in a page of `docs/runbooks`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from extender.api.reasons import EventReason, Reason
from extender.api.wellknown import Phase
from extender.telemetry import definitions as of
from extender.telemetry.promql import (
    Not,
    any_of,
    apart,
    gauge,
    grouped,
    increase,
    rate,
    total,
)

RUNBOOKS: Final = "docs/runbooks/"
"""Where the pages are in a checkout; another base of their addresses may be given."""
STALE_SECONDS: Final = 180
"""The default of `kube.staleSeconds`."""

_DAY: Final = 86_400
_WEEK: Final = 7 * _DAY

STARTS_SOON: Final = (
    Reason.WAITING_FOR_BIND,
    EventReason.PARTIALLY_SCHEDULED,
    Reason.MEMBER_UNSCHEDULABLE,
    Reason.RECENTLY_DENIED,
)
"""Reasons of the condition of a group that lacks neither pods nor room: it should start soon."""
WAITS_FOR_ROOM: Final = (Reason.NOT_ENOUGH_RESOURCES, Reason.WAITING_FOR_TURN)


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. Texts may use `{{ $labels.x }}` and `{{ $value }}`."""

    name: str
    page: str
    """Its runbook, a file of `docs/runbooks` without its ending."""
    severity: str
    expr: str
    lasts: str
    """For how long the expression has to hold."""
    summary: str
    description: str

    def rule(self, base: str) -> dict[str, Any]:
        """Return the rule; `base` is where the runbooks are."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.lasts,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{base}{self.page}.md#{self.name.lower()}",
            },
        }


_GANGS: Final = (
    Alert(
        "GangExtenderGangStuck",
        *("stuck-gang", "warning"),
        f"time() - {gauge(of.OLDEST_WAITING_GROUP, reason=any_of(*STARTS_SOON))} > 1800",
        "5m",
        "A gang that should start does not.",
        "A PodGroup has waited for {{ $value | humanizeDuration }} with the reason "
        "{{ $labels.reason }}: it lacks neither pods nor room.",
    ),
    Alert(
        "GangExtenderGangNeverFits",
        *("stuck-gang", "warning"),
        f"{gauge(of.WAITING_GROUPS, reason=Reason.NEVER_FITS)} > 0",
        "30m",
        "A gang is too large for the cluster.",
        "{{ $value }} PodGroups would not fit on the usable nodes if these were empty.",
    ),
    Alert(
        "GangExtenderGangWaitsLong",
        *("stuck-gang", "info"),
        f"time() - {gauge(of.OLDEST_WAITING_GROUP, reason=any_of(*WAITS_FOR_ROOM))} > {_DAY}",
        "15m",
        "A gang has waited for room for more than a day.",
        "A PodGroup has waited for {{ $value | humanizeDuration }} with the reason "
        "{{ $labels.reason }}.",
    ),
    Alert(
        "GangExtenderBindsFail",
        *("failing-binds", "critical"),
        f"sum {apart(of.BINDINGS, 'path', 'result')} ({rate(of.BINDINGS, '10m', result='error')})"
        f" / sum {apart(of.BINDINGS, 'path', 'result')} ({rate(of.BINDINGS, '10m')}) > 0.1",
        "10m",
        "Bindings of pods fail.",
        "{{ $value | humanizePercentage }} of the Bindings of {{ $labels.instance }} fail.",
    ),
    Alert(
        "GangExtenderWakesFail",
        *("failing-binds", "warning"),
        f"{rate(of.WAKE_FAILURES, '15m', error=Not('Unavailable'))} > 0",
        "10m",
        "The extender may not patch pods.",
        "{{ $labels.instance }} cannot have kube-scheduler try pods again: {{ $labels.error }}.",
    ),
    Alert(
        "GangExtenderSchedulerDisagrees",
        *("kube-scheduler", "warning"),
        f"{gauge(of.SCHEDULER_DISAGREEMENTS)} > 0",
        "10m",
        "kube-scheduler sees room that the extender does not see.",
        "{{ $value }} pods wait because {{ $labels.instance }} counts what kube-scheduler ignores.",
    ),
    Alert(
        "GangExtenderSchedulerBehind",
        *("kube-scheduler", "warning"),
        f"{gauge(of.SCHEDULER_BEHIND)} > 0",
        "10m",
        "kube-scheduler takes long over the events of its watch.",
        "{{ $labels.instance }} binds nothing ahead of kube-scheduler meanwhile.",
    ),
)

_QUEUES: Final = (
    Alert(
        "GangExtenderQueueStalled",
        *("queue-stalls", "warning"),
        f"time() - max {grouped(of.QUEUE_OLDEST_WAITING, 'cluster_queue')}"
        f" ({gauge(of.QUEUE_OLDEST_WAITING)}) > 1800"
        f" and on (cluster_queue) sum {grouped(of.RESERVING_WORKLOADS, 'cluster_queue')}"
        f" ({gauge(of.RESERVING_WORKLOADS)}) == 0"
        f" and on (cluster_queue) max {grouped(of.QUEUE_STATUS, 'cluster_queue')}"
        f" ({gauge(of.QUEUE_STATUS, status='active')}) == 1",
        "5m",
        "A queue admits nothing.",
        "A workload of the ClusterQueue {{ $labels.cluster_queue }} has waited for "
        "{{ $value | humanizeDuration }}, and no workload of it has quota.",
    ),
    Alert(
        "GangExtenderQueueInactive",
        *("queue-stalls", "warning"),
        f"sum {grouped(of.PENDING_WORKLOADS, 'cluster_queue')} ({gauge(of.PENDING_WORKLOADS)}) > 0"
        f" and on (cluster_queue) max {grouped(of.QUEUE_STATUS, 'cluster_queue')}"
        f" ({gauge(of.QUEUE_STATUS, status='pending')}) == 1",
        "30m",
        "Workloads wait in a queue that is not active.",
        "{{ $value }} workloads wait in the ClusterQueue {{ $labels.cluster_queue }}.",
    ),
    Alert(
        "GangExtenderQuotaOvercommitted",
        *("quota-overcommitted", "warning"),
        f"{gauge(of.QUEUE_OVERCOMMITTED)} > 0",
        "15m",
        "More quota is in use than there is.",
        "The ClusterQueue {{ $labels.cluster_queue }} has {{ $value | humanize }} of "
        "{{ $labels.resource }} of the flavor {{ $labels.flavor }} more than it may have.",
    ),
)

_PROCESSES: Final = (
    Alert(
        "GangExtenderWatchStale",
        *("stale-watch", "critical"),
        f"{gauge(of.WATCH_AGE)} > {STALE_SECONDS}",
        "1m",
        "A watch is silent.",
        "{{ $labels.instance }} has seen nothing of {{ $labels.kind }} for "
        "{{ $value | humanizeDuration }}: it is not ready.",
    ),
    Alert(
        "GangExtenderClientCertificateEnds",
        *("certificate-ends", "warning"),
        f"{gauge(of.CREDENTIAL_END, credential='client_certificate')} - time() < {_WEEK}",
        "15m",
        "The certificate for the API server ends soon.",
        "The client certificate of {{ $labels.instance }} ends in {{ $value | humanizeDuration }} "
        "and was not renewed.",
    ),
    Alert(
        "GangExtenderCredentialEnded",
        *("certificate-ends", "critical"),
        f"{gauge(of.CREDENTIAL_END)} < time()",
        "2m",
        "A credential for the API server has ended.",
        "The {{ $labels.credential }} of {{ $labels.instance }} has ended.",
    ),
    Alert(
        "GangExtenderCredentialsRefused",
        *("certificate-ends", "critical"),
        f"{rate(of.CREDENTIAL_REFUSALS, '5m')} > 0",
        "5m",
        "The API server does not accept the credentials.",
        "The API server refuses {{ $labels.instance }}.",
    ),
    Alert(
        "GangExtenderServingCertificateEnds",
        *("certificate-ends", "warning"),
        f"{gauge(of.CERTIFICATE_END)} - time() < {_WEEK}",
        "15m",
        "A certificate that the extender serves or checks ends soon.",
        "The {{ $labels.certificate }} certificate of {{ $labels.instance }} ends in "
        "{{ $value | humanizeDuration }}.",
    ),
    Alert(
        "GangExtenderWebhooksCertificateEnds",
        *("certificate-ends", "critical"),
        f"0 < {gauge(of.WEBHOOKS_CERTIFICATE_END)} < time() + {3 * _DAY}",
        "15m",
        "The certificate of the webhooks ends soon and was not renewed.",
        "When it ends, the API server reaches neither the conversion nor the webhooks of "
        "{{ $labels.instance }}.",
    ),
    Alert(
        "GangExtenderMissing",
        *("extender-down", "critical"),
        f"absent({gauge(of.WAITING_PODS)})",
        "5m",
        "No extender is seen.",
        "Prometheus has metrics of no extender. Without one kube-scheduler starts no gang, and "
        "where its entry is not ignorable no pod.",
    ),
    Alert(
        "GangExtenderNotAsked",
        *("extender-down", "warning"),
        f"sum({gauge(of.POD_GROUPS, phase=Phase.PRE_SCHEDULING)}) > 0"
        f" and sum({increase(of.REQUEST_SECONDS, '30m', verb='filter')}) == 0",
        "15m",
        "kube-scheduler does not ask the extender.",
        "{{ $value }} PodGroups wait for nodes, and no extender was asked for half an hour.",
    ),
    Alert(
        "GangExtenderProcessDown",
        *("extender-down", "warning"),
        'up{job=~"(.*/)?gang-(extender|reconciler|scheduler)"} == 0',
        "5m",
        "A process cannot be scraped.",
        "{{ $labels.instance }} of {{ $labels.job }} does not answer.",
    ),
    Alert(
        "GangExtenderLeaderMissing",
        *("leader-missing", "critical"),
        f"absent({gauge(of.LEADER)}) or sum({gauge(of.LEADER)}) == 0",
        "2m",
        "No reconciler leads.",
        "No job is admitted, and the status of PodGroups stands still.",
    ),
    Alert(
        "GangExtenderTwoLeaders",
        *("leader-missing", "critical"),
        f"sum({gauge(of.LEADER)}) > 1",
        "2m",
        "More than one reconciler leads.",
        "{{ $value }} reconcilers write at once: they have Leases of different names or clusters.",
    ),
    Alert(
        "GangExtenderInternalErrors",
        *("internal-errors", "warning"),
        # A count that is new begins with what has happened already: nothing was increased.
        f"{increase(of.INTERNAL_ERRORS, '15m')} > 0 or"
        f" ({total(of.INTERNAL_ERRORS)} unless {total(of.INTERNAL_ERRORS)} offset 15m) > 0",
        "0m",
        "There are internal errors.",
        "{{ $labels.instance }} had an unexpected error in {{ $labels.where }}: its log has the "
        "traceback.",
    ),
    Alert(
        "GangExtenderReconcilesFail",
        *("internal-errors", "warning"),
        f"sum {apart(of.RECONCILES, 'result')} ({rate(of.RECONCILES, '15m', result='failed')})"
        f" / sum {apart(of.RECONCILES, 'result')} ({rate(of.RECONCILES, '15m')}) > 0.5",
        "15m",
        "A controller fails more often than not.",
        "{{ $value | humanizePercentage }} of what the controller {{ $labels.controller }} does "
        "fails.",
    ),
    Alert(
        "GangExtenderObjectsSetAside",
        *("internal-errors", "info"),
        f"{gauge(of.SET_ASIDE)} > 0",
        "30m",
        "Objects cannot be read.",
        "{{ $labels.instance }} skips {{ $value }} objects of the kind {{ $labels.kind }}.",
    ),
    Alert(
        "GangExtenderLoopLate",
        *("event-loop-late", "warning"),
        f"{gauge(of.LOOP_LONGEST_LAG)} > 5",
        "5m",
        "The event loop of a process is late.",
        "{{ $labels.instance }} was late by {{ $value | humanizeDuration }}: kube-scheduler waits "
        "as long.",
    ),
)

GROUPS: Final[Mapping[str, tuple[Alert, ...]]] = {
    "gang-extender.gangs": _GANGS,
    "gang-extender.queues": _QUEUES,
    "gang-extender.processes": _PROCESSES,
}
"""The alerts, by the group of rules that they are in."""


def rules(base: str = RUNBOOKS) -> dict[str, Any]:
    """Return what a file of rules has, for Prometheus itself; `base` is where the runbooks are."""
    return {
        "groups": [
            {"name": name, "rules": [alert.rule(base) for alert in alerts]}
            for name, alerts in GROUPS.items()
        ]
    }


def prometheus_rule(base: str = RUNBOOKS) -> dict[str, Any]:
    """Return the same as an object for Prometheus' operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "gang-extender",
            "namespace": "gang-extender-system",
            "labels": {"app.kubernetes.io/part-of": "gang-extender"},
        },
        "spec": rules(base),
    }


def every() -> Iterable[Alert]:
    """Return all alerts."""
    return [alert for alerts in GROUPS.values() for alert in alerts]
