"""What a snapshot says of itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

API_VERSION: Final = "snapshot.gang-extender/v1"
KIND: Final = "Snapshot"
FORMAT: Final = 1
"""Grows when an older release could misread a file."""

ProcessName = Literal["extender", "reconciler"]


class SnapshotError(Exception):
    """The file is no snapshot that can be read, or lacks what was asked for."""


@dataclass(frozen=True, slots=True)
class WatchState:
    """How fresh what came by one watch is."""

    age: float
    """Seconds since the API server said anything by it."""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """Which process took a snapshot, and when."""

    process: ProcessName
    now: float
    """When it was taken, in seconds since the epoch."""
    version: str = ""
    """Of gang-extender."""
    host: str = ""
    unready: str = ""
    """Why the process was not ready; nothing where it was."""
    leads: bool = True
    """Whether it worked: replicas that do not lead only follow the cluster."""
    redacted: bool = False
    """Whether names are hashes."""
    watches: Mapping[str, WatchState] = field(default_factory=dict)
    """By kind."""
