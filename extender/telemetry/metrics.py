"""All metrics of the extender, in one place."""

from collections.abc import Callable, Mapping

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


class Metrics:
    """The collectors, on a registry of their own so that tests do not share them."""

    def __init__(self) -> None:
        self.registry = new_registry()
        self.request_seconds = Histogram(
            "gang_extender_request_duration_seconds",
            "Time to answer a request of kube-scheduler, without the time a bind is held.",
            ["verb"],
            buckets=_FAST,
            registry=self.registry,
        )
        self.decisions = Counter(
            "gang_extender_decisions_total",
            "Answers to kube-scheduler, by verb and reason.",
            ["verb", "reason"],
            registry=self.registry,
        )
        self.permit_wait_seconds = Histogram(
            "gang_extender_permit_wait_duration_seconds",
            "Time that a bind request was held until its gang was complete or sent away.",
            ["result"],
            buckets=_SLOW,
            registry=self.registry,
        )
        self.binding_seconds = Histogram(
            "gang_extender_binding_duration_seconds",
            "Time to write a Binding to the API server, retries included.",
            ["result"],
            buckets=_FAST,
            registry=self.registry,
        )
        self.waiting_pods = Gauge(
            "gang_extender_waiting_pods",
            "Bind requests that are held for the rest of their gang.",
            registry=self.registry,
        )
        self.reserved_pods = Gauge(
            "gang_extender_reserved_pods",
            "Pods that a plan keeps room for.",
            registry=self.registry,
        )
        self.claims = Gauge(
            "gang_extender_claims",
            "Groups that have waited so long that nodes are set aside for them.",
            registry=self.registry,
        )
        self.disagreements = Gauge(
            "gang_extender_scheduler_disagreements",
            "Pods for which kube-scheduler goes on seeing room that the extender does not see.",
            registry=self.registry,
        )
        self.woken_pods = Counter(
            "gang_extender_woken_pods_total",
            "Pods that were patched so that kube-scheduler tries them again, by how.",
            ["how"],
            registry=self.registry,
        )

        self.wake_failures = Counter(
            "gang_extender_wake_failures_total",
            "Patches that should have had kube-scheduler try a pod again and failed, by the error.",
            ["error"],
            registry=self.registry,
        )
        self.closed_connections = closed_connections(self.registry)
        self.handshakes = handshakes(self.registry)

    def tell_of_certificates(self, ends: Callable[[], Mapping[str, float]]) -> None:
        """Show when each certificate ends that is served with, in seconds since the epoch."""
        gauge = Gauge(
            "gang_extender_certificate_end_timestamp_seconds",
            "When the certificate that is served ends, and the last authority for clients.",
            ["certificate"],
            registry=self.registry,
        )
        for name in ends():
            gauge.labels(name).set_function(lambda name=name: ends()[name])  # type: ignore[misc]

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


def closed_connections(registry: CollectorRegistry) -> Counter:
    """Return the count of connections that either process cut off."""
    return Counter(
        "gang_extender_closed_connections_total",
        "Connections of clients that were cut off, by reason.",
        ["reason"],
        registry=registry,
    )


def handshakes(registry: CollectorRegistry) -> Gauge:
    """Return the gauge of TLS handshakes of clients that are under way in either process."""
    return Gauge(
        "gang_extender_unfinished_handshakes",
        "Connections of clients that have not finished their TLS handshake.",
        registry=registry,
    )


def new_registry() -> CollectorRegistry:
    """Return a registry that tells of the process and of nothing else yet."""
    registry = CollectorRegistry()
    registry.register(FaultCollector(FAULTS))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
