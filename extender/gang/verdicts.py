"""What decisions answer: frozen values, each refusal with a reason and one sentence.

The sentence is the same for every node and every member, names no node, and has no per cent sign:
kube-scheduler groups equal texts, and older releases format them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from extender.api.reasons import Reason
from extender.gang.lack import Lack
from extender.state.cluster.admissions import AdmissionBarrier


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
