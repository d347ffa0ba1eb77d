"""Jobs of a simulation, and how far each has come."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.queue.records import PodSetInfo, WorkloadInfo


@dataclass(slots=True)
class Attempt:
    """One time that the pods of a job were there; times in seconds since the beginning."""

    began: float
    """When the pods appeared."""
    ran: float | None = None
    """When as many pods as it needs had a node."""
    ended: float | None = None
    reason: str = ""
    """Why it ended before its time."""


@dataclass(slots=True, eq=False)
class SimJob:
    """A job, whatever its kind: equal pods that run for a time. Times as in `Attempt`."""

    number: int
    name: str
    namespace: str
    kind: str
    """The class of the scenario, or the kind of the object."""
    arrival: float
    runs: float | None
    """For how many seconds a pod runs; None: it is not known, and never ends."""
    sets: Sequence[PodSetInfo] = ()
    priority: int = 0
    queue: str = ""
    pod_group: PodGroupInfo | None = None
    """The PodGroup that it brings."""
    workload: WorkloadInfo | None = None
    """As it is to be created; None: no queue admits it."""
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    need: int = 0
    """How many pods start together, and work only together; 0: each pod works alone."""

    pods: dict[str, PodInfo] = field(default_factory=dict)
    """Those of this attempt that have not finished."""
    total: int = 0
    """How many pods this attempt began with."""
    bound: set[str] = field(default_factory=set)
    """UIDs of the pods on nodes."""
    done: int = 0
    """How many pods of this attempt have finished."""
    attempts: list[Attempt] = field(default_factory=list)
    attempt: int = 0
    """Grows whenever its pods come or go as a whole: what was to happen to earlier ones does not.
    """
    admitted: float | None = None
    started: float | None = None
    """When as many pods as it needs had a node for the first time."""
    ended: float | None = None
    preempted: int = 0
    evicted: int = 0
    """How often it had to go for another reason."""
    half: float | None = None
    """Since when it has nodes for some of the pods that start together, and too few."""
    ever_half: bool = False
    why: str = ""
    """Why it waits, as a decision said last."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def enough(self) -> int:
        """How many pods have to have a node before it counts as started."""
        return self.need or self.total

    @property
    def works(self) -> bool:
        """Whether as many pods as it needs have had a node in this attempt."""
        return bool(self.attempts) and self.attempts[-1].ran is not None
