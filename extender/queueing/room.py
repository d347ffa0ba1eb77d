"""Room on nodes, which workloads may need as well as quota: what a cycle asks about nodes."""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from extender.api.values import ignored, switch
from extender.api.wellknown import PREEMPT_FOR_ROOM_ANNOTATION, REQUIRE_ROOM_ANNOTATION
from extender.queueing.options import AdmissionOptions, Order, PreemptForRoom
from extender.state.queue.records import (
    Assignment,
    ClusterQueueInfo,
    FlavorInfo,
    Meta,
    WorkloadInfo,
)
from extender.steps import Steps

Choice = tuple[Assignment, ...]
"""Flavors for all pod sets."""


@dataclass(frozen=True, slots=True)
class Aged:
    """A workload for which room is to be kept."""

    workload: WorkloadInfo
    order: Order
    """Its turn, which is its place among all that wait: priority, time, arrival."""
    since: float
    """The time since which room is kept for it, in seconds since the epoch; now if none is kept."""
    choices: tuple[Choice, ...]
    """The flavors that it could have, those that its ClusterQueue tries first before others."""
    has_quota: bool
    """True if it lacks nothing but room, as far as is stored."""
    like: Hashable = None
    """The key that it shares with equivalent workloads."""


_POLICIES: Final[Mapping[str, PreemptForRoom]] = {
    "never": "Never",
    "lowerpriority": "LowerPriority",
}
"""The policies by the annotation in lower case."""


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
        """Return whether a question is being answered; no other method may be called then."""

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

    def located(
        self, workload: WorkloadInfo, assignments: Sequence[Assignment]
    ) -> tuple[Assignment, ...]:
        """Return the assignments with the domains that the last question found for their pods."""

    def gains(
        self, workload: WorkloadInfo, assignments: Sequence[Assignment], *, without: Collection[str]
    ) -> Steps[Mapping[str, int]]:
        """Return for each workload that is to leave how many of these pods fit in its place."""

    def needed(
        self,
        workload: WorkloadInfo,
        assignments: Sequence[Assignment],
        candidates: Sequence[str],
        *,
        without: Collection[str] = (),
    ) -> Steps[Sequence[str] | None]:
        """Return which of `candidates` have to go as well as `without` so that all pods fit.

        None where not all fit even without all of them. No more go than are needed, and the first
        ones stay if that is possible.
        """

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

    def is_due(self, now: float, waits: Callable[[str], bool]) -> bool:
        """Return whether to look again for which workloads room is kept.

        `waits` says whether one still waits; `now` in seconds since the epoch.
        """

    def reserving(
        self,
        aged: Sequence[Aged],
        *,
        order: Callable[[WorkloadInfo], Order],
        passing: Collection[str],
        now: float,
        period: float,
    ) -> Steps[None]:
        """Keep room for workloads that have waited for long, first in turn first, and for no other.

        Those that come later in `order` get only what is left beside it, except the preemptors in
        `passing`, which had chosen their victims before. What is kept grows with each further
        `period`, in seconds.
        """

    def kept_for(self, workload: str) -> tuple[int, int] | None:
        """Return for how many pods room is kept, and on how many nodes; None where none is."""

    @property
    def never_fit(self) -> Collection[Hashable]:
        """Return the equivalence keys of workloads that fit nowhere even if no room is kept."""

    @property
    def reserved(self) -> Collection[str]:
        """The workloads for which room is kept."""


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """The rules about what a workload needs in addition to quota."""

    options: AdmissionOptions = field(default_factory=AdmissionOptions)
    room: RoomFinder | None = None
    """Knows the nodes; without it a workload needs quota only."""
    flavors: Mapping[str, FlavorInfo] = field(default_factory=dict)
    """The flavors by name. One with a topology is given only if pods have room in its domains."""

    def room_for(self, queue: ClusterQueueInfo | None) -> RoomFinder | None:
        """Return what finds room for workloads of a ClusterQueue; None: they need quota only."""
        if (
            self.room is None
            or queue is None
            or not requires_room(queue, self.options, self.flavors)
        ):
            return None
        return self.room


def requires_room(
    queue: ClusterQueueInfo, options: AdmissionOptions, flavors: Mapping[str, FlavorInfo]
) -> bool:
    """Return whether workloads of a ClusterQueue need room on nodes as well as quota.

    They do in any case where one of its flavors has a topology: pods get domains with room.
    """
    if has_topology(queue, flavors):
        return True
    found = switch(_said(queue.meta, REQUIRE_ROOM_ANNOTATION))
    return options.require_room if found is None else found


def has_topology(queue: ClusterQueueInfo, flavors: Mapping[str, FlavorInfo]) -> bool:
    """Return whether a flavor of a ClusterQueue has a topology."""
    return any(name in flavors and flavors[name].topology for name in queue.flavors)


def preempts_for_room(
    queue: ClusterQueueInfo, options: AdmissionOptions, flavors: Mapping[str, FlavorInfo]
) -> bool:
    """Return whether workloads of lower priority may be preempted where only room is lacking.

    Never where a flavor has a topology: victims are chosen without a look at domains.
    """
    if has_topology(queue, flavors):
        return False
    said = _said(queue.meta, PREEMPT_FOR_ROOM_ANNOTATION)
    policy = _POLICIES.get(said, options.preempt_for_room)
    return policy == "LowerPriority" and requires_room(queue, options, flavors)


def unreadable(meta: Meta) -> Iterator[str]:
    """Yield a warning about each of a ClusterQueue's annotations on room that cannot be read."""
    text = _said(meta, REQUIRE_ROOM_ANNOTATION)
    if text and switch(text) is None:
        yield ignored(REQUIRE_ROOM_ANNOTATION, text, "true or false")
    text = meta.annotations.get(PREEMPT_FOR_ROOM_ANNOTATION, "").strip()
    if text and text.lower() not in _POLICIES:
        yield ignored(PREEMPT_FOR_ROOM_ANNOTATION, text, " or ".join(_POLICIES.values()))


def without_effect(queue: ClusterQueueInfo, flavors: Mapping[str, FlavorInfo]) -> Iterator[str]:
    """Yield a warning about each of a ClusterQueue's annotations that a topology overrules."""
    name = next((x for x in sorted(queue.flavors) if x in flavors and flavors[x].topology), None)
    if name is None:
        return
    why = f"has no effect: flavor {name} has a topology"
    if switch(_said(queue.meta, REQUIRE_ROOM_ANNOTATION)) is False:
        yield f"{REQUIRE_ROOM_ANNOTATION}=false {why}"
    if _POLICIES.get(_said(queue.meta, PREEMPT_FOR_ROOM_ANNOTATION)) == "LowerPriority":
        yield f"{PREEMPT_FOR_ROOM_ANNOTATION}=LowerPriority {why}"


def _said(meta: Meta, annotation: str) -> str:
    return meta.annotations.get(annotation, "").strip().lower()
