"""The definitions of all metrics: what the processes export, alerts watch and the dashboard shows.

Metrics of the queue have Kueue's names where the meaning is the same, those of Jobs the names of
KEP-2214.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """One metric, under the name that Prometheus stores."""

    name: str
    help: str
    labels: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class CounterDefinition(MetricDefinition):
    """A number that only grows; its name ends in `_total`."""

    def __post_init__(self) -> None:
        """Refuse a name that the library would store as another one. Raises ValueError."""
        if not self.name.endswith("_total"):
            raise ValueError(f"{self.name}: the name of a counter ends in _total")

    def on(self, registry: CollectorRegistry) -> Counter:
        """Return the counter, registered."""
        return Counter(self.name, self.help, self.labels, registry=registry)

    def counts(self) -> CounterMetricFamily:
        """Return an empty family for a collector."""
        return CounterMetricFamily(self.name.removesuffix("_total"), self.help, labels=self.labels)


@dataclass(frozen=True, slots=True)
class GaugeDefinition(MetricDefinition):
    """A number that rises and falls."""

    def on(self, registry: CollectorRegistry) -> Gauge:
        """Return the gauge, registered."""
        return Gauge(self.name, self.help, self.labels, registry=registry)

    def values(self) -> GaugeMetricFamily:
        """Return an empty family for a collector."""
        return GaugeMetricFamily(self.name, self.help, labels=self.labels)


@dataclass(frozen=True, slots=True)
class HistogramDefinition(MetricDefinition):
    """A distribution; Prometheus stores `_bucket`, `_sum` and `_count` of it."""

    buckets: tuple[float, ...] = field(default=Histogram.DEFAULT_BUCKETS, kw_only=True)

    def on(self, registry: CollectorRegistry) -> Histogram:
        """Return the histogram, registered."""
        return Histogram(self.name, self.help, self.labels, buckets=self.buckets, registry=registry)


_FAST: Final = (
    0.0001, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075,
    0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 2, 5,
)  # fmt: skip
_WORK: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WAITS: Final = (
    0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240,
)  # fmt: skip

# -- both processes

LOOP_LONGEST_LAG: Final = GaugeDefinition(
    "gang_extender_event_loop_longest_lag_seconds",
    "The longest lag of the event loop in the last minute.",
)
LOOP_LAG: Final = HistogramDefinition(
    "gang_extender_event_loop_lag_seconds",
    "How late the event loop was, measured twenty times a second.",
    buckets=_WORK,
)
WATCH_AGE: Final = GaugeDefinition(
    "gang_extender_watch_age_seconds",
    "Time since the API server last sent anything on the watch of a kind: an event, or the "
    "bookmark that comes about once a minute.",
    labels=("kind",),
)
CREDENTIAL_END: Final = GaugeDefinition(
    "gang_extender_credential_end_timestamp_seconds",
    "When a credential for the API server expires; none where that is not known.",
    labels=("credential",),
)
CREDENTIAL_READS: Final = CounterDefinition(
    "gang_extender_credential_reads_total",
    "Credentials for the API server that were reloaded, by result: renewed, unchanged or failed.",
    labels=("result",),
)
CREDENTIAL_REFUSALS: Final = CounterDefinition(
    "gang_extender_credential_refusals_total",
    "Requests whose credentials the API server rejected (401, or the certificate).",
)
SET_ASIDE: Final = GaugeDefinition(
    "gang_extender_objects_set_aside",
    "Objects that cannot be read or judged now, by kind: they are skipped.",
    labels=("kind",),
)
INTERNAL_ERRORS: Final = CounterDefinition(
    "gang_extender_internal_errors_total",
    "Unexpected errors, each confined to one object, by where: each is a bug, and the log"
    " has its traceback.",
    labels=("where",),
)
CLOSED_CONNECTIONS: Final = CounterDefinition(
    "gang_extender_closed_connections_total",
    "Client connections that were closed, by reason.",
    labels=("reason",),
)
SPANS: Final = CounterDefinition(
    "gang_extender_spans_total",
    "Spans of traces, by what became of them: made, sent or failed. Those that are not "
    "sent and have not failed wait, or were dropped because too many wait.",
    labels=("result",),
)
UNFINISHED_HANDSHAKES: Final = GaugeDefinition(
    "gang_extender_unfinished_handshakes",
    "Client connections that have not finished their TLS handshake.",
)
EVENTS: Final = CounterDefinition(
    "gang_extender_events_total",
    "Events by result: written, known, dropped or failed.",
    labels=("result",),
)

# -- the extender

REQUEST_SECONDS: Final = HistogramDefinition(
    "gang_extender_request_duration_seconds",
    "Time to answer a request of kube-scheduler, without the time that it is held.",
    labels=("verb",),
    buckets=_FAST,
)
DECISIONS: Final = CounterDefinition(
    "gang_extender_decisions_total",
    "Answers to kube-scheduler, by verb and reason.",
    labels=("verb", "reason"),
)
PERMIT_WAIT_SECONDS: Final = HistogramDefinition(
    "gang_extender_permit_wait_duration_seconds",
    "Time that a bind request was held until its gang was complete or rejected.",
    labels=("result",),
    buckets=_WAITS,
)
BINDING_SECONDS: Final = HistogramDefinition(
    "gang_extender_binding_duration_seconds",
    "Time to write a Binding to the API server, retries included.",
    labels=("result",),
    buckets=_FAST,
)
BINDINGS: Final = CounterDefinition(
    "gang_extender_bindings_total",
    "Bindings that were written or failed, asked for by kube-scheduler or ahead of that.",
    labels=("path", "result"),
)
AHEAD_SKIPPED: Final = CounterDefinition(
    "gang_extender_ahead_skipped_total",
    "Members that could not be bound together with their gang, by why.",
    labels=("why",),
)
GROUPS_BEGUN: Final = CounterDefinition(
    "gang_extender_groups_begun_total",
    "Groups whose members began to be bound together, by what began them.",
    labels=("by",),
)
PREEMPTIONS: Final = CounterDefinition(
    "gang_extender_preemptions_total",
    "Preemptions of gangs: Evicting at their begin, NoVictims for each look that came to "
    "nothing, and the reasons of their ends.",
    labels=("reason",),
)
PREEMPTING_GROUPS: Final = GaugeDefinition(
    "gang_extender_preempting_groups", "Groups that wait for victims to make room."
)
WAITING_PODS: Final = GaugeDefinition(
    "gang_extender_waiting_pods", "Bind requests that are held for the rest of their gang."
)
RESERVED_PODS: Final = GaugeDefinition(
    "gang_extender_reserved_pods", "Pods that a plan keeps room for."
)
CLAIMS: Final = GaugeDefinition(
    "gang_extender_claims",
    "Groups that have waited so long that nodes are reserved for them.",
)
UNSEEN_PODS: Final = GaugeDefinition(
    "gang_extender_unseen_pods",
    "Pods that were bound ahead of kube-scheduler, and that it may not have seen yet.",
)
SCHEDULER_BEHIND: Final = GaugeDefinition(
    "gang_extender_scheduler_behind",
    "Whether kube-scheduler brought a pod that had long been bound: 0 or 1.",
)
SCHEDULER_DISAGREEMENTS: Final = GaugeDefinition(
    "gang_extender_scheduler_disagreements",
    "Pods for which kube-scheduler keeps finding room that the extender does not find.",
)
WOKEN_PODS: Final = CounterDefinition(
    "gang_extender_woken_pods_total",
    "Pods that were patched so that kube-scheduler retries them, by how.",
    labels=("how",),
)
WAKE_FAILURES: Final = CounterDefinition(
    "gang_extender_wake_failures_total",
    "Failed patches that should have made kube-scheduler retry a pod, by error.",
    labels=("error",),
)
CERTIFICATE_END: Final = GaugeDefinition(
    "gang_extender_certificate_end_timestamp_seconds",
    "When the served certificate expires, and the last authority for clients.",
    labels=("certificate",),
)

# -- the reconciler

LEADER: Final = GaugeDefinition("gang_extender_leader", "1 while this process leads, else 0.")
POD_GROUPS: Final = GaugeDefinition(
    "gang_extender_pod_groups", "PodGroups that this process manages, by phase.", labels=("phase",)
)
WAITING_GROUPS: Final = GaugeDefinition(
    "gang_extender_waiting_groups",
    "PodGroups whose pods exist and that are not scheduled, by the reason of their condition.",
    labels=("reason",),
)
OLDEST_WAITING_GROUP: Final = GaugeDefinition(
    "gang_extender_oldest_waiting_group_timestamp_seconds",
    "Since when the PodGroup has waited that has waited longest, by the reason of its condition.",
    labels=("reason",),
)
RECONCILE_SECONDS: Final = HistogramDefinition(
    "gang_extender_reconcile_duration_seconds",
    "Time of one reconciliation, by controller.",
    labels=("controller",),
    buckets=_WORK,
)
RECONCILES: Final = CounterDefinition(
    "gang_extender_reconciles_total",
    "Reconciliations, by controller and result.",
    labels=("controller", "result"),
)
PREEMPTION_VICTIMS: Final = CounterDefinition(
    "gang_extender_preemption_victims_total",
    "Victims of preempting gangs, by how they were made to leave: pods that were evicted, "
    "pods that were deleted against their disruption budget, workloads.",
    labels=("how",),
)
WEBHOOKS_CERTIFICATE_END: Final = GaugeDefinition(
    "gang_extender_webhooks_certificate_end_timestamp_seconds",
    "When the certificate of the webhooks expires; 0 where none is served.",
)

# -- Jobs

_OF_JOB: Final = ("completion_mode", "result")

JOB_SYNC_SECONDS: Final = HistogramDefinition(
    "job_sync_duration_seconds",
    "Time of one reconciliation of a Job.",
    labels=_OF_JOB,
    buckets=_WORK,
)
JOB_SYNCS: Final = CounterDefinition(
    "job_sync_total", "Reconciliations of a Job, by result: success or error.", labels=_OF_JOB
)
JOBS_FINISHED: Final = CounterDefinition(
    "job_finished_total",
    "Jobs of queues that have ended, by result: succeeded or failed.",
    labels=_OF_JOB,
)

# -- what happens to workloads

_OF_CLASS: Final = ("cluster_queue", "priority_class")
_OF_EVICTION: Final = ("cluster_queue", "reason", "underlying_cause")

ADMISSION_ATTEMPTS: Final = CounterDefinition(
    "kueue_admission_attempts_total",
    "Workloads that a cycle tried, by result: success or inadmissible.",
    labels=("result",),
)
ADMISSION_ATTEMPT_SECONDS: Final = HistogramDefinition(
    "kueue_admission_attempt_duration_seconds",
    "Time of one cycle, by whether it admitted a workload.",
    labels=("result",),
)
ADMITTED_WORKLOADS: Final = CounterDefinition(
    "kueue_admitted_workloads_total", "Workloads that were admitted.", labels=_OF_CLASS
)
QUOTA_RESERVED_WORKLOADS: Final = CounterDefinition(
    "kueue_quota_reserved_workloads_total", "Workloads that got quota.", labels=_OF_CLASS
)
ADMISSION_WAIT_SECONDS: Final = HistogramDefinition(
    "kueue_admission_wait_time_seconds",
    "Time from when a workload was created or requeued to its admission.",
    labels=_OF_CLASS,
    buckets=_WAITS,
)
QUOTA_RESERVED_WAIT_SECONDS: Final = HistogramDefinition(
    "kueue_quota_reserved_wait_time_seconds",
    "Time from when a workload was created or requeued to its quota.",
    labels=_OF_CLASS,
    buckets=_WAITS,
)
READY_WAIT_SECONDS: Final = HistogramDefinition(
    "kueue_ready_wait_time_seconds",
    "Time from when a workload was created or requeued until its pods were ready.",
    labels=_OF_CLASS,
    buckets=_WAITS,
)
ADMITTED_UNTIL_READY_SECONDS: Final = HistogramDefinition(
    "kueue_admitted_until_ready_wait_time_seconds",
    "Time from the admission of a workload until its pods were ready.",
    labels=_OF_CLASS,
    buckets=_WAITS,
)
READY_UNTIL_EVICTED_SECONDS: Final = HistogramDefinition(
    "kueue_pods_ready_to_evicted_time_seconds",
    "Time from when the pods of a workload were ready until it was evicted.",
    labels=_OF_EVICTION,
    buckets=_WAITS,
)
EVICTED_WORKLOADS: Final = CounterDefinition(
    "kueue_evicted_workloads_total",
    "Workloads that were evicted, by reason and underlying cause.",
    labels=(*_OF_EVICTION, "priority_class"),
)
PREEMPTED_WORKLOADS: Final = CounterDefinition(
    "kueue_preempted_workloads_total",
    "Workloads that were preempted, by the ClusterQueue of the preemptor.",
    labels=("preempting_cluster_queue", "reason"),
)
FINISHED_WORKLOADS: Final = CounterDefinition(
    "kueue_finished_workloads_total", "Workloads that have finished.", labels=_OF_CLASS
)
BUILD_INFO: Final = GaugeDefinition(
    "kueue_build_info",
    "Always 1; the labels are the version and the platform.",
    labels=("git_version", "compiler", "platform"),
)

# -- queues, on the leader

_OF_QUEUE: Final = ("cluster_queue",)
_OF_LOCAL: Final = ("name", "namespace")
_OF_AMOUNT: Final = ("cohort", "cluster_queue", "flavor", "resource")

PENDING_WORKLOADS: Final = GaugeDefinition(
    "kueue_pending_workloads",
    "Workloads that wait, by status: active ones are tried, inadmissible ones wait for a change.",
    labels=(*_OF_QUEUE, "status"),
)
RESERVING_WORKLOADS: Final = GaugeDefinition(
    "kueue_reserving_active_workloads",
    "Workloads that have quota and have not finished.",
    labels=_OF_QUEUE,
)
ADMITTED_ACTIVE_WORKLOADS: Final = GaugeDefinition(
    "kueue_admitted_active_workloads",
    "Workloads that are admitted and have not finished.",
    labels=_OF_QUEUE,
)
QUEUE_STATUS: Final = GaugeDefinition(
    "kueue_cluster_queue_status",
    "1 for the status that a ClusterQueue has: pending, active or terminating.",
    labels=(*_OF_QUEUE, "status"),
)
RESERVATION: Final = GaugeDefinition(
    "kueue_cluster_queue_resource_reservation",
    "Quota that workloads have, in cores, bytes or units.",
    labels=_OF_AMOUNT,
)
USAGE: Final = GaugeDefinition(
    "kueue_cluster_queue_resource_usage",
    "Quota that admitted workloads have, in cores, bytes or units.",
    labels=_OF_AMOUNT,
)
NOMINAL_QUOTA: Final = GaugeDefinition(
    "kueue_cluster_queue_nominal_quota", "Nominal quota of a ClusterQueue.", labels=_OF_AMOUNT
)
BORROWING_LIMIT: Final = GaugeDefinition(
    "kueue_cluster_queue_borrowing_limit",
    "How much a ClusterQueue may borrow, where that is limited.",
    labels=_OF_AMOUNT,
)
LENDING_LIMIT: Final = GaugeDefinition(
    "kueue_cluster_queue_lending_limit",
    "How much a ClusterQueue lends, where that is limited.",
    labels=_OF_AMOUNT,
)
LOCAL_PENDING_WORKLOADS: Final = GaugeDefinition(
    "kueue_local_queue_pending_workloads",
    "Workloads of a LocalQueue that wait, by status.",
    labels=(*_OF_LOCAL, "status"),
)
LOCAL_RESERVING_WORKLOADS: Final = GaugeDefinition(
    "kueue_local_queue_reserving_active_workloads",
    "Workloads of a LocalQueue that have quota and have not finished.",
    labels=_OF_LOCAL,
)
LOCAL_ADMITTED_WORKLOADS: Final = GaugeDefinition(
    "kueue_local_queue_admitted_active_workloads",
    "Workloads of a LocalQueue that are admitted and have not finished.",
    labels=_OF_LOCAL,
)
QUEUE_RESERVED_WORKLOADS: Final = GaugeDefinition(
    "gang_extender_queue_reserved_workloads", "Workloads that wait and for which room is kept."
)
QUEUE_OLDEST_WAITING: Final = GaugeDefinition(
    "gang_extender_queue_oldest_waiting_timestamp_seconds",
    "Since when the workload of a ClusterQueue has waited that has waited longest.",
    labels=_OF_QUEUE,
)
QUEUE_OVERCOMMITTED: Final = GaugeDefinition(
    "gang_extender_queue_overcommitted_quota",
    "How much more quota is in use than a ClusterQueue, with its cohort, may have; in cores, bytes "
    "or units.",
    labels=_OF_AMOUNT,
)
QUEUE_IGNORED_FIELDS: Final = GaugeDefinition(
    "gang_extender_queue_ignored_fields",
    "Queues, cohorts and flavors with a field of Kueue that has no effect here, by kind and field.",
    labels=("kind", "field"),
)


def every() -> Iterator[MetricDefinition]:
    """Yield the definitions, in the order of this file."""
    yield from (each for each in globals().values() if isinstance(each, MetricDefinition))
