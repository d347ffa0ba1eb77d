"""The queues' state made again from a copy, by the events that lead to it."""

from collections.abc import Iterator
from dataclasses import replace

from extender.state.queue import events as ev
from extender.state.queue.copies import QueueCopy
from extender.state.queue.events import Event
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.store import Queues


def restored_queues(copy: QueueCopy) -> Queues:
    """Return a state that believes what a copy says.

    What pods are given by LimitRanges and RuntimeClasses the workloads of a copy have already.
    """
    queues = Queues()
    for event in _events(copy):
        queues.apply(event)
    return queues


def _events(copy: QueueCopy) -> Iterator[Event]:
    yield from map(ev.Applied, copy.records)
    for workload in copy.workloads:
        yield from _arrived(workload)
    yield from map(ev.JobApplied, copy.jobs)
    for key, admission in copy.assumed.items():
        yield ev.Assumed(key, admission)


def _arrived(workload: WorkloadInfo) -> Iterator[Event]:
    """Yield a workload; before it the version in which it was first seen, where that is another."""
    if workload.arrival < workload.meta.version:
        yield ev.Applied(replace(workload, meta=replace(workload.meta, version=workload.arrival)))
    yield ev.Applied(workload)
