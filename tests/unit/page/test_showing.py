"""Views are made once for all who look, drawn for each after a change, and not too often."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import pytest
from typing_extensions import override

from extender.runtime.faults import FAULTS
from gang_tools.page.following import FollowedCluster
from gang_tools.page.showing import Showing, ViewKey

KEY = ("queues",)
pytestmark = pytest.mark.looptime


class Followed:
    """A state of one number."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.version = self.queues_version = 0
        self.trouble = ""
        self.value = 0

    def change(self, by: int = 1, *, queues: bool = True) -> None:
        self.version += 1
        self.queues_version += queues
        self.value += by
        self.changed.set()


class LoopClock:
    """The time of the event loop, which the tests move."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    wall = monotonic


class Counting(Showing):
    """Counts how often a view is made."""

    def __init__(self, followed: Followed) -> None:
        super().__init__(cast("FollowedCluster", followed), LoopClock())
        self.state, self.made = followed, 0

    @override
    def _make(self, key: ViewKey) -> object:
        self.made += 1
        return self.state.value


@contextmanager
def running(showing: Showing) -> Iterator[None]:
    task: asyncio.Task[Any] = asyncio.ensure_future(showing.run())
    yield
    task.cancel()


async def test_a_change_is_drawn_at_once_for_all_and_made_once() -> None:
    followed = Followed()
    showing, drawn = Counting(followed), list[str]()
    for name in "ab":
        showing.watch(KEY, lambda name=name: drawn.append(name))  # type: ignore[misc]
    with running(showing):
        await asyncio.sleep(2)
        drawn.clear()
        made = showing.made
        followed.change()
        await asyncio.sleep(0.1)
        assert drawn == ["a", "b"]
        assert showing.made == made + 1


async def test_a_view_that_cannot_be_drawn_for_one_is_drawn_for_the_others() -> None:
    followed = Followed()
    showing, drawn = Counting(followed), list[str]()

    def fails() -> None:
        raise ValueError("no such row")

    showing.watch(KEY, fails)
    showing.watch(KEY, lambda: drawn.append("b"))
    other = ("gangs",)
    showing.watch(other, lambda: drawn.append("c"))
    with running(showing):
        await asyncio.sleep(2)
        drawn.clear()
        followed.change()
        await asyncio.sleep(1)
    assert drawn == ["b", "c"]
    assert FAULTS.counts["page"] >= 1


async def test_others_work_between_the_draws_for_two_people() -> None:
    followed = Followed()
    showing, done = Counting(followed), list[str]()

    def draw() -> None:
        done.append("draw")
        asyncio.get_running_loop().call_soon(done.append, "other")

    showing.watch(KEY, draw)
    showing.watch(KEY, lambda: draw())
    with running(showing):
        await asyncio.sleep(2)
    assert done[:3] == ["draw", "other", "draw"]


async def test_many_changes_are_drawn_several_times_a_second_and_within_half_of_one() -> None:
    followed = Followed()
    showing, drawn = Counting(followed), list[object]()
    showing.watch(KEY, lambda: drawn.append(showing.view(KEY)))
    with running(showing):
        for _ in range(100):
            followed.change()
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)
    assert len(drawn) == 34
    assert drawn[-1] == 100


async def test_who_comes_in_between_takes_no_change_from_the_others() -> None:
    followed = Followed()
    showing, drawn = Counting(followed), list[object]()
    showing.watch(KEY, lambda: drawn.append(showing.view(KEY)))
    with running(showing):
        await asyncio.sleep(2)
        followed.change()
        assert showing.view(KEY) == 1  # another one opens the page
        await asyncio.sleep(1)
    assert drawn[-1] == 1


async def test_who_comes_during_a_change_that_is_taken_back_sees_that_too() -> None:
    followed = Followed()
    showing, drawn = Counting(followed), list[object]()
    showing.watch(KEY, lambda: None)
    with running(showing):
        await asyncio.sleep(2)
        followed.change()
        showing.watch(KEY, lambda: drawn.append(showing.view(KEY)))
        drawn.append(showing.view(KEY))
        followed.change(by=-1)
        await asyncio.sleep(1)
    assert drawn == [1, 0]


async def test_what_did_not_change_is_not_drawn_and_what_nobody_sees_not_made() -> None:
    followed = Followed()
    showing, drawn = Counting(followed), list[object]()

    def draw() -> None:
        drawn.append(None)

    showing.watch(KEY, draw)
    with running(showing):
        await asyncio.sleep(2)
        before = len(drawn)
        followed.change(by=0)
        await asyncio.sleep(1)
        assert len(drawn) == before
        followed.trouble = "the API server is away"
        await asyncio.sleep(2)
        assert (showing.trouble, len(drawn)) == (followed.trouble, before + 1)
        assert showing.is_watched("gangs", "queues")
        assert not showing.is_watched("gangs")
        showing.leave(KEY, draw)
        assert not showing.is_watched("queues")
        assert (showing.view(KEY), showing._made) == (0, {})
        made = showing.made
        followed.change()
        await asyncio.sleep(1)
        assert showing.made == made


@pytest.mark.parametrize("of_queues", [KEY, ("holders", "cq")])
async def test_what_shows_queues_is_not_made_again_where_only_pods_or_nodes_change(
    of_queues: ViewKey,
) -> None:
    followed = Followed()
    showing, nodes = Counting(followed), ("nodes", "cpu")
    for key in (of_queues, nodes):
        showing.watch(key, lambda: None)
    with running(showing):
        await asyncio.sleep(2)
        before = showing.made
        followed.change(queues=False)
        await asyncio.sleep(1)
    assert (showing.made - before, showing.view(nodes), showing.view(of_queues)) == (1, 1, 0)


async def test_nothing_is_kept_or_drawn_for_who_left_while_others_were_drawn() -> None:
    followed = Followed()
    showing, drawn = Counting(followed), list[ViewKey]()
    draws = {(f"of-{number}",): partial(drawn.append, (f"of-{number}",)) for number in range(3)}

    def all_leave() -> None:
        for key, draw in draws.items():
            showing.leave(key, draw)

    showing.watch(KEY, all_leave)
    for key, draw in draws.items():
        showing.watch(key, draw)
    for late in (KEY, KEY):
        showing.watch(late, lambda: None)
    with running(showing):
        await asyncio.sleep(2)
    assert drawn == []
    assert showing._made.keys() == showing._last.keys() == showing._drawn.keys() == {KEY}


async def test_a_view_that_cannot_be_made_is_tried_once_for_all_and_each_is_told() -> None:
    class Failing(Counting):
        @override
        def _make(self, key: ViewKey) -> object:
            super()._make(key)
            raise ValueError("no such workload")

    followed = Followed()
    showing, told = Failing(followed), list[str]()

    def draw() -> None:
        with pytest.raises(ValueError, match="no such workload"):
            showing.view(KEY)
        told.append("failed")

    showing.watch(KEY, draw)
    showing.watch(KEY, lambda: draw())
    with running(showing):
        await asyncio.sleep(2)
    assert (showing.made, told) == (1, ["failed", "failed"])
