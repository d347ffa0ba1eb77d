"""Bounded looks at a queue: nothing that waits at its front keeps the rest from a look."""

from collections.abc import Iterable

import pytest

from extender.steps import FairShare, at_once

MOST = 8


def keys(namespace: str, count: int) -> list[str]:
    return [f"{namespace}/g{number:03}" for number in range(count)]


def looks(share: FairShare, queue: list[str], count: int) -> list[list[str]]:
    return [at_once(share.choosing(queue)) for _ in range(count)]


def flat(found: Iterable[list[str]]) -> set[str]:
    return {key for look in found for key in look}


def test_all_of_a_short_queue_are_read() -> None:
    queue = keys("a", MOST)
    assert looks(FairShare(MOST), queue, 2) == [queue, queue]


def test_no_more_than_allowed_are_read_in_their_order_and_the_first_in_any_case() -> None:
    queue = keys("a", 100)
    for found in looks(FairShare(MOST), queue, 50):
        assert len(found) <= MOST
        assert found == sorted(found)
        assert found[: MOST // 2] == queue[: MOST // 2]


def test_each_has_a_look_before_another_behind_the_first_has_two() -> None:
    queue = keys("a", 36)
    found = looks(FairShare(MOST), queue, 8)
    assert flat(found) == {*queue}
    behind = [key for look in found for key in look[MOST // 2 :]]
    assert len(behind) == len({*behind}) == 32
    assert flat(looks(FairShare(MOST), queue, 8)) == {*queue}


def test_a_namespace_has_its_share_however_many_others_have() -> None:
    queue = [*keys("a", 1000), *keys("b", 2)]
    for found in looks(FairShare(MOST), queue, 20):
        assert {"b/g000", "b/g001"} & {*found}


@pytest.mark.parametrize("each", [1, 30])
def test_more_namespaces_than_places_take_turns(each: int) -> None:
    queue = [key for number in range(40) for key in keys(f"n{number:02}", each)]
    assert {key.partition("/")[0] for key in flat(looks(FairShare(MOST), queue, 11))} == {
        f"n{number:02}" for number in range(40)
    }


def test_new_entries_come_before_those_that_had_a_look() -> None:
    share, queue = FairShare(MOST), keys("a", 100)
    looks(share, queue, 3)
    queue.append("a/new")
    looks(share, queue, 22)
    queue.append("a/newer")
    assert "a/newer" in flat(looks(share, queue, 2))


def test_what_is_gone_is_forgotten() -> None:
    share = FairShare(MOST)
    looks(share, [*keys("a", 100), *keys("b", 100)], 5)
    looks(share, keys("a", 100), 1)
    assert share._had.keys() == {"a"}
