"""What is measured, and what one run of it gave."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from tests.bench.creation import Pace
from tests.bench.gangs import Gangs
from tests.bench.load import Load
from tests.bench.waits import Waits

STOCK = "stock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One comparison: what to schedule, and at which QPS (`stock`, or a number).

    Without a pace all pods are there before the scheduler is.
    """

    load: Load
    qps: str
    pace: Pace | None = None

    def alone(self) -> Self:
        """Return the case without the gangs that cannot fit."""
        return dataclasses.replace(self, load=self.load.alone())


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds."""

    count: int
    p50: float | None
    p99: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What the books of a run say, and what was written about its pods."""

    overcommits: Sequence[str]
    """Sentences: each names the pods and their versions."""
    collisions: int
    """Pods with a node on which kube-scheduler wrote that it failed to place them."""
    partial: int
    """Gangs with some members on nodes at the end."""
    events: int
    """Those of the reason Scheduled."""
    repeated_events: int
    """Pods with more than one of them."""
    late_seconds: float
    """From the last pod to the last of these Events."""
    cpu_seconds: float
    """Of the books, in the bench's process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one run gave; CPU seconds and MiB by process, times in seconds."""

    side: str
    title: str
    repeat: int
    impossible: bool  # whether there were gangs that cannot fit
    refused: int  # pods of those that were tried and refused before the run ended
    scheduled: int  # pods of the gangs that fit, as are all times
    seconds: float
    ready_seconds: float
    condition_seconds: float
    gangs: Gangs
    cpu_seconds: Mapping[str, float]
    peak_mib: Mapping[str, float]
    late_cpu_seconds: Mapping[str, float]
    """The same until the last Event was written."""
    ledger: Audit
    attempts: float
    filter: Latency | None
    bind: Latency | None
    notes: Sequence[str]
    waits: Waits | None = None
    """Of gangs that came while the scheduler ran."""

    @property
    def pods_per_second(self) -> float:
        """Rate between the first and the last pod."""
        return self.scheduled / self.seconds if self.seconds else 0.0

    @property
    def pods_per_second_from_ready(self) -> float:
        """Rate between the scheduler's readiness and the last pod."""
        return self.scheduled / self.ready_seconds if self.ready_seconds else 0.0
