"""All metrics of the reconciler, in one place."""

from prometheus_client import Counter, Gauge, Histogram

from extender.telemetry.metrics import closed_connections, handshakes, new_registry

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class ReconcilerMetrics:
    """The collectors, on a registry of their own so that tests do not share them."""

    def __init__(self) -> None:
        self.registry = new_registry()
        self.reconcile_seconds = Histogram(
            "gang_extender_reconcile_duration_seconds",
            "Time to look at one object and to write what follows, by controller.",
            ["controller"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.reconciles = Counter(
            "gang_extender_reconciles_total",
            "Looks at one object, by controller and result.",
            ["controller", "result"],
            registry=self.registry,
        )
        self.groups = Gauge(
            "gang_extender_pod_groups",
            "PodGroups that this process answers for, by phase.",
            ["phase"],
            registry=self.registry,
        )
        self.leader = Gauge(
            "gang_extender_leader",
            "1 while this process leads, else 0.",
            registry=self.registry,
        )
        self.certificate_ends = Gauge(
            "gang_extender_webhooks_certificate_end_timestamp_seconds",
            "When the certificate of the webhooks ends; 0 where none is served.",
            registry=self.registry,
        )
        self.events = Counter(
            "gang_extender_events_total",
            "Events by what became of them: written, known, dropped or failed.",
            ["result"],
            registry=self.registry,
        )

        self.closed_connections = closed_connections(self.registry)
        self.handshakes = handshakes(self.registry)
