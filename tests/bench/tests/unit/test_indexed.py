"""The benchmark of Indexed Jobs: the statuses it makes, and that all indexes are accounted for."""

import pytest

from extender.api.batch_v1 import count_below
from tests.bench.indexed import Bench, Shape, compressed, lists


@pytest.mark.parametrize(
    ("indexes", "want"),
    [(set(), ""), ({0}, "0"), ({1, 3, 4, 5, 7}, "1,3-5,7"), ({2, 3}, "2,3"), ({8, 9, 10}, "8-10")],
)
def test_a_list_is_written_as_the_job_controller_writes_it(indexes: set[int], want: str) -> None:
    assert compressed(indexes) == want


def test_indexes_end_in_order_or_every_second_first() -> None:
    assert [*lists(Shape("", 1, 5, 2))] == ["0,1", "0-3", "0-4"]
    assert [*lists(Shape("", 1, 4, scattered=True))] == ["0", "0,2", "0-2", "0-3"]
    assert [count_below(100, text) for text in lists(Shape("", 1, 100, 30))] == [30, 60, 90, 100]


@pytest.mark.parametrize(
    ("shape", "counted"),
    [(Shape("", 1, 40, 3), 39), (Shape("", 1, 9, 3), 6), (Shape("", 3, 4, scattered=True), 9)],
)
async def test_what_is_done_gives_its_quota_back(shape: Shape, counted: int) -> None:
    """The end of the Job gives back the quota of the last pods, of which no count is written."""
    result = await Bench(shape).run()
    assert result.reclaimed == shape.counted == counted
    assert result.changes == shape.jobs * -(-shape.indexes // shape.at_once)
    assert 0 < result.per_index <= result.per_change
