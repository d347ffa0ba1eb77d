"""What decisions answer: frozen values, each refusal with a reason and one sentence.

The sentence is the same for every node and every member, names no node, and has no per cent sign:
kube-scheduler groups equal texts, and older releases format them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from extender.api.reasons import Reason
from extender.gang.room import Lack
from extender.state.cluster.jobs import AdmissionBarrier
from extender.state.cluster.view import ClusterView


@dataclass(frozen=True, slots=True)
class Refuse:
    """No node, for now. `deny` says that the whole group failed, not just this attempt.

    `reserve` is room to be kept all the same: the plan stands, the nodes sent just lack its node.
    `lost` says the opposite: what the plan kept for this pod is not to be had any more. `offered`
    are all nodes that kube-scheduler knew for the pod, where it sent all: with another one it may
    fit. `again` says that this was found out before, and is still so.
    """

    reason: Reason
    message: str
    deny: bool = False
    reserve: Mapping[str, str] = field(default_factory=dict)
    lost: bool = False
    offered: frozenset[str] = field(default=frozenset(), compare=False)
    again: bool = field(default=False, compare=False)
    pauses: bool = field(default=False, compare=False)
    """Whether kube-scheduler is to put off the whole native group of the pod."""
    lack: Lack | None = field(default=None, compare=False)
    """What a node must gain before another look is worth its time, where that is known."""


@dataclass(frozen=True, slots=True)
class AnyNode:
    """Every node that was sent will do."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """Only these nodes, all of them among those that were sent: plans keep room on the others."""

    nodes: tuple[str, ...]
    not_seen: frozenset[str] = frozenset()
    """Those of the others that have no room beside pods that kube-scheduler may not have seen."""
    enough: bool = False
    """Whether nothing speaks against the others: these are enough to choose from."""


@dataclass(frozen=True, slots=True)
class OneNode:
    """One node, and room to be kept for these pods: node by UID."""

    node: str
    reserve: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Allow:
    """Quorum: the waiting members are bound."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Not yet: `have` of `need` members are bound or waiting."""

    have: int
    need: int


@dataclass(frozen=True, slots=True)
class Pending:
    """What a group that has not started waits for."""

    reason: Reason
    message: str


FilterVerdict = Refuse | AnyNode | OneOf | OneNode
PermitVerdict = Allow | Wait | Refuse


NOT_ADMITTED: Final = "is not admitted"


def not_admitted(held: AdmissionBarrier) -> Refuse:
    """Return the refusal of a pod whose job waits in a queue, or has more pods than it may."""
    text = f"job {held.job} has a queue and {NOT_ADMITTED}"
    if not held.is_known:
        text = f"job {held.job} {NOT_ADMITTED}, as far as is known by now"
    elif held.pods:
        text += f" for more than {held.pods} pod(s)"
    return Refuse(Reason.NOT_ADMITTED, text)


def about(group: str | None) -> str:
    """Return how a sentence about a gang begins; also how we know our own sentences again."""
    return f"gang {group}: "


def is_ours(message: str, group: str) -> bool:
    """Return whether the text of a pod's condition repeats a refusal of ours: that is no news."""
    return about(group) in message


# --- whether a refusal still stands: only nodes that gained room, or changed, can end it -----


class Versions(NamedTuple):
    """How often nodes had gained room, and had changed, when an answer was worked out."""

    room: int
    nodes: int


def versions_of(view: ClusterView) -> Versions:
    """Return the versions of room and of nodes; a plan takes those of its begin.

    Room that appears while a plan is made may be on nodes that the plan has already passed.
    """
    return Versions(view.capacity_version, view.nodes_version)


@dataclass(slots=True)
class Standing:
    """A refusal, and the versions up to which it is known to stand."""

    refusal: Refuse
    versions: Versions
    gained: dict[str, int] = field(default_factory=dict)
    """How many of the pods that lack room could go to nodes that have gained some since."""

    def left(self) -> Refuse:
        """Return the refusal, with no more lack than the nodes that gained have left."""
        lack = self.refusal.lack
        if lack is None or not self.gained:
            return self.refusal
        missing = max(1, lack.missing - sum(self.gained.values()))
        return replace(self.refusal, lack=replace(lack, missing=missing))

    def stands(self, view: ClusterView) -> bool:
        """Return whether another look would find the same, by the nodes that have gained room.

        A group that lacks room gets another chance when enough may have appeared; one that would
        not fit on empty nodes, when other nodes would take it.
        """
        now = versions_of(view)
        if now == self.versions:
            return True
        lack = self.refusal.lack
        if lack is None:
            never = self.refusal.reason is Reason.NEVER_FITS
            return never and now.nodes == self.versions.nodes
        if lack.is_filled(self.gained, self.versions, view):
            return False
        self.versions = now
        return True


# --- what the extender alone knows of a group: it is in no object of the API server ------------


@dataclass(frozen=True, slots=True)
class Remembered:
    """A group in the memory of the process that kube-scheduler asks; times since the epoch."""

    denied: Refuse | None = None
    """Its last failure, while the group is refused for it without a look."""
    denied_until: float | None = None
    last_failure: Refuse | None = None
    permitted: bool = False
    """Whether its minResources were there not long ago."""
    is_being_planned: bool = False
    rests_until: float | None = None
    """When the plan is made again that took long and came to nothing."""
    starts_by: float | None = None
    """When its planned and held members are sent away if it has not started."""
    stale: str | None = None
    """A kind of object of which nothing was heard for too long."""


NOTHING: Final = Remembered()
