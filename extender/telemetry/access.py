"""Metrics of a process's access to the API server: the age of its watches, and its credentials."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override


@dataclass(frozen=True, slots=True)
class AccessState:
    """The access at one moment; times in seconds."""

    ages: Mapping[str, float]
    """By kind: how long ago its watch last received something."""
    ends: Mapping[str, float]
    """By credential: when it expires, since the epoch."""
    reads: Mapping[str, int]
    """By result: how often credentials were reloaded."""
    refusals: int
    """How often the API server rejected credentials."""


class AccessMetrics(Collector):
    """Collects the current access."""

    def __init__(self, access: Callable[[], AccessState]) -> None:
        self._access = access

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        access = self._access()
        ages = GaugeMetricFamily(
            "gang_extender_watch_age_seconds",
            "Time since the API server last sent anything on the watch of a kind: an event, or the "
            "bookmark that comes about once a minute.",
            labels=["kind"],
        )
        for kind, age in access.ages.items():
            ages.add_metric([kind], age)
        ends = GaugeMetricFamily(
            "gang_extender_credential_end_timestamp_seconds",
            "When a credential for the API server expires; none where that is not known.",
            labels=["credential"],
        )
        for credential, end in access.ends.items():
            ends.add_metric([credential], end)
        reads = CounterMetricFamily(
            "gang_extender_credential_reads",
            "Credentials for the API server that were reloaded, by result: renewed, unchanged or "
            "failed.",
            labels=["result"],
        )
        for result in ("renewed", "unchanged", "failed"):
            reads.add_metric([result], access.reads.get(result, 0))
        refused = CounterMetricFamily(
            "gang_extender_credential_refusals",
            "Requests whose credentials the API server rejected (401, or the certificate).",
            value=access.refusals,
        )
        yield from (ages, ends, reads, refused)
