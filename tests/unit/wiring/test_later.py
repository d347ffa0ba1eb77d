"""Settings that concern many workloads are noted until they are followed."""

import asyncio

import pytest

from extender.state.queues.events import Change
from extender.wiring.later import Later


async def test_all_that_was_noted_is_taken_once() -> None:
    later = Later()
    later.note(Change(priority_classes=frozenset({"high"})))
    later.note(Change(structure=True, cluster_queues=frozenset({"a"})))
    later.note(Change(structure=True, cluster_queues=frozenset({"b"})))
    assert await later.take() == ({"a", "b"}, {"high"})
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(later.take(), 0.01)


async def test_a_change_without_such_settings_wakes_nothing() -> None:
    later = Later()
    later.note(Change(workloads=frozenset({"ns/w"}), cluster_queues=frozenset({"a"})))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(later.take(), 0.01)
    later.note(Change(structure=True))
    assert await later.take() == (set(), set())
