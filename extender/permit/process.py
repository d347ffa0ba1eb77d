"""The rest of the process, as far as live gangs need it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from extender.kube.recorder import Event
from extender.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The facts and functions that live gangs need of the process that they run in."""

    metrics: Metrics
    wake_after: Callable[[str, float], None]
    """Has a group, or a pod by its UID, tried again after so many seconds."""
    try_beside: Callable[[str, Mapping[str, bool]], None]
    """Has members of a group tried again that kube-scheduler refused itself, by UID; the value says
    whether they are to be spread."""
    record: Callable[[Event], None]
    """Records an Event."""
    is_connected: Callable[[], bool]
    """Returns whether the connection is open by which kube-scheduler called filter last."""
    stale: Callable[[], str | None]
    """Returns a kind whose watch is stale."""
    natives_stale: Callable[[], str | None]
    """Returns the kind of native PodGroups where some of these may not be known."""
