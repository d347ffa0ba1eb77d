"""What a metric is, apart from its values: its name, what it means, and its labels."""

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """One metric, under the name that Prometheus stores."""

    name: str
    help: str
    labels: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class CounterDefinition(MetricDefinition):
    """A number that only grows; its name ends in `_total`."""

    def __post_init__(self) -> None:
        """Refuse a name that the library would store as another one. Raises ValueError."""
        if not self.name.endswith("_total"):
            raise ValueError(f"{self.name}: the name of a counter ends in _total")

    def on(self, registry: CollectorRegistry) -> Counter:
        """Return the counter, registered."""
        return Counter(self.name, self.help, self.labels, registry=registry)

    def counts(self) -> CounterMetricFamily:
        """Return an empty family for a collector."""
        return CounterMetricFamily(self.name.removesuffix("_total"), self.help, labels=self.labels)


@dataclass(frozen=True, slots=True)
class GaugeDefinition(MetricDefinition):
    """A number that rises and falls."""

    def on(self, registry: CollectorRegistry) -> Gauge:
        """Return the gauge, registered."""
        return Gauge(self.name, self.help, self.labels, registry=registry)

    def values(self) -> GaugeMetricFamily:
        """Return an empty family for a collector."""
        return GaugeMetricFamily(self.name, self.help, labels=self.labels)


@dataclass(frozen=True, slots=True)
class HistogramDefinition(MetricDefinition):
    """A distribution; Prometheus stores `_bucket`, `_sum` and `_count` of it."""

    buckets: tuple[float, ...] = field(default=Histogram.DEFAULT_BUCKETS, kw_only=True)

    def on(self, registry: CollectorRegistry) -> Histogram:
        """Return the histogram, registered."""
        return Histogram(self.name, self.help, self.labels, buckets=self.buckets, registry=registry)
