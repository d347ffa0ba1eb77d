"""The common parts of decisions about gangs: settings, the kinds of room, and the answers.

Answers are frozen values. Each refusal has a reason and one sentence. The sentence is the same for
every node and every member, names no node, and has no per cent sign: kube-scheduler groups equal
texts, and older releases use them as format strings.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from itertools import islice
from typing import Final, Literal, NamedTuple

from extender.api.reasons import TOO_LARGE, Reason
from extender.fit.candidates import is_feasible, slots
from extender.resources.quantity import Resources, subtract
from extender.state.cluster.jobs import AdmissionBarrier
from extender.state.cluster.records import NodeInfo, Shape
from extender.state.cluster.view import ClusterView

# --- room: free room, room without the reservations of other groups, and empty nodes -------------


MOST_LOOKS: Final = 2048
"""The lack of a group is computed only if this many shapes or fewer have to be compared, over all
nodes. Above that, the group is planned again instead."""


class Room(Enum):
    """The kinds of room that are tried for a gang that does not fit."""

    FREE = "free"
    """The room that no pod takes, and no plan of another group keeps."""
    UNKEPT = "unkept"
    """The room that no pod takes and no plan of this group keeps. It ignores other groups, and so
    shows whether their plans and claims are in the way."""
    EMPTY = "empty"
    """The whole nodes. They show whether the gang could ever fit."""


def room_on(
    node: NodeInfo, room: Room, *, view: ClusterView, priority: int, group: str
) -> Resources:
    """Return the amounts that a node has for a group of that priority; may be negative."""
    match room:
        case Room.FREE:
            return view.free(node, priority=priority, group=group)
        case Room.UNKEPT:
            left = dict(node.allocatable)
            subtract(left, view.used(node.name))
            for uid, kept in view.planned_on(node.name).items():
                if view.pods[uid].group == group:
                    subtract(left, kept.amounts[node.name])
            return left
        case Room.EMPTY:
            return dict(node.allocatable)


# --- the lack of a group that did not fit ----------------------------------------------------
#
# Only nodes that gained room are read again: the others are unchanged or have less. If `missing`
# equal pods of a gang found no room, the gang does not fit before the nodes that gained room can
# take that many. A gang of unequal pods is planned again as soon as such a node can take one pod.


@dataclass(frozen=True, slots=True)
class Lack:
    """The number of pods of these shapes that found no room of a kind."""

    group: str
    priority: int
    shapes: tuple[Shape, ...]
    missing: int
    room: Room

    def is_filled(self, gained: dict[str, int], since: tuple[int, int], view: ClusterView) -> bool:
        """Return whether the nodes that gained room may take the missing pods.

        `since` are the versions of room and of nodes to start from. `gained` maps nodes to the pods
        that they can take, from one call to the next. If a node went away, the answer is yes: the
        group may never fit any more, which only a plan finds out.
        """
        room, changed = since
        if self.room is Room.EMPTY:
            nodes = view.changed_since(changed)
        elif any(name not in view.nodes for name in view.changed_since(changed)):
            return True
        else:
            nodes = view.gained_since(room)
        total = sum(gained.values())
        for number, name in enumerate(nodes):
            if (number + 1) * len(self.shapes) > MOST_LOOKS:
                return True
            total -= gained.pop(name, 0)
            gained[name] = self._slots(name, view)
            total += gained[name]
            if total >= self.missing:
                return True
        return False

    def is_filled_beside(self, sent: Collection[str], view: ClusterView) -> bool:
        """Return whether nodes that were not sent have room for the missing pods.

        kube-scheduler may not have seen that room yet. Of very many nodes only some are looked at.
        """
        others = (name for name in view.nodes if name not in sent)
        found = 0
        for name in islice(others, MOST_LOOKS // max(1, len(self.shapes))):
            found += self._slots(name, view)
            if found >= self.missing:
                return True
        return False

    def _slots(self, name: str, view: ClusterView) -> int:
        """Return the largest number of the pods of one shape that a node could take."""
        node = view.nodes.get(name)
        if node is None:
            return 0
        free = room_on(node, self.room, view=view, priority=self.priority, group=self.group)
        # kube-scheduler may judge node affinity differently, so a shape with affinity counts.
        open_to = (s for s in self.shapes if s.affinity is not None or is_feasible(s, node))
        return max((slots(shape, free) for shape in open_to), default=0)


# --- settings and answers ------------------------------------------------------------------------


class OnPartial(StrEnum):
    """The fate of a gang that has been partial for longer than its schedule time-out."""

    KEEP = "keep"
    """Its pods stay where they are, and an Event is written."""
    EVICT = "evict"
    """Its pods are evicted, so that the gang starts anew as a whole."""
    RESTART = "restart"
    """The same, and at once when it has lost a member that it needs."""


OnPartialOverrides = Literal["evict", "any", "none"]
"""The values of a PodGroup's annotation that count: only `evict` and `restart`, which cost its own
gang alone; any; or none."""


@dataclass(frozen=True, slots=True)
class GangOptions:
    """The section `gang` as decisions read it: `config/gang.py` documents each setting.

    Times are in seconds. The defaults are those of the section.
    """

    schedule_timeout: float = 60.0
    max_schedule_timeout: float = 900.0
    denied: float = 3.0
    reject_percentage: int = 10
    evict_after: float = 60.0
    on_partial_overrides: OnPartialOverrides = "evict"
    on_refused: OnPartial = OnPartial.EVICT
    aging: float = 300.0
    claims_per_namespace: int = 5
    claim_nodes_percentage: int = 50
    growing: bool = False
    publishes_after: float = 0.0
    """The seconds of waiting after which a group's claimed nodes are published; 0 is never."""
    domain_timeout: float = 600.0
    strict_order: bool = False
    gate_until_fit: bool = False
    """True if `ungateWhen` is `fits`."""
    bind_equal: bool = True
    """True if `bindTogether` is `equal` and kube-scheduler's configuration allows it."""
    preempts: bool = True
    preempts_after: float = 0.0
    """The seconds for which a gang lacks room before it preempts."""
    min_run: float = 0.0
    max_min_run: float = 3600.0
    strict_budgets: bool = False
    protects: bool = True
    """True if gangs that have started get a PodDisruptionBudget."""
    retry_grace: float = 3.0

    def timeout(self, asked: float | None) -> float:
        """Return the schedule time-out of a group; `asked` is what it asked for."""
        return min(asked or self.schedule_timeout, self.max_schedule_timeout)

    def runs_for(self, asked: float | None) -> float:
        """Return the seconds for which a gang is no victim; `asked` is what it asked for."""
        if asked is None:
            return self.min_run
        return min(asked, max(self.max_min_run, self.min_run))


