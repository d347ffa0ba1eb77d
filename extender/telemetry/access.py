"""Metrics of a process's access to the API server: the age of its watches, and its credentials."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from extender.telemetry import definitions


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
        ages = definitions.WATCH_AGE.values()
        for kind, age in access.ages.items():
            ages.add_metric([kind], age)
        ends = definitions.CREDENTIAL_END.values()
        for credential, end in access.ends.items():
            ends.add_metric([credential], end)
        reads = definitions.CREDENTIAL_READS.counts()
        for result in ("renewed", "unchanged", "failed"):
            reads.add_metric([result], access.reads.get(result, 0))
        refused = definitions.CREDENTIAL_REFUSALS.counts()
        refused.add_metric([], access.refusals)
        yield from (ages, ends, reads, refused)
