"""The metrics of the processes, but for those of the queue."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Final, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from typing_extensions import override

from extender.runtime.clock import Pacer
from extender.runtime.faults import FAULTS, Faults

FAST: Final = (
    0.0001, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075,
    0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 2, 5,
)  # fmt: skip
WORK: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
WAITS: Final = (
    0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240,
)  # fmt: skip


class ComputedMetrics(Collector):
    """Metrics that are computed for each page. If that fails the page has none of them."""

    def __init__(self, compute: Callable[[], Iterable[Metric]]) -> None:
        self._compute = compute

    @override
    def collect(self) -> Iterable[Metric]:
        """Return the current metrics, or none."""
        try:
            return list(self._compute())
        except Exception as error:  # noqa: BLE001 - another metric counts it
            FAULTS.report("metrics", error, key=self._compute)
            return []


def internal_errors(faults: Faults) -> Iterator[Metric]:
    """Yield the counter of internal errors by the place where they were caught."""
    found = CounterMetricFamily(
        "gang_extender_internal_errors",
        "Unexpected errors, each confined to one object, by where: each is a bug, and the log"
        " has its traceback.",
        labels=("where",),
    )
    for where, count in sorted(faults.counts.items()):
        found.add_metric([where], count)
    yield found


def objects_set_aside(counts: Callable[[], Mapping[str, int]]) -> Iterator[Metric]:
    """Yield the gauge of objects that are set aside, by kind."""
    found = GaugeMetricFamily(
        "gang_extender_objects_set_aside",
        "Objects that cannot be read or judged now, by kind: they are skipped.",
        labels=("kind",),
    )
    for kind, count in sorted(counts().items()):
        found.add_metric([kind], count)
    yield found


def waiting_groups(waiting: Iterable[tuple[str, float]]) -> Iterator[Metric]:
    """Yield how many groups wait by reason, and since when the oldest one does.

    `waiting` has the reason and the start time, in seconds since the epoch, of each group. 50,000
    groups take 20 ms.
    """
    counts: dict[str, int] = {}
    oldest: dict[str, float] = {}
    for reason, since in waiting:
        counts[reason] = counts.get(reason, 0) + 1
        if since < oldest.get(reason, float("inf")):
            oldest[reason] = since
    numbers = GaugeMetricFamily(
        "gang_extender_waiting_groups",
        "PodGroups whose pods exist and that are not scheduled, by the reason of their condition.",
        labels=("reason",),
    )
    begins = GaugeMetricFamily(
        "gang_extender_oldest_waiting_group_timestamp_seconds",
        "Since when the PodGroup has waited that has waited longest, by the reason of its "
        "condition.",
        labels=("reason",),
    )
    for reason, count in sorted(counts.items()):
        numbers.add_metric([reason], count)
        begins.add_metric([reason], oldest[reason])
    yield from (numbers, begins)


def access(
    ages: Mapping[str, float], ends: Mapping[str, float], reads: Mapping[str, int], *, refusals: int
) -> Iterator[Metric]:
    """Yield the metrics of watches and credentials.

    `ages` has the seconds since each watch last received something, `ends` the time at which each
    credential expires, in seconds since 1970, and `reads` how often they were reloaded, by result.
    `refusals` is how often the API server rejected them.
    """
    watches = GaugeMetricFamily(
        "gang_extender_watch_age_seconds",
        "Time since the API server last sent anything on the watch of a kind: an event, or the "
        "bookmark that comes about once a minute.",
        labels=("kind",),
    )
    for kind, age in ages.items():
        watches.add_metric([kind], age)
    credentials = GaugeMetricFamily(
        "gang_extender_credential_end_timestamp_seconds",
        "When a credential for the API server expires; none where that is not known.",
        labels=("credential",),
    )
    for credential, end in ends.items():
        credentials.add_metric([credential], end)
    reloads = CounterMetricFamily(
        "gang_extender_credential_reads",
        "Credentials for the API server that were reloaded, by result: renewed, unchanged or "
        "failed.",
        labels=("result",),
    )
    for result in ("renewed", "unchanged", "failed"):
        reloads.add_metric([result], reads.get(result, 0))
    refused = CounterMetricFamily(
        "gang_extender_credential_refusals",
        "Requests whose credentials the API server rejected (401, or the certificate).",
    )
    refused.add_metric([], refusals)
    yield from (watches, credentials, reloads, refused)


class ProcessMetrics:
    """The collectors of both processes, each object with its own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(ComputedMetrics(partial(internal_errors, FAULTS)))
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._counter = partial(Counter, registry=self.registry)
        self._gauge = partial(Gauge, registry=self.registry)
        self._histogram = partial(Histogram, registry=self.registry)
        self.closed_connections = self._counter(
            "gang_extender_closed_connections_total",
            "Client connections that were closed, by reason.",
            ("reason",),
        )
        self.spans = self._counter(
            "gang_extender_spans_total",
            "Spans of traces, by what became of them: made, sent or failed. Those that are not "
            "sent and have not failed wait, or were dropped because too many wait.",
            ("result",),
        )
        self.handshakes = self._gauge(
            "gang_extender_unfinished_handshakes",
            "Client connections that have not finished their TLS handshake.",
        )
        self.events = self._counter(
            "gang_extender_events_total",
            "Events by result: written, known, dropped or failed.",
            ("result",),
        )


