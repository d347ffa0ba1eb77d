"""The benchmark of the page measures, and more people who look ask no more of the API server."""

from tests.bench.page import LISTS, measure
from tests.harness.chromium import chromium


def test_one_watch_of_each_kind_serves_however_many_look() -> None:
    with chromium() as browser:
        found = measure(browser, nodes=50, queues=8, viewers=3, times=2)

    assert len(found.watches) == 1
    assert len(found.rows) == len(LISTS) + 8
    assert all(time > 0 for row in found.rows for time in row.times)
