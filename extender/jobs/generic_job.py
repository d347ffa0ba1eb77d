"""What every kind of job can be asked, and told (KEP-369).

A job wraps one object as the API server has it, or several of them; it knows no client and no
clock. The methods that change something change the wrapped object and nothing else.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from typing_extensions import TypeIs

from extender.jobs.fields import Object
from extender.jobs.templates import Placement
from extender.state.queues.records import WorkloadInfo


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal pods of a job."""

    name: str
    count: int
    template: Object
    min_count: int | None = None
    """With how few of them the job can do."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a job ended."""

    success: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One write that is a part of starting or stopping a job.

    `patch` is a merge patch; where it deletes, it is the body of the DELETE. The UID in it is a
    precondition, and so is the resourceVersion where there is one.
    """

    patch: Object
    subresource: str = ""
    member: str = ""
    """The name of the object, where the job is made of several."""
    delete: bool = False


class GenericJob(Protocol):
    """A job of any kind."""

    @property
    def object(self) -> Object:
        """The wrapped object; of a job of several, the one that Events are about."""
        ...

    def is_suspended(self) -> bool:
        """Return whether the job is told not to run."""
        ...

    def suspend(self) -> None:
        """Tell the job not to run."""
        ...

    def unsuspend(self) -> None:
        """Tell the job to run."""
        ...

    def inject_node_selectors(self, placements: Sequence[Placement]) -> None:
        """Give each pod set its place; PlacementError where it wants something else."""
        ...

    def restore_node_selectors(self, pod_sets: Sequence[PodSet]) -> None:
        """Take back what was injected: `pod_sets` are as they were before."""
        ...

    def finished(self) -> Finished | None:
        """Return how the job ended, None while it has not."""
        ...

    def pod_sets(self) -> list[PodSet]:
        """Return what the job asks for."""
        ...

    def equivalent_to_workload(self, workload: WorkloadInfo) -> bool:
        """Return whether a workload asks for what the job does, or what was injected into it."""
        ...

    def priority_class(self) -> str:
        """Return the name of the PriorityClass, the job's own or else its pods', or nothing."""
        ...

    def queue_name(self) -> str:
        """Return the name of the LocalQueue, or nothing."""
        ...

    def ignore_from_queueing(self) -> bool:
        """Return whether the job has not asked to be queued."""
        ...

    def pods_ready(self) -> bool:
        """Return whether all pods that should run now are ready."""
        ...

    def is_active(self) -> bool:
        """Return whether pods still run; the quota is kept as long."""
        ...


@runtime_checkable
class Skipping(Protocol):
    """Kinds of which some objects are not ours at all."""

    def skip(self) -> bool:
        """Return whether somebody else looks after this job."""
        ...


@runtime_checkable
class Reclaiming(Protocol):
    """Kinds that can say which pods are done while others still run."""

    def reclaimable_pods(self) -> Mapping[str, int]:
        """Return by pod set how many pods are done and will not be replaced, without zeros."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """Kinds that start without the pods that are done, and may need quota for them yet."""

    def done_pods(self) -> Mapping[str, int]:
        """Return by pod set how many pods a start does not make any more, without zeros."""
        ...


@runtime_checkable
class Progressing(Protocol):
    """Kinds whose pods are followed by others when they are done."""

    def pods_done(self) -> int:
        """Return how many pods are done for good so far."""
        ...

    def pods_ready_since(self, done: int) -> bool:
        """Return whether all pods were ready, each at some time since so many were done."""
        ...


@runtime_checkable
class Terminating(Protocol):
    """Kinds that can say which pods take their time to end."""

    def terminating_pods(self) -> Mapping[str, int]:
        """Return by pod set how many pods are being deleted and have not ended."""
        ...


@runtime_checkable
class Stepping(Protocol):
    """Kinds that one write is not enough to start or stop."""

    def is_stopping(self) -> bool:
        """Return whether a stop was begun and not ended."""
        ...

    def start_steps(self, placements: Sequence[Placement]) -> Sequence[Step]:
        """Return the writes that start it; PlacementError as in `inject_node_selectors`."""
        ...

    def stop_steps(self, pod_sets: Sequence[PodSet] | None) -> Sequence[Step]:
        """Return the writes that are left to stop it; without `pod_sets` nothing is restored."""
        ...


@runtime_checkable
class Finalizing(Protocol):
    """Kinds that have something to be tidied up when they have ended."""

    def finalize_steps(self) -> Sequence[Step]:
        """Return the writes; none when it is tidy."""
        ...


@runtime_checkable
class Composed(Protocol):
    """Kinds of which several objects are one job with one workload."""

    def owners(self) -> list[Object]:
        """Return an owner reference for each object."""
        ...

    def lasting(self) -> Collection[str]:
        """Return the UIDs of the objects that will be there for a while."""
        ...

    def succeeded(self) -> Sequence[tuple[str, str]]:
        """Return UID and pod set of the objects that have succeeded and are there."""
        ...

    def remember(self, done: Mapping[str, int]) -> None:
        """Take how many pods of each pod set are known to be done, those too that are gone."""
        ...

    def workload_name(self) -> str:
        """Return the name of the workload, which no single object gives."""
        ...

    def problem(self) -> str:
        """Return why no workload can ever be made of it, or nothing."""
        ...

    def incomplete(self) -> str:
        """Return why no workload can be made of it yet, or nothing."""
        ...

    def tidy_steps(self) -> Sequence[Step]:
        """Return the deletion of objects that are too many."""
        ...


@runtime_checkable
class Staged(Protocol):
    """Kinds of which some pods are made only when others run."""

    def late_pod_sets(self) -> Collection[str]:
        """Return the pod sets of these, which are no part of the gang."""
        ...


@runtime_checkable
class Making(Protocol):
    """Kinds that can say which objects their controller makes; other kinds are believed."""

    def makes(self, kind: str, name: str) -> bool:
        """Return whether its controller makes an object of a kind, such as `batch/job`."""
        ...


@dataclass(frozen=True, slots=True)
class Slot:
    """A pod template inside of a job, itself and not a copy."""

    name: str
    count: int
    template: Object = field(repr=False)
    min_count: int | None = None


# Whether a class has a side is asked for each job at each look, and costs as much as the rest.


def is_skipping(job: object) -> TypeIs[Skipping]:
    """Return whether the kind has objects that are not ours."""
    return _has(type(job), Skipping)


def is_reclaiming(job: object) -> TypeIs[Reclaiming]:
    """Return whether the kind can say which pods are done."""
    return _has(type(job), Reclaiming)


def is_remembering(job: object) -> TypeIs[Remembering]:
    """Return whether the kind knows of pods that are done and keep their quota."""
    return _has(type(job), Remembering)


def is_progressing(job: object) -> TypeIs[Progressing]:
    """Return whether the kind has pods that are followed by others."""
    return _has(type(job), Progressing)


def is_terminating(job: object) -> TypeIs[Terminating]:
    """Return whether the kind can say which pods take their time to end."""
    return _has(type(job), Terminating)


def is_stepping(job: object) -> TypeIs[Stepping]:
    """Return whether the kind has steps of its own."""
    return _has(type(job), Stepping)


def is_finalizing(job: object) -> TypeIs[Finalizing]:
    """Return whether the kind has something to tidy up."""
    return _has(type(job), Finalizing)


def is_composed(job: object) -> TypeIs[Composed]:
    """Return whether the kind is made of several objects."""
    return _has(type(job), Composed)


def is_staged(job: object) -> TypeIs[Staged]:
    """Return whether the kind has pods that are made only when others run."""
    return _has(type(job), Staged)


def is_making(job: object) -> TypeIs[Making]:
    """Return whether the kind can say which objects its controller makes."""
    return _has(type(job), Making)


_ANSWERS: Final[dict[tuple[type, type], bool]] = {}


def _has(kind: type, side: type) -> bool:
    asked = (kind, side)
    if asked not in _ANSWERS:
        _ANSWERS[asked] = issubclass(kind, side)
    return _ANSWERS[asked]
