"""Lines that take turns."""

import pytest

from extender.runtime.turns import Turns


def filled(most: int, *items: str) -> tuple[Turns[str, str], list[str | None]]:
    """Return the lines of items, each by its first letter, and what each of them put out."""
    turns = Turns[str, str](most)
    return turns, [turns.add(item[0], item) for item in items]


def taken(turns: Turns[str, str]) -> list[str]:
    return [turns.take() for _ in range(len(turns))]


def test_each_line_has_its_turn_and_in_a_line_the_first_comes_first() -> None:
    turns, _ = filled(9, "a1", "a2", "a3", "b1", "c1", "c2")
    assert taken(turns) == ["a1", "b1", "c1", "a2", "c2", "a3"]
    assert len(turns) == 0


def test_a_line_that_was_empty_has_its_turn_after_the_others() -> None:
    turns, _ = filled(9, "a1", "b1", "b2")
    assert [turns.take(), turns.take()] == ["a1", "b1"]
    turns.add("a", "a2")
    assert taken(turns) == ["b2", "a2"]


def test_what_is_too_much_is_the_last_of_the_longest_line() -> None:
    turns, out = filled(3, "a1", "a2", "b1", "c1", "a3")
    assert out == [None, None, None, "a2", "a3"]
    assert taken(turns) == ["a1", "b1", "c1"]


def test_the_next_is_the_one_that_is_taken() -> None:
    turns, _ = filled(9, "a1", "b1", "a2")
    while turns:
        assert turns.next() == turns.take()
    with pytest.raises(StopIteration):
        turns.next()