class Metrics(ProcessMetrics):
    """The collectors of the extender."""

    def __init__(self) -> None:
        super().__init__()
        self.request_seconds = self._histogram(
            "gang_extender_request_duration_seconds",
            "Time to answer a request of kube-scheduler; of bind without its waits.",
            ("verb",),
            buckets=FAST,
        )
        self.decisions = self._counter(
            "gang_extender_decisions_total",
            "Answers to kube-scheduler, by verb and reason.",
            ("verb", "reason"),
        )
        self.permit_wait_seconds = self._histogram(
            "gang_extender_permit_wait_duration_seconds",
            "Time that a bind request was held until its gang was complete or rejected.",
            ("result",),
            buckets=WAITS,
        )
        self.binding_seconds = self._histogram(
            "gang_extender_binding_duration_seconds",
            "Time to write a Binding to the API server, retries included.",
            ("result",),
            buckets=FAST,
        )
        self.bindings = self._counter(
            "gang_extender_bindings_total",
            "Bindings that were written or failed, asked for by kube-scheduler or ahead of that.",
            ("path", "result"),
        )
        self.ahead_skipped = self._counter(
            "gang_extender_ahead_skipped_total",
            "Members that could not be bound together with their gang, by why.",
            ("why",),
        )
        self.groups_begun = self._counter(
            "gang_extender_groups_begun_total",
            "Groups whose members began to be bound together, by what began them.",
            ("by",),
        )
        self.preemptions = self._counter(
            "gang_extender_preemptions_total",
            "Preemptions of gangs: Evicting at their begin, NoVictims for each look that came to "
            "nothing, and the reasons of their ends.",
            ("reason",),
        )
        self.preempting = self._gauge(
            "gang_extender_preempting_groups", "Groups that wait for victims to make room."
        )
        self.waiting_pods = self._gauge(
            "gang_extender_waiting_pods", "Bind requests that are held for the rest of their gang."
        )
        self.reserved_pods = self._gauge(
            "gang_extender_reserved_pods", "Pods that a plan keeps room for."
        )
        self.claims = self._gauge(
            "gang_extender_claims",
            "Groups that have waited so long that nodes are reserved for them.",
        )
        self.unseen_pods = self._gauge(
            "gang_extender_unseen_pods",
            "Pods that were bound ahead of kube-scheduler, and that it may not have seen yet.",
        )
        self.scheduler_behind = self._gauge(
            "gang_extender_scheduler_behind",
            "Whether kube-scheduler brought a pod that had long been bound: 0 or 1.",
        )
        self.disagreements = self._gauge(
            "gang_extender_scheduler_disagreements",
            "Pods for which kube-scheduler keeps finding room that the extender does not find.",
        )
        self.woken_pods = self._counter(
            "gang_extender_woken_pods_total",
            "Pods that were patched so that kube-scheduler retries them, by how.",
            ("how",),
        )
        self.wake_failures = self._counter(
            "gang_extender_wake_failures_total",
            "Failed patches that should have made kube-scheduler retry a pod, by error.",
            ("error",),
        )
        self._certificate_ends = self._gauge(
            "gang_extender_certificate_end_timestamp_seconds",
            "When the served certificate expires, and the last authority for clients.",
            ("certificate",),
        )
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


class ReconcilerMetrics(ProcessMetrics):
    """The collectors of the reconciler."""

    def __init__(self) -> None:
        super().__init__()
        self.reconcile_seconds = self._histogram(
            "gang_extender_reconcile_duration_seconds",
            "Time of one reconciliation, by controller.",
            ("controller",),
            buckets=WORK,
        )
        self.reconciles = self._counter(
            "gang_extender_reconciles_total",
            "Reconciliations, by controller and result.",
            ("controller", "result"),
        )
        self.groups = self._gauge(
            "gang_extender_pod_groups", "PodGroups that this process manages, by phase.", ("phase",)
        )
        self.leader = self._gauge("gang_extender_leader", "1 while this process leads, else 0.")
        self.certificate_ends = self._gauge(
            "gang_extender_webhooks_certificate_end_timestamp_seconds",
            "When the certificate of the webhooks expires; 0 where none is served.",
        )
        self.victims = self._counter(
            "gang_extender_preemption_victims_total",
            "Victims of preempting gangs, by how they were made to leave: pods that were evicted, "
            "pods that were deleted against their disruption budget, jobs and workloads.",
            ("how",),
        )


def lags(registry: CollectorRegistry, longest: Callable[[], float]) -> Callable[[float], None]:
    """Return the observer of a lag; `longest` returns the last minute's longest, in seconds."""
    lag = Gauge(
        "gang_extender_event_loop_longest_lag_seconds",
        "The longest lag of the event loop in the last minute.",
        registry=registry,
    )
    lag.set_function(longest)
    found = Histogram(
        "gang_extender_event_loop_lag_seconds",
        "How late the event loop was, measured twenty times a second.",
        buckets=WORK,
        registry=registry,
    )
    return found.observe


async def page(registry: CollectorRegistry, pacer: Pacer, prepare: Iterable[None] = ()) -> bytes:
    """Return all metrics in Prometheus' text format; the steps of `prepare` are taken first."""
    with suppress(Exception):  # the collector meets the same error, and its guard reports it
        await pacer.go_through(prepare)
    parts: list[bytes] = []
    for family in registry.collect():
        parts.append(generate_latest(cast("CollectorRegistry", _One(family))))
        if pacer.is_due:
            await pacer.rest()
    return b"".join(parts)


class _One:
    """A registry of one family."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        """Yield the family."""
        yield self._family
