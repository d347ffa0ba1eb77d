"""Lists of completion indexes, against sets of numbers."""

from collections.abc import Callable, Iterable
from functools import partial
from time import process_time
from timeit import repeat

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extender.api.values import count_below, indexes_below

MOST = 10**5


def compressed(indexes: Iterable[int]) -> str:
    """Return a list as the job controller writes it: three in a row, or more, are a range."""
    runs: list[list[int]] = []
    for index in sorted(set(indexes)):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs]
    return ",".join(parts)


runs = st.tuples(st.integers(0, MOST - 1), st.integers(1, 500))
sets = st.lists(runs, max_size=60).map(
    lambda found: {i for first, count in found for i in range(first, min(first + count, MOST))}
)


def test_the_form_is_that_of_the_documentation() -> None:
    assert compressed([1, 3, 4, 5, 7]) == "1,3-5,7"
    assert compressed([2, 3, 4, 6, 7]) == "2-4,6,7"


@given(sets)
@example({*range(MOST)})
@example({*range(0, MOST, 2)})
def test_a_list_holds_as_many_as_were_written(indexes: set[int]) -> None:
    text = compressed(indexes)
    assert count_below(MOST, text) == len(indexes)


@given(sets, sets, st.integers(0, MOST))
def test_an_index_of_both_lists_is_one_and_one_beyond_the_end_is_none(
    completed: set[int], failed: set[int], end: int
) -> None:
    want = sum(index < end for index in completed | failed)
    assert count_below(end, compressed(completed), compressed(failed)) == want


junk = st.text(st.sampled_from("0123456789,- x٣"), max_size=12)


@given(sets.filter(bool), junk, junk)
@example({5}, "1" * 5000, "2-1")
@example({5}, "7-", "-7")
def test_what_is_no_range_is_left_out_and_no_harm(
    indexes: set[int], before: str, after: str
) -> None:
    """Whatever the others are, what can be read counts."""
    text = compressed(indexes)
    found = count_below(MOST, f"{before},{text},{after}")
    assert len(indexes) <= found <= MOST
    assert found == count_below(MOST, text, before, after)


@pytest.mark.parametrize("part", ["x", "1-", "-1", "3-2", "1-2-3", " 4", "1.5", "٣", "9" * 11])
def test_one_part_that_cannot_be_read_hides_no_other(part: str) -> None:
    assert count_below(100, f"0,{part},50-59") == 11


def cpu(do: Callable[[], object]) -> float:
    """Return what it costs: seconds of the processor, however much else the machine does."""
    return min(repeat(do, timer=process_time, number=1, repeat=7))


@pytest.mark.parametrize(
    ("texts", "want"),
    [((), ()), (("1,3-5,9",), (1, 3, 4, 5)), (("0", "2-3,odd"), (0, 2, 3)), (("9-99999999",), ())],
)
def test_the_indexes_of_lists(texts: tuple[str, ...], want: tuple[int, ...]) -> None:
    assert indexes_below(7, *texts) == {*want}


def test_ten_times_the_list_costs_about_ten_times_as_much() -> None:
    """The worst list there is: every second index. A square would cost a hundred times as much."""

    def seconds(most: int) -> float:
        text = compressed(range(0, most, 2))
        count = count_below.__wrapped__
        return cpu(lambda: count(most, text, "0-9"))

    assert seconds(MOST) < 30 * seconds(MOST // 10)


def test_a_list_as_it_is_written_costs_less_than_one_with_an_odd_part() -> None:
    """The one is read as numbers, the other part by part."""
    text = compressed(range(0, MOST, 2))
    plain, odd = (text, "1"), (f"{text},x", "1")
    count = count_below.__wrapped__
    seconds = [cpu(partial(count, MOST, *texts)) for texts in (plain, odd)]
    assert 2 * seconds[0] < seconds[1]
