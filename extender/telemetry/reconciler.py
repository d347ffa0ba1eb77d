"""All metrics of the reconciler, in one place."""

from functools import partial

from prometheus_client import Counter, Gauge, Histogram

from extender.telemetry.metrics import ProcessMetrics

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class ReconcilerMetrics(ProcessMetrics):
    """The collectors of the reconciler."""

    def __init__(self) -> None:
        super().__init__()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        self.reconcile_seconds = Histogram(
            "gang_extender_reconcile_duration_seconds",
            "Time of one reconciliation, by controller.",
            ["controller"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.reconciles = counter(
            "gang_extender_reconciles_total",
            "Reconciliations, by controller and result.",
            ["controller", "result"],
        )
        self.groups = gauge(
            "gang_extender_pod_groups", "PodGroups that this process manages, by phase.", ["phase"]
        )
        self.leader = gauge("gang_extender_leader", "1 while this process leads, else 0.")
        self.certificate_ends = gauge(
            "gang_extender_webhooks_certificate_end_timestamp_seconds",
            "When the certificate of the webhooks expires; 0 where none is served.",
        )
        self.victims = counter(
            "gang_extender_preemption_victims_total",
            "Victims of preempting gangs, by how they were made to leave: pods that were evicted, "
            "pods that were deleted against their disruption budget, workloads.",
            ["how"],
        )
        self.events = counter(
            "gang_extender_events_total",
            "Events by result: written, known, dropped or failed.",
            ["result"],
        )
