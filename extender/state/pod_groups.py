"""What decisions know of a PodGroup."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from extender.state.claims import Grant


@dataclass(frozen=True, slots=True)
class ConditionInfo:
    """One condition of a status; the time in seconds since the epoch."""

    type: str
    status: str
    reason: str
    message: str = ""
    transition: float = 0.0
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class PodGroupStatusInfo:
    """A PodGroup's status as it is stored; times in seconds since the epoch."""

    phase: str = ""
    occupied_by: str = ""
    scheduled: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    started: float | None = None
    """`scheduleStartTime`."""
    conditions: tuple[ConditionInfo, ...] = ()

    def condition(self, kind: str) -> ConditionInfo | None:
        """Return the condition of a type."""
        return next((each for each in self.conditions if each.type == kind), None)


@dataclass(frozen=True, slots=True)
class PodGroupInfo:
    """One PodGroup of either API group; times in seconds."""

    namespace: str
    name: str
    api_group: str
    min_member: int
    uid: str = ""
    min_resources: Mapping[str, int] = field(default_factory=dict)
    schedule_timeout: float | None = None
    created: float = 0.0
    on_partial: str | None = None
    """What its annotation says is to become of it when it has lost its quorum."""
    grant: Grant | None = None
    done: int = 0
    """How many of `min_member` are done for good and are not waited for, its Jobs' pods aside."""
    started: float | None = None
    """When its present run reached `min_member` scheduled pods: `scheduleStartTime` of its status,
    in seconds since the epoch."""
    succeeded: int = 0
    """How many of its pods are there that have succeeded, by its status."""
    version: int = field(default=0, compare=False)
    """The resourceVersion in which it was first seen: creation times are whole seconds, and this
    tells the order within one. After a restart it is that of the last change before."""
    generation: int = field(default=0, compare=False)
    status: PodGroupStatusInfo = field(default=PodGroupStatusInfo(), compare=False)
    """Not compared: what is asked for is the same whatever became of it."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"
