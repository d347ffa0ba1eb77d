"""How a process stands with the API server: how old what it knows is, and until when it may ask."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override


@dataclass(frozen=True, slots=True)
class Access:
    """What is true at one moment; times in seconds."""

    ages: Mapping[str, float]
    """By kind: how long ago its watch was heard of."""
    ends: Mapping[str, float]
    """By credential: until when it counts, since the epoch."""
    reads: Mapping[str, int]
    """By result: how often credentials were read again."""
    refusals: int
    """How often the API server did not take credentials."""


class AccessMetrics(Collector):
    """Metrics that are read off whenever they are asked for."""

    def __init__(self, access: Callable[[], Access]) -> None:
        self._access = access

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield what is true now."""
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
            "When a credential for the API server ends; none where that is not known.",
            labels=["credential"],
        )
        for credential, end in access.ends.items():
            ends.add_metric([credential], end)
        reads = CounterMetricFamily(
            "gang_extender_credential_reads",
            "Credentials for the API server that were read again, by result: renewed, unchanged or "
            "failed.",
            labels=["result"],
        )
        for result in ("renewed", "unchanged", "failed"):
            reads.add_metric([result], access.reads.get(result, 0))
        refused = CounterMetricFamily(
            "gang_extender_credential_refusals",
            "Requests whose credentials the API server did not take (401, or the certificate).",
            value=access.refusals,
        )
        yield from (ages, ends, reads, refused)
