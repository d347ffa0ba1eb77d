"""Everything that can happen to the state: facts from watches, and steps of our own."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from extender.state.cluster.records import (
    AdmittedPods,
    BudgetInfo,
    ClaimObject,
    JobInfo,
    NodeInfo,
    Pattern,
    PodGroupInfo,
    PodInfo,
    PreemptedRoom,
)
from extender.state.cluster.reservations import Claim


class ClusterEvent:
    """Something that happens to the state: a fact from a watch, or a step of our own."""

    __slots__ = ()


Key = str | tuple[str, str]
"""The name of a node, the UID of a pod or a Job, the API group and the `namespace/name` of a
PodGroup, and for all others the key of the record."""
Record = PodInfo | NodeInfo | PodGroupInfo | JobInfo | AdmittedPods | BudgetInfo | ClaimObject


@dataclass(frozen=True, slots=True)
class ObjectApplied(ClusterEvent):
    """An object was created or changed."""

    record: Record


@dataclass(frozen=True, slots=True)
class ObjectDeleted(ClusterEvent):
    """An object is gone; a pod may also have finished, as finished pods hold nothing."""

    type: type[Record]
    """The type of its record; ClaimInfo for claims, volumes and StorageClasses alike."""
    key: Key


@dataclass(frozen=True, slots=True)
class ObjectsListed:
    """All objects of one type that exist. Any other one was deleted between two watches."""

    type: type[Record]
    """The type of the records; ClaimInfo for claims, volumes and StorageClasses alike."""
    records: Sequence[Record]
    part: str = ""
    """The part of the type that was listed: the API group of PodGroups, the kind of jobs, or the
    start of the keys of claims."""


@dataclass(frozen=True, slots=True)
class PodSeen(ClusterEvent):
    """A request showed a pod that our own watch may not have shown yet.

    Its node and status are not believed, and the pod itself only until `SeenEnded`.
    """

    pod: PodInfo


@dataclass(frozen=True, slots=True)
class SeenEnded(ClusterEvent):
    """No watch has shown these pods in time: they are dropped, as far as still none has."""

    uids: Sequence[str]


@dataclass(frozen=True, slots=True)
class PodsListing(ClusterEvent):
    """A list of all pods is asked for: it has every pod that is there by now."""


@dataclass(frozen=True, slots=True)
class NativesDecided(ClusterEvent):
    """It is known whether native gangs are ours; `fixed` is what no condition changes.

    With None it is open again, unless kube-scheduler has written a condition to one.
    """

    ours: bool | None
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class AdmissionKnown(ClusterEvent):
    """It is known whether anything admits jobs, and for how many pods; or, with None, it is not."""

    in_use: bool | None


@dataclass(frozen=True, slots=True)
class JobsManaged(ClusterEvent):
    """Kinds of which all jobs need a queue to admit them, named or not, but in some namespaces."""

    kinds: frozenset[str] = frozenset()
    """The kinds, as GROUP/KIND."""
    except_in: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Planned(ClusterEvent):
    """Room is kept for members: node by pod UID. A pod that had room elsewhere moves."""

    placements: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PodWaiting(ClusterEvent):
    """A member's bind request is held."""

    pod: PodInfo
    node: str


@dataclass(frozen=True, slots=True)
class PodBinding(ClusterEvent):
    """A pod's Binding is on its way: from now on its room is taken."""

    pod: PodInfo
    node: str


@dataclass(frozen=True, slots=True)
class BoundAhead(ClusterEvent):
    """Bindings are on their way that kube-scheduler did not ask for, or gave up: node by pod UID.

    They are those of pods with planned room, or being bound. It has not seen them on their nodes.
    """

    placements: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sighted(ClusterEvent):
    """kube-scheduler has seen these pods on the nodes to which they were bound ahead."""

    uids: Collection[str]


@dataclass(frozen=True, slots=True)
class AllUnseen(ClusterEvent):
    """True if kube-scheduler may not have seen some pods on any of the nodes."""

    is_so: bool


@dataclass(frozen=True, slots=True)
class Unreserved(ClusterEvent):
    """Pods lost the room that was kept for them."""

    uids: Sequence[str]


@dataclass(frozen=True, slots=True)
class GroupFailed(ClusterEvent):
    """A group could not start, at a time in seconds since the epoch: others go first now."""

    group: str
    at: float


@dataclass(frozen=True, slots=True)
class Claimed(ClusterEvent):
    """All claims of groups that have waited long; earlier ones that are not among them end."""

    claims: Sequence[Claim]


@dataclass(frozen=True, slots=True)
class GrantsEnded(ClusterEvent):
    """Groups have not come in time for the room that a queue had found for them."""

    groups: Sequence[str]


@dataclass(frozen=True, slots=True)
class Nominated(ClusterEvent):
    """Victims leave for a group, which keeps their room from now on, in place of any before."""

    group: str
    nomination: PreemptedRoom
    priority: int | None = None
    """The priority of the group; None for that of its pods now."""


@dataclass(frozen=True, slots=True)
class NominationsEnded(ClusterEvent):
    """Groups keep no room of victims any more."""

    groups: Collection[str]


@dataclass(frozen=True, slots=True)
class PodRefused(ClusterEvent):
    """A pod was refused, and sleeps until it is woken."""

    pod: PodInfo
    reason: str


@dataclass(frozen=True, slots=True)
class PodsTried(ClusterEvent):
    """kube-scheduler tries these pods, or is about to: earlier refusals say nothing any more."""

    uids: Sequence[str]


@dataclass(frozen=True, slots=True)
class Looked(ClusterEvent):
    """kube-scheduler found nodes good for a pod of a pattern, at a time in seconds."""

    pattern: Pattern
    names: Sequence[str]
    at: float
    agrees: bool = True
    """True if our books say the same of all nodes that it sent."""


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """The things that an event touched, which are worth deciding again."""

    groups: frozenset[str] = frozenset()
    """Groups that gained, lost or placed a pod, or whose PodGroup is another one now."""
    unschedulable: frozenset[str] = frozenset()
    """UIDs of pods that kube-scheduler has just found no node for."""
    room: bool = False
    """Room was freed that kube-scheduler does not know of, or of which it gets no event."""
    statuses: frozenset[str] = frozenset()
    """Groups of which a pod started, got ready, ended or changed hands: room does not depend on
    it, the reported status does."""
    gated: frozenset[str] = frozenset()
    """Workloads, `namespace/name`, of which a pod waits for the domain that it goes to."""
    claims: frozenset[str] = frozenset()
    """Keys of claims that came, went or changed."""
