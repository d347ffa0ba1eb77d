"""Quantiles of histograms, against values worked out by hand."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as Collector

from tests.bench.histogram import Histogram, parse, total

INFINITY = float("inf")


@pytest.mark.parametrize(
    ("buckets", "q", "want"),
    [
        pytest.param((), 0.5, None, id="no buckets"),
        pytest.param(((1.0, 0.0), (INFINITY, 0.0)), 0.5, None, id="no observations"),
        pytest.param(((1.0, 10.0), (INFINITY, 10.0)), 0.5, 0.5, id="the first begins at zero"),
        pytest.param(((1.0, 0.0), (2.0, 4.0), (INFINITY, 4.0)), 0.25, 1.25, id="linear inside"),
        pytest.param(((1.0, 2.0), (2.0, 4.0), (INFINITY, 4.0)), 0.5, 1.0, id="on an edge"),
        pytest.param(((1.0, 2.0), (2.0, 4.0), (INFINITY, 4.0)), 1.0, 2.0, id="the last one"),
        pytest.param(((1.0, 2.0), (2.0, 2.0), (4.0, 4.0), (INFINITY, 4.0)), 0.75, 3.0, id="gap"),
        pytest.param(((1.0, 1.0), (INFINITY, 4.0)), 0.9, 1.0, id="above every finite bound"),
        pytest.param(((INFINITY, 4.0),), 0.5, 0.0, id="nothing is known"),
    ],
)
def test_a_quantile_is_read_from_buckets(
    buckets: tuple[tuple[float, float], ...], q: float, want: float | None
) -> None:
    assert Histogram(buckets).quantile(q) == want


def test_since_leaves_what_came_after() -> None:
    before = Histogram(((1.0, 3.0), (2.0, 3.0), (INFINITY, 3.0)))
    after = Histogram(((1.0, 3.0), (2.0, 5.0), (INFINITY, 5.0)))

    assert after.since(before) == Histogram(((1.0, 0.0), (2.0, 2.0), (INFINITY, 2.0)))
    assert after.since(Histogram()) == after


def _page() -> str:
    registry = CollectorRegistry()
    seconds = Collector("took_seconds", "", ["verb", "result"], buckets=(1, 2), registry=registry)
    seconds.labels("filter", "ok").observe(0.5)
    seconds.labels("filter", "refused").observe(1.5)
    seconds.labels("bind", "ok").observe(3)
    return generate_latest(registry).decode()


def test_parse_sums_the_series_with_the_labels() -> None:
    page = _page()

    assert parse(page, "took_seconds", verb="filter") == Histogram(
        ((1.0, 1.0), (2.0, 2.0), (INFINITY, 2.0))
    )
    assert parse(page, "took_seconds") == Histogram(((1.0, 1.0), (2.0, 2.0), (INFINITY, 3.0)))
    assert parse(page, "took_seconds", verb="preempt").count == 0
    assert parse("", "took_seconds").count == 0


def test_total_sums_the_samples_with_the_labels() -> None:
    page = _page()

    assert total(page, "took_seconds_count") == 3
    assert total(page, "took_seconds_count", result="ok") == 2
    assert total(page, "took_seconds_sum", verb="filter") == 2.0
