"""Settings that concern many workloads are noted until they are followed."""

import asyncio

import pytest

from extender.state.queue.events import QueueChange
from extender.wiring.queue import ChangedQueues


async def test_all_that_was_noted_is_taken_once() -> None:
    later = ChangedQueues()
    later.note(QueueChange(priority_classes=frozenset({"high"})))
    later.note(QueueChange(structure=True, cluster_queues=frozenset({"a"})))
    later.note(QueueChange(structure=True, cluster_queues=frozenset({"b"})))
    assert await later.take() == ({"a", "b"}, {"high"})
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(later.take(), 0.01)


async def test_a_change_without_such_settings_wakes_nothing() -> None:
    later = ChangedQueues()
    later.note(QueueChange(workloads=frozenset({"ns/w"}), cluster_queues=frozenset({"a"})))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(later.take(), 0.01)
    later.note(QueueChange(structure=True))
    assert await later.take() == (set(), set())
