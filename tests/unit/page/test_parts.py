"""Parts of a page change where what they show does, and the others are left alone."""

from collections.abc import Iterator

import pytest
from nicegui import Client, ui

from gang_tools.page.parts import Again, Part, Parts, listed


@pytest.fixture(autouse=True)
def opened() -> Iterator[None]:
    with Client(ui.page("")) as client:
        yield
    client.delete()  # others count the pages that there are


def drawn(parts: Parts) -> list[ui.element]:
    """Return the boxes of all parts, in their order."""
    return parts._into.default_slot.children


def test_only_what_shows_something_else_is_drawn_and_the_order_is_kept() -> None:
    done, parts = list[object](), Parts()

    def show(**shown: int) -> None:
        parts.show(Part(name, value, done.append) for name, value in shown.items())

    show(a=1, c=1)
    first, last = drawn(parts)
    show(a=1, b=2, c=3)
    assert done == [1, 1, 2, 3]
    assert (drawn(parts)[0], drawn(parts)[2]) == (first, last)
    show(c=3)
    assert (done, drawn(parts)) == ([1, 1, 2, 3], [last])


def test_what_can_change_in_its_place_is_drawn_once() -> None:
    done, again, parts = list[int](), list[int](), Parts()

    def draw(shown: int) -> Again:
        done.append(shown)
        return again.append

    for value in (1, 2, 2, 3):
        parts.show([Part("a", value, draw)])
    assert (done, again) == ([1], [2, 3])


def test_what_could_not_be_drawn_is_tried_again() -> None:
    parts, fails = Parts(), True

    def draw(_: object) -> None:
        if fails:
            raise ValueError("no such row")

    for _ in range(2):
        with pytest.raises(ValueError, match="no such row"):
            parts.show([Part("a", 1, draw)])
    fails = False
    parts.show([Part("a", 1, draw)])
    assert len(drawn(parts)) == 1


def test_a_row_is_known_by_its_first_cell_wherever_it_stands() -> None:
    [part] = listed("Pods", "name=Pod state", [{"name": name, "state": ""} for name in "bab"])
    assert [row["id"] for row in part.shown[1]] == ["b#1", "a#1", "b#2"]
    assert [*listed("Pods", "name=Pod", [])] == []
    [part] = listed("Pods", "name=Pod", [], none="It has none.")
    assert part.shown == ("Pods", [], "It has none.")
