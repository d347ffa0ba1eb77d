"""Quantiles from a histogram in Prometheus' text format."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


@dataclass(frozen=True, slots=True)
class Histogram:
    """Cumulative counts by upper bound, in rising order; the last bound is infinity."""

    buckets: tuple[tuple[float, float], ...] = ()

    @property
    def count(self) -> int:
        """Number of observations."""
        return round(self.buckets[-1][1]) if self.buckets else 0

    def since(self, before: "Histogram") -> "Histogram":
        """Return what was observed after `before`, an earlier state of the same histogram."""
        earlier = dict(before.buckets)
        return Histogram(
            tuple((bound, count - earlier.get(bound, 0.0)) for bound, count in self.buckets)
        )

    def quantile(self, q: float) -> float | None:
        """Return the q-quantile, linear within its bucket as in PromQL; None without samples.

        What lies above the highest finite bound is said to be at that bound.
        """
        if not self.count:
            return None
        rank = q * self.count
        lower, below = 0.0, 0.0
        for bound, count in self.buckets:
            if count >= rank and count > below:
                if math.isinf(bound):
                    break
                return lower + (bound - lower) * max(rank - below, 0.0) / (count - below)
            lower, below = (lower if math.isinf(bound) else bound), count
        return lower


def parse(text: str, name: str, **labels: str) -> Histogram:
    """Return the histogram of that name: the sum of all its series that have these labels."""
    counts: defaultdict[float, float] = defaultdict(float)
    for sample in _samples(text, f"{name}_bucket", labels):
        counts[float(sample.labels["le"])] += sample.value
    return Histogram(tuple(sorted(counts.items())))


def total(text: str, name: str, **labels: str) -> float:
    """Return the sum of all samples of that name that have these labels."""
    return sum(sample.value for sample in _samples(text, name, labels))


def _samples(text: str, name: str, labels: dict[str, str]) -> Iterator[Sample]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                yield sample
