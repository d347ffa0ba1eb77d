"""The functions by which live gangs reach the rest of the process."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from extender.kube.recorder import Event
from extender.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """The metrics and functions that the process gives to live gangs."""

    metrics: Metrics
    wake_after: Callable[[str, float], None]
    """Has a group, or a pod by its UID, tried again after this many seconds."""
    try_beside: Callable[[Mapping[str, bool]], None]
    """Has members, by UID, tried again that kube-scheduler refused itself; the value is
    True if a member is to be spread."""
    record: Callable[[Event], None]
    """Records an Event."""
    is_connected: Callable[[], bool]
    """Returns whether kube-scheduler has a connection open."""
    stale: Callable[[], str | None]
    """Returns a kind whose watch is stale, or None."""
    natives_stale: Callable[[], str | None]
    """Returns the kind of native PodGroups if some of them may not be known, else None."""
