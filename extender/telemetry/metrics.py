"""The metrics of the extender, and those that both processes have."""

from collections.abc import Callable, Mapping
from itertools import product

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from extender.runtime.faults import FAULTS
from extender.telemetry import definitions
from extender.telemetry.faults import FaultCollector


class ProcessMetrics:
    """The collectors of both processes, each object with its own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(FaultCollector(FAULTS))
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.closed_connections = definitions.CLOSED_CONNECTIONS.on(self.registry)
        self.spans = definitions.SPANS.on(self.registry)
        self.handshakes = definitions.UNFINISHED_HANDSHAKES.on(self.registry)
        self.events = definitions.EVENTS.on(self.registry)


class Metrics(ProcessMetrics):
    """The collectors of the extender."""

    def __init__(self) -> None:
        super().__init__()
        self.request_seconds = definitions.REQUEST_SECONDS.on(self.registry)
        self.decisions = definitions.DECISIONS.on(self.registry)
        self.permit_wait_seconds = definitions.PERMIT_WAIT_SECONDS.on(self.registry)
        self.binding_seconds = definitions.BINDING_SECONDS.on(self.registry)
        self.bindings = definitions.BINDINGS.on(self.registry)
        self.pause_seconds = definitions.PAUSE_SECONDS.on(self.registry)
        self.arrival_pause_seconds = definitions.ARRIVAL_PAUSE_SECONDS.on(self.registry)
        self.ahead_skipped = definitions.AHEAD_SKIPPED.on(self.registry)
        self.groups_begun = definitions.GROUPS_BEGUN.on(self.registry)
        self.preemptions = definitions.PREEMPTIONS.on(self.registry)
        self.preempting = definitions.PREEMPTING_GROUPS.on(self.registry)
        self.waiting_pods = definitions.WAITING_PODS.on(self.registry)
        self.reserved_pods = definitions.RESERVED_PODS.on(self.registry)
        self.claims = definitions.CLAIMS.on(self.registry)
        self.unseen_pods = definitions.UNSEEN_PODS.on(self.registry)
        self.scheduler_behind = definitions.SCHEDULER_BEHIND.on(self.registry)
        self.disagreements = definitions.SCHEDULER_DISAGREEMENTS.on(self.registry)
        self.woken_pods = definitions.WOKEN_PODS.on(self.registry)
        self.wake_failures = definitions.WAKE_FAILURES.on(self.registry)
        self._certificate_ends = definitions.CERTIFICATE_END.on(self.registry)
        for path, result in product(("asked", "ahead"), ("ok", "error")):
            self.bindings.labels(path, result)  # a count that begins at 1 would not have increased

    def show_certificates(self, ends: Callable[[], Mapping[str, float]]) -> None:
        """Show when each served certificate expires, in seconds since the epoch."""
        for name in ends():
            end = self._certificate_ends.labels(name)
            end.set_function(lambda name=name: ends()[name])  # type: ignore[misc]

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
