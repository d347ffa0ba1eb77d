"""Since when a group waits to be scheduled, and for what."""

from collections.abc import Iterable
from typing import NamedTuple

from extender.api.wellknown import ConditionType, Phase
from extender.state.cluster.records import PodGroupStatusInfo, PodInfo


class Waiting(NamedTuple):
    """That a group waits."""

    reason: str
    """Of its condition."""
    since: float
    """In seconds since the epoch."""


def waiting(status: PodGroupStatusInfo, members: Iterable[PodInfo]) -> Waiting | None:
    """Return how a group of such a status waits; None where it has no live pods, or need not wait.

    A PodGroup may be older than its pods, and the condition older than those that wait now.
    """
    said = status.condition(ConditionType.SCHEDULED)
    if said is None or said.status != "False" or status.phase == Phase.FAILED:
        return None
    created = [pod.created for pod in members if not pod.terminating]
    return Waiting(said.reason, max(said.transition, min(created))) if created else None
