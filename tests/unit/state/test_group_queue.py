"""Groups keep their places, and change them without leaving a trace."""

from hypothesis import given
from hypothesis import strategies as st

from extender.state.cluster.index import GroupQueue, Turn

NAMES = st.sampled_from("abcdef")
MOVES = st.lists(
    st.tuples(NAMES, st.one_of(st.none(), st.tuples(st.integers(-2, 2), st.floats(0, 3))))
)


def turn(place: tuple[int, float], name: str) -> Turn:
    """Return the turn of a group; all of them arrived at once."""
    return (*place, 0, name)


@given(MOVES)
def test_it_is_a_sorted_dictionary(moves: list[tuple[str, tuple[int, float] | None]]) -> None:
    queue, model = GroupQueue(), dict[str, Turn]()
    for name, place in moves:
        if place is None:
            assert queue.drop(name) == (model.pop(name, None) is not None)
        else:
            model[name] = turn(place, name)
            queue.put(model[name])

        assert list(queue) == [turn[-1] for turn in sorted(model.values())]
        assert len(queue) == len(model)
        assert all(name in queue for name in model)


def test_only_the_groups_ahead_are_returned() -> None:
    queue = GroupQueue()
    for each in ((0, 3.0, 0, "c"), (0, 1.0, 0, "b"), (-5, 9.0, 0, "a"), (0, 1.0, 0, "a2")):
        queue.put(each)

    assert list(queue.ahead_of((0, 3.0, 0, "c"))) == ["a", "a2", "b"]
    assert list(queue.ahead_of((0, 1.0, 0, "aa"))) == ["a", "a2"]
    assert list(queue.ahead_of((-9, 0.0, 0, "x"))) == []
    assert [
        queue.position(each) for each in ((0, 3.0, 0, "c"), (0, 1.0, 0, "aa"), (-9, 0.0, 0, "x"))
    ] == [
        3,
        2,
        0,
    ]
