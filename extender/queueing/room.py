"""Room on nodes besides quota: what a cycle asks of whoever knows the nodes."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from extender.api.wellknown import REQUIRE_ROOM_ANNOTATION
from extender.queueing.options import Options
from extender.state.queues.records import Assignment, ClusterQueueInfo, WorkloadInfo

_WORDS: Final = {"true": True, "false": False}


class Room(Protocol):
    """The nodes as they are now. What is taken in a cycle counts until the next one begins."""

    @property
    def version(self) -> int:
        """Grows whenever room is taken."""
        ...

    def begin(self) -> None:
        """Look at the nodes anew from now on."""
        ...

    def lack(
        self,
        workload: WorkloadInfo,
        given: Sequence[Assignment],
        *,
        without: Collection[str] = (),
    ) -> str | None:
        """Return what these pods lack on nodes, with numbers; None where all of them fit.

        `without` are workloads that are to leave: what they have counts as free.
        """
        ...

    def gains(
        self, workload: WorkloadInfo, given: Sequence[Assignment], *, without: Collection[str]
    ) -> Mapping[str, int]:
        """Return beside whose pods, of those that are to leave, how many of these would go."""
        ...

    def take(
        self,
        workload: WorkloadInfo,
        given: Sequence[Assignment],
        *,
        without: Collection[str] = (),
    ) -> None:
        """Count the pods of an admission as placed, or of one that comes when others have left."""
        ...


def requires_room(queue: ClusterQueueInfo, options: Options) -> bool:
    """Return whether workloads of a ClusterQueue need room besides quota."""
    return _WORDS.get(_said(queue), options.require_room)


def unread(queue: ClusterQueueInfo) -> str | None:
    """Return what a ClusterQueue says about room that nobody understands."""
    said = _said(queue)
    return None if not said or said in _WORDS else said


def _said(queue: ClusterQueueInfo) -> str:
    return queue.meta.annotations.get(REQUIRE_ROOM_ANNOTATION, "").strip().lower()
