"""What lives long is taken out of collections; what dies is freed all the same."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from extender.runtime.clock import SLICE_SECONDS
from extender.runtime.process import THRESHOLDS, Garbage


class Clock:
    """Moves by as much as a collection is to take."""

    def __init__(self) -> None:
        self.takes = 0.0
        self._now = 0.0

    def monotonic(self) -> float:
        """Return seconds; each reading is a collection's begin or end."""
        self._now += self.takes
        return self._now

    def wall(self) -> float:
        """Return the same."""
        return self._now


class Thing:
    """Something that can be in a cycle."""

    def __init__(self) -> None:
        self.other: object = None


@pytest.fixture
def clock() -> Iterator[Clock]:
    clock = Clock()
    with Garbage(clock):
        yield clock
    gc.unfreeze()


def test_a_long_collection_freezes_what_it_looked_at(clock: Clock) -> None:
    kept = [Thing() for _ in range(1000)]
    before = gc.get_freeze_count()
    clock.takes = SLICE_SECONDS
    gc.collect()
    assert gc.get_freeze_count() >= before + len(kept)


def test_a_short_one_does_not(clock: Clock) -> None:
    kept = [Thing() for _ in range(1000)]
    before = gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count() <= before
    assert len(kept) == 1000


def test_frozen_objects_are_freed_when_nothing_refers_to_them(clock: Clock) -> None:
    del clock
    thing = Thing()
    seen = weakref.ref(thing)
    gc.freeze()
    del thing
    assert seen() is None


def test_cycles_that_come_later_are_collected(clock: Clock) -> None:
    del clock
    one, other = Thing(), Thing()
    one.other, other.other = other, one
    seen = weakref.ref(one)
    del one, other
    gc.collect()
    assert seen() is None


def test_the_collector_is_left_as_it_was() -> None:
    before = gc.get_threshold(), len(gc.callbacks)
    with Garbage(Clock()):
        assert gc.get_threshold() == THRESHOLDS
    gc.unfreeze()
    assert (gc.get_threshold(), len(gc.callbacks)) == before
