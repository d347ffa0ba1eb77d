"""Room on nodes besides quota: what a cycle asks of whoever knows the nodes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from extender.api.values import ignored, switch
from extender.api.wellknown import REQUIRE_ROOM_ANNOTATION
from extender.queueing.options import Options
from extender.state.queues.records import Assignment, ClusterQueueInfo, Meta, WorkloadInfo
from extender.steps import Steps


class Room(Protocol):
    """The nodes as they are now. What is taken in a cycle counts until the next one begins.

    Questions are answered in pieces. The state may change between two of them, and is looked at
    again when the room is not `asking`: a question is answered on the nodes as they were when it
    was asked.
    """

    @property
    def version(self) -> int:
        """Grows whenever room is taken."""
        ...

    @property
    def asking(self) -> bool:
        """Whether a question is being answered, so that nothing else may be done here."""
        ...

    def judge(self) -> None:
        """Begin a judgement: what others were answered counts only while nothing has changed.

        In one judgement a question that is asked again has the same answer though the state has
        changed, except where pods that fitted would have no room any more.
        """
        ...

    def begin(self) -> None:
        """Look at the nodes anew from now on."""
        ...

    def prepare(self) -> Iterator[None]:
        """Look at everything piece by piece; without it the first question does all at once.

        There are no pieces where everything was looked at since `begin`.
        """
        ...

    def look_again(self) -> bool:
        """Look at the nodes anew if anything has changed, and return whether it has.

        What was taken stays taken, unless the state shows it by now.
        """
        ...

    def lack(
        self,
        workload: WorkloadInfo,
        given: Sequence[Assignment],
        *,
        without: Collection[str] = (),
    ) -> Steps[str | None]:
        """Return what these pods lack on nodes, with numbers; None where all of them fit.

        `without` are workloads that are to leave: what they have counts as free.
        """
        ...

    def gains(
        self, workload: WorkloadInfo, given: Sequence[Assignment], *, without: Collection[str]
    ) -> Steps[Mapping[str, int]]:
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

    def let_go(self, workload: str) -> None:
        """Count the pods of a workload as placed no more; nothing where none were."""
        ...


def requires_room(queue: ClusterQueueInfo, options: Options) -> bool:
    """Return whether workloads of a ClusterQueue need room besides quota."""
    found = switch(_said(queue.meta))
    return options.require_room if found is None else found


def unreadable(meta: Meta) -> Iterator[str]:
    """Yield what is to be told of what a ClusterQueue says about room, if nobody can read it."""
    said = _said(meta)
    if said and switch(said) is None:
        yield ignored(REQUIRE_ROOM_ANNOTATION, said, "true or false")


def _said(meta: Meta) -> str:
    return meta.annotations.get(REQUIRE_ROOM_ANNOTATION, "").strip().lower()
