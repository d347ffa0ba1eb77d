"""A workload that has waited for room for long, as `aging` finds it."""

from collections.abc import Hashable
from dataclasses import dataclass

from extender.queueing.order import Order
from extender.state.queue.records import Assignment, WorkloadInfo

Choice = tuple[Assignment, ...]
"""Flavors for all pod sets."""


@dataclass(frozen=True, slots=True)
class Aged:
    """A workload for which room is to be kept."""

    workload: WorkloadInfo
    order: Order
    """Its turn, which is its place among all that wait: priority, time, arrival."""
    since: float
    """When room was first kept for it, in seconds since the epoch; now, where none is kept yet."""
    choices: tuple[Choice, ...]
    """The flavors that it could have, those that its ClusterQueue tries first before others."""
    has_quota: bool
    """Whether it lacks nothing but room, as far as is stored."""
    like: Hashable = None
    """What it has in common with equivalent workloads."""
