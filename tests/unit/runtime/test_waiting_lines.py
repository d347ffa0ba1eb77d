"""Lines that take turns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.runtime.waiting_lines import WaitingLines


def filled(most: int, *items: str) -> tuple[WaitingLines[str, str], list[str | None]]:
    """Return the lines of items, each by its first letter, and what each of them put out."""
    lines = WaitingLines[str, str](most)
    return lines, [lines.add(item[0], item) for item in items]


def taken(lines: WaitingLines[str, str]) -> list[str]:
    return [lines.take() for _ in range(len(lines))]


def test_each_line_has_its_turn_and_in_a_line_the_first_comes_first() -> None:
    lines, _ = filled(9, "a1", "a2", "a3", "b1", "c1", "c2")
    assert taken(lines) == ["a1", "b1", "c1", "a2", "c2", "a3"]
    assert len(lines) == 0


def test_a_line_that_was_empty_has_its_turn_after_the_others() -> None:
    lines, _ = filled(9, "a1", "b1", "b2")
    assert [lines.take(), lines.take()] == ["a1", "b1"]
    lines.add("a", "a2")
    assert taken(lines) == ["b2", "a2"]


def test_what_is_too_much_is_the_last_of_the_longest_line() -> None:
    lines, out = filled(3, "a1", "a2", "b1", "c1", "a3")
    assert out == [None, None, None, "a2", "a3"]
    assert taken(lines) == ["a1", "b1", "c1"]


def test_the_heads_are_what_is_taken_from_each_line() -> None:
    lines, _ = filled(9, "a1", "b1", "a2")
    assert [*lines.heads()] == ["a1", "b1"]
    assert lines.take() == "a1"
    assert [*lines.heads()] == ["b1", "a2"]


def test_nothing_can_be_taken_where_nothing_waits() -> None:
    lines, _ = filled(9)
    with pytest.raises(StopIteration):
        lines.take()


@given(
    most=st.integers(1, 6),
    acts=st.lists(st.sampled_from(["a", "b", "c", "d", "take"]), max_size=60),
)
def test_whatever_comes_and_goes_a_longest_line_loses(most: int, acts: list[str]) -> None:
    waiting, lines = WaitingLines[str, int](most), dict[str, list[int]]()
    for number, act in enumerate(acts):
        if act == "take":
            if waiting:
                found = waiting.take()
                [key] = [key for key, line in lines.items() if line and line[0] == found]
                lines[key].pop(0)
            continue
        lines.setdefault(act, []).append(number)
        out = waiting.add(act, number)
        assert (out is None) == (sum(map(len, lines.values())) <= most)
        if out is not None:
            [key] = [key for key, line in lines.items() if line and line[-1] == out]
            assert len(lines[key]) == max(map(len, lines.values()))
            lines[key].pop()
        assert len(waiting) == sum(map(len, lines.values()))
        assert sorted(waiting.heads()) == sorted(line[0] for line in lines.values() if line)
