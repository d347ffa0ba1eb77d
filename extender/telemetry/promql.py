"""Parts of PromQL expressions over metrics, each named by its definition.

A metric of another name, or a label that it does not have, cannot be written.
"""

from dataclasses import dataclass

from extender.telemetry.definition import (
    CounterDefinition,
    GaugeDefinition,
    HistogramDefinition,
    MetricDefinition,
)

TARGET: tuple[str, ...] = ("instance",)
"""Labels of Prometheus itself that every metric has."""


@dataclass(frozen=True, slots=True)
class Not:
    """Any value but this one."""

    value: str


@dataclass(frozen=True, slots=True)
class Like:
    """Any value that a regular expression matches as a whole."""

    pattern: str


def any_of(*values: str) -> Like:
    """Return what matches each of these values."""
    return Like("|".join(values))


Wanted = str | Not | Like


def gauge(metric: GaugeDefinition, **labels: Wanted) -> str:
    """Return the selector of a gauge."""
    return _select(metric, metric.name, labels)


def total(metric: CounterDefinition, **labels: Wanted) -> str:
    """Return the selector of a counter."""
    return _select(metric, metric.name, labels)


def rate(metric: CounterDefinition | HistogramDefinition, window: str, **labels: Wanted) -> str:
    """Return how often something happens a second; of a histogram: how many are observed."""
    return f"rate({_select(metric, _counted(metric), labels)}[{window}])"


def increase(metric: CounterDefinition | HistogramDefinition, window: str, **labels: Wanted) -> str:
    """Return how often something happened within a window."""
    return f"increase({_select(metric, _counted(metric), labels)}[{window}])"


def quantile(share: float, metric: HistogramDefinition, window: str, *by: str) -> str:
    """Return a quantile of what was observed, for each value of some labels."""
    buckets = f"rate({metric.name}_bucket[{window}])"
    return f"histogram_quantile({share:g}, sum {grouped(metric, *by, 'le')} ({buckets}))"


def grouped(metric: MetricDefinition, *labels: str) -> str:
    """Return the `by` clause of an aggregation of a metric. Raises ValueError."""
    also = ("le",) if isinstance(metric, HistogramDefinition) else ()
    _check(metric, [each for each in labels if each not in (*TARGET, *also)])
    return f"by ({', '.join(labels)})"


def apart(metric: MetricDefinition, *labels: str) -> str:
    """Return the `without` clause of an aggregation of a metric. Raises ValueError."""
    _check(metric, labels)
    return f"without ({', '.join(labels)})"


def _counted(metric: CounterDefinition | HistogramDefinition) -> str:
    return f"{metric.name}_count" if isinstance(metric, HistogramDefinition) else metric.name


def _select(metric: MetricDefinition, name: str, labels: dict[str, Wanted]) -> str:
    _check(metric, labels)
    if not labels:
        return name
    return f"{name}{{{', '.join(_match(label, value) for label, value in labels.items())}}}"


def _match(label: str, value: Wanted) -> str:
    match value:
        case Not():
            return f'{label}!="{value.value}"'
        case Like():
            return f'{label}=~"{value.pattern}"'
        case _:
            return f'{label}="{value}"'


def _check(
    metric: MetricDefinition, labels: "dict[str, Wanted] | list[str] | tuple[str, ...]"
) -> None:
    if unknown := [each for each in labels if each not in metric.labels]:
        raise ValueError(f"{metric.name} has no label {', '.join(unknown)}")
