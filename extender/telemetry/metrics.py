"""The metrics of the processes, but for those of the queue."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import product
from typing import cast

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from typing_extensions import override

from extender.runtime.faults import FAULTS, Faults
from extender.runtime.pacer import Pacer
from extender.telemetry import definitions


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
    found = definitions.INTERNAL_ERRORS.counts()
    for where, count in sorted(faults.counts.items()):
        found.add_metric([where], count)
    yield found


def objects_set_aside(counts: Callable[[], Mapping[str, int]]) -> Iterator[Metric]:
    """Yield the gauge of objects that are set aside, by kind."""
    found = definitions.SET_ASIDE.values()
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
    numbers = definitions.WAITING_GROUPS.values()
    begins = definitions.OLDEST_WAITING_GROUP.values()
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
    watches = definitions.WATCH_AGE.values()
    for kind, age in ages.items():
        watches.add_metric([kind], age)
    credentials = definitions.CREDENTIAL_END.values()
    for credential, end in ends.items():
        credentials.add_metric([credential], end)
    reloads = definitions.CREDENTIAL_READS.counts()
    for result in ("renewed", "unchanged", "failed"):
        reloads.add_metric([result], reads.get(result, 0))
    refused = definitions.CREDENTIAL_REFUSALS.counts()
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


class ReconcilerMetrics(ProcessMetrics):
    """The collectors of the reconciler."""

    def __init__(self) -> None:
        super().__init__()
        self.reconcile_seconds = definitions.RECONCILE_SECONDS.on(self.registry)
        self.reconciles = definitions.RECONCILES.on(self.registry)
        self.groups = definitions.POD_GROUPS.on(self.registry)
        self.leader = definitions.LEADER.on(self.registry)
        self.certificate_ends = definitions.WEBHOOKS_CERTIFICATE_END.on(self.registry)
        self.victims = definitions.PREEMPTION_VICTIMS.on(self.registry)


def lags(registry: CollectorRegistry, longest: Callable[[], float]) -> Callable[[float], None]:
    """Return the observer of a lag; `longest` returns the last minute's longest, in seconds."""
    definitions.LOOP_LONGEST_LAG.on(registry).set_function(longest)
    return definitions.LOOP_LAG.on(registry).observe


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