@dataclass(frozen=True, slots=True)
class Refuse:
    """No node, for now. `deny` says that the whole group failed, not just this attempt.

    `reserve` is room to be kept all the same: the plan stands, only its node was not sent. `lost`
    says the opposite: the room that the plan kept for this pod is gone. `of_offer` says that the
    refusal holds for the nodes that were sent, and with others the group may fit. `again` says that
    the answer was found before and still holds.
    """

    reason: Reason
    message: str
    deny: bool = False
    reserve: Mapping[str, str] = field(default_factory=dict)
    lost: bool = False
    of_offer: bool = field(default=False, compare=False)
    unseen: bool = field(default=False, compare=False)
    """True if nodes that were not sent have the room that is missing: kube-scheduler may yet see
    it, and nothing that the extender's watch shows would tell."""
    again: bool = field(default=False, compare=False)
    pauses: bool = field(default=False, compare=False)
    """True if kube-scheduler is to put off the whole native group of the pod."""
    lack: Lack | None = field(default=None, compare=False)
    """The room that nodes must gain before another look is worth its time, if that is known."""


@dataclass(frozen=True, slots=True)
class AnyNode:
    """Every node that was sent is suitable."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """A part of the nodes that were sent: plans keep room on the others."""

    nodes: tuple[str, ...]
    not_seen: frozenset[str] = frozenset()
    """The other nodes without room beside pods that kube-scheduler may not have seen."""
    enough: bool = False
    """True if other nodes suit as well and were left out only to save kube-scheduler time."""


@dataclass(frozen=True, slots=True)
class OneNode:
    """One node, and room to be kept for these pods: node by UID."""

    node: str
    reserve: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Allow:
    """The group has quorum: the waiting members are bound."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The group has no quorum yet: `have` of `need` members are bound or waiting."""

    have: int
    need: int


