"""The metrics of the extender, and those that both processes have."""

from collections.abc import Callable, Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from extender.runtime.faults import FAULTS
from extender.telemetry.faults import FaultCollector

_FAST = (
    0.0001, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075,
    0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 2, 5,
)  # fmt: skip
_SLOW = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 900)


class ProcessMetrics:
    """The collectors of both processes, each object with its own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(FaultCollector(FAULTS))
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.closed_connections = Counter(
            "gang_extender_closed_connections_total",
            "Client connections that were closed, by reason.",
            ["reason"],
            registry=self.registry,
        )
        self.spans = Counter(
            "gang_extender_spans_total",
            "Spans of traces, by what became of them: made, sent or failed. Those that are not "
            "sent and have not failed wait, or were dropped because too many wait.",
            ["result"],
            registry=self.registry,
        )
        self.handshakes = Gauge(
            "gang_extender_unfinished_handshakes",
            "Client connections that have not finished their TLS handshake.",
            registry=self.registry,
        )


class Metrics(ProcessMetrics):
    """The collectors of the extender."""

    def __init__(self) -> None:
        super().__init__()
        histogram = partial(Histogram, registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        self.request_seconds = histogram(
            "gang_extender_request_duration_seconds",
            "Time to answer a request of kube-scheduler, without the time that it is held.",
            ["verb"],
            buckets=_FAST,
        )
        self.decisions = counter(
            "gang_extender_decisions_total",
            "Answers to kube-scheduler, by verb and reason.",
            ["verb", "reason"],
        )
        self.permit_wait_seconds = histogram(
            "gang_extender_permit_wait_duration_seconds",
            "Time that a bind request was held until its gang was complete or rejected.",
            ["result"],
            buckets=_SLOW,
        )
        self.binding_seconds = histogram(
            "gang_extender_binding_duration_seconds",
            "Time to write a Binding to the API server, retries included.",
            ["result"],
            buckets=_FAST,
        )
        self.bindings = counter(
            "gang_extender_bindings_total",
            "Bindings that were written or failed, asked for by kube-scheduler or ahead of that.",
            ["path", "result"],
        )
        self.pause_seconds = histogram(
            "gang_extender_pause_duration_seconds",
            "Time that filter's answer about a member was held back while Bindings went out.",
            ["end"],
            buckets=_FAST,
        )
        self.ahead_skipped = counter(
            "gang_extender_ahead_skipped_total",
            "Members that could not be bound together with their gang, by why.",
            ["why"],
        )
        self.groups_begun = counter(
            "gang_extender_groups_begun_total",
            "Groups whose members began to be bound together, by what began them.",
            ["by"],
        )
        self.preemptions = counter(
            "gang_extender_preemptions_total",
            "Preemptions of gangs: Evicting at their begin, NoVictims for each look that came to "
            "nothing, and the reasons of their ends.",
            ["reason"],
        )
        self.preempting = gauge(
            "gang_extender_preempting_groups", "Groups that wait for victims to make room."
        )
        self.events = counter(
            "gang_extender_events_total",
            "Events about pods, by what became of them: written, known, dropped or failed.",
            ["result"],
        )
        self.waiting_pods = gauge(
            "gang_extender_waiting_pods", "Bind requests that are held for the rest of their gang."
        )
        self.reserved_pods = gauge(
            "gang_extender_reserved_pods", "Pods that a plan keeps room for."
        )
        self.claims = gauge(
            "gang_extender_claims",
            "Groups that have waited so long that nodes are reserved for them.",
        )
        self.unseen_pods = gauge(
            "gang_extender_unseen_pods",
            "Pods that were bound ahead of kube-scheduler, and that it may not have seen yet.",
        )
        self.scheduler_behind = gauge(
            "gang_extender_scheduler_behind",
            "Whether kube-scheduler brought a pod that had long been bound: 0 or 1.",
        )
        self.disagreements = gauge(
            "gang_extender_scheduler_disagreements",
            "Pods for which kube-scheduler keeps finding room that the extender does not find.",
        )
        self.woken_pods = counter(
            "gang_extender_woken_pods_total",
            "Pods that were patched so that kube-scheduler retries them, by how.",
            ["how"],
        )
        self.wake_failures = counter(
            "gang_extender_wake_failures_total",
            "Failed patches that should have made kube-scheduler retry a pod, by error.",
            ["error"],
        )

    def show_certificates(self, ends: Callable[[], Mapping[str, float]]) -> None:
        """Register when each served certificate expires, in seconds since the epoch."""
        gauge = Gauge(
            "gang_extender_certificate_end_timestamp_seconds",
            "When the served certificate expires, and the last authority for clients.",
            ["certificate"],
            registry=self.registry,
        )
        for name in ends():
            gauge.labels(name).set_function(lambda name=name: ends()[name])  # type: ignore[misc]

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
