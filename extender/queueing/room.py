"""Room on nodes, which workloads may need as well as quota: what a cycle asks about nodes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from extender.api.values import ignored, switch
from extender.api.wellknown import REQUIRE_ROOM_ANNOTATION
from extender.queueing.options import AdmissionOptions
from extender.state.queue.records import Assignment, ClusterQueueInfo, Meta, WorkloadInfo
from extender.steps import Steps


class RoomFinder(Protocol):
    """Finds room on the nodes as they are now; room taken in a cycle counts until the next begins.

    Questions are answered in pieces. The state may change between two of them. It is read again
    only when no question is open (`asking`): an answer is about the nodes at the time of the
    question.
    """

    @property
    def version(self) -> int:
        """Grows whenever room is taken."""

    @property
    def asking(self) -> bool:
        """Whether a question is being answered; no other method may be called then."""

    def judge(self) -> None:
        """Begin a judgement: answers to earlier ones count only while nothing has changed.

        Within a judgement a repeated question has the same answer even if the state has changed,
        unless pods that fitted would have no room any more.
        """

    def begin(self) -> None:
        """Drop what was taken, and read the nodes again."""

    def prepare(self) -> Iterator[None]:
        """Read everything piece by piece; otherwise the first question reads all at once.

        There are no pieces where everything was read since `begin`.
        """

    def look_again(self) -> bool:
        """Read the nodes again if anything has changed, and return whether it has.

        Room that was taken counts until the state shows it.
        """

    def lack(
        self,
        workload: WorkloadInfo,
        assignments: Sequence[Assignment],
        *,
        without: Collection[str] = (),
    ) -> Steps[str | None]:
        """Return what these pods lack on nodes, with numbers; None where all of them fit.

        The pods of workloads in `without`, which are to leave, count as gone.
        """

    def gains(
        self, workload: WorkloadInfo, assignments: Sequence[Assignment], *, without: Collection[str]
    ) -> Steps[Mapping[str, int]]:
        """Return for each workload that is to leave how many of these pods fit in its place."""

    def take(
        self,
        workload: WorkloadInfo,
        assignments: Sequence[Assignment],
        *,
        without: Collection[str] = (),
    ) -> None:
        """Count the pods of an admission as placed, once the pods of `without` are gone."""

    def let_go(self, workload: str) -> None:
        """Count the pods of a workload as placed no more, if they were."""


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """What a workload needs as well as quota."""

    options: AdmissionOptions = field(default_factory=AdmissionOptions)
    room: RoomFinder | None = None
    """Knows the nodes; without it a workload needs quota only."""

    def room_for(self, queue: ClusterQueueInfo | None) -> RoomFinder | None:
        """Return what finds room for workloads of a ClusterQueue; None: they need quota only."""
        if self.room is None or queue is None or not requires_room(queue, self.options):
            return None
        return self.room


def requires_room(queue: ClusterQueueInfo, options: AdmissionOptions) -> bool:
    """Return whether workloads of a ClusterQueue need room on nodes as well as quota."""
    found = switch(_annotation(queue.meta))
    return options.require_room if found is None else found


def unreadable(meta: Meta) -> Iterator[str]:
    """Yield a warning about a ClusterQueue's annotation on room that cannot be read."""
    text = _annotation(meta)
    if text and switch(text) is None:
        yield ignored(REQUIRE_ROOM_ANNOTATION, text, "true or false")


def _annotation(meta: Meta) -> str:
    return meta.annotations.get(REQUIRE_ROOM_ANNOTATION, "").strip().lower()