@dataclass(frozen=True, slots=True)
class Pending:
    """The reason why a group has not started, and a message."""

    reason: Reason
    message: str


FilterVerdict = Refuse | AnyNode | OneOf | OneNode
PermitVerdict = Allow | Wait | Refuse


NOT_ADMITTED: Final = "is not admitted"


def not_admitted(held: AdmissionBarrier) -> Refuse:
    """Return the refusal of a pod whose job waits in a queue, or has more pods than admitted."""
    text = f"job {held.job} has a queue and {NOT_ADMITTED}"
    if not held.is_known:
        text = f"job {held.job} {NOT_ADMITTED}, as far as is known by now"
    elif held.pods:
        text += f" for more than {held.pods} pod(s)"
    return Refuse(Reason.NOT_ADMITTED, text)


def about(group: str | None) -> str:
    """Return the beginning of each sentence about a gang, by which we also recognize our own."""
    return f"gang {group}: "


def is_ours(message: str, group: str) -> bool:
    """Return whether the text of a pod's condition repeats a refusal of ours, which is not new."""
    return about(group) in message


# --- whether a refusal still stands: only nodes that gained room, or changed, can end it -----


class Versions(NamedTuple):
    """The counts of changes, to the room and to the nodes, when an answer was worked out."""

    room: int
    nodes: int


def versions_of(view: ClusterView) -> Versions:
    """Return the versions of room and of nodes; a plan takes those of its beginning.

    Room that appears while a plan is made may be on nodes that the plan has already passed.
    """
    return Versions(view.capacity_version, view.nodes_version)


@dataclass(slots=True)
class Standing:
    """A refusal, and the versions up to which it is known to stand."""

    refusal: Refuse
    versions: Versions
    gained: dict[str, int] = field(default_factory=dict)
    """The number of missing pods that each node which has gained room since could take."""

    def left(self) -> Refuse:
        """Return the refusal, with the lack reduced by the room that nodes have gained since."""
        lack = self.refusal.lack
        if lack is None or not self.gained:
            return self.refusal
        missing = max(1, lack.missing - sum(self.gained.values()))
        return replace(self.refusal, lack=replace(lack, missing=missing))

    def stands(self, view: ClusterView) -> bool:
        """Return whether another look would find the same, given the nodes that have gained room.

        A group that lacks room gets another chance when enough room may have appeared. A group that
        would not fit on empty nodes gets one when the nodes have changed so that it may fit.
        """
        now = versions_of(view)
        if now == self.versions:
            return True
        lack = self.refusal.lack
        if lack is None:
            never = self.refusal.reason in TOO_LARGE
            return never and now.nodes == self.versions.nodes
        if lack.is_filled(self.gained, self.versions, view):
            return False
        self.versions = now
        return True


# --- the facts about a group that only the extender knows, and no API object contains ----------


@dataclass(frozen=True, slots=True)
class Remembered:
    """The memory of a group in the process that kube-scheduler asks; times since the epoch."""

    denied: Refuse | None = None
    """The last failure of the group, while the group is refused for it without another look."""
    denied_until: float | None = None
    last_failure: Refuse | None = None
    permitted: bool = False
    """True if its minResources were free not long ago."""
    is_being_planned: bool = False
    rests_until: float | None = None
    """The time when a plan that took long and failed is made again."""
    starts_by: float | None = None
    """The time when its planned and held members are refused if it has not started."""
    stale: str | None = None
    """A kind of object whose watch has been silent for too long."""


NOTHING: Final = Remembered()
