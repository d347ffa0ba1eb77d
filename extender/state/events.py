"""Everything that can happen to the state: facts from watches, and steps of our own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extender.state.claims import Claim
from extender.state.jobs import JobInfo
from extender.state.nodes import NodeInfo
from extender.state.pod_groups import PodGroupInfo
from extender.state.pods import PodInfo


@dataclass(frozen=True, slots=True)
class PodApplied:
    """A pod was created or changed."""

    pod: PodInfo


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A request showed a pod that our own watch may not have shown yet.

    Its node and status are not believed, and the pod itself only until `SeenEnded`.
    """

    pod: PodInfo


@dataclass(frozen=True, slots=True)
class SeenEnded:
    """No watch has shown these pods in time: they are dropped, as far as still none has."""

    uids: Sequence[str]


@dataclass(frozen=True, slots=True)
class PodsListing:
    """A list of all pods is asked for: it has every pod that is there by now."""


@dataclass(frozen=True, slots=True)
class PodDeleted:
    """A pod is gone, or has finished: finished pods hold nothing."""

    uid: str


@dataclass(frozen=True, slots=True)
class PodsListed:
    """All pods there are: whatever is missing was deleted between two watches."""

    pods: Sequence[PodInfo]


@dataclass(frozen=True, slots=True)
class NodeApplied:
    """A node was created or changed."""

    node: NodeInfo


@dataclass(frozen=True, slots=True)
class NodeDeleted:
    """A node is gone."""

    name: str


@dataclass(frozen=True, slots=True)
class NodesListed:
    """All nodes there are."""

    nodes: Sequence[NodeInfo]


@dataclass(frozen=True, slots=True)
class PodGroupApplied:
    """A PodGroup was created or changed."""

    pod_group: PodGroupInfo


@dataclass(frozen=True, slots=True)
class PodGroupDeleted:
    """A PodGroup is gone."""

    api_group: str
    key: str


@dataclass(frozen=True, slots=True)
class PodGroupsListed:
    """All PodGroups there are in one API group."""

    api_group: str
    pod_groups: Sequence[PodGroupInfo]


@dataclass(frozen=True, slots=True)
class JobApplied:
    """A Job was created or changed."""

    job: JobInfo


@dataclass(frozen=True, slots=True)
class JobDeleted:
    """A Job is gone."""

    uid: str


@dataclass(frozen=True, slots=True)
class JobsListed:
    """All Jobs there are."""

    jobs: Sequence[JobInfo]


@dataclass(frozen=True, slots=True)
class Planned:
    """Room is kept for members: node by pod UID. A pod that had room elsewhere moves."""

    placements: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PodWaiting:
    """A member's bind request is held."""

    pod: PodInfo
    node: str


@dataclass(frozen=True, slots=True)
class PodBinding:
    """A pod's Binding is on its way: from now on its room is taken."""

    pod: PodInfo
    node: str


@dataclass(frozen=True, slots=True)
class Unreserved:
    """Pods lost the room that was kept for them."""

    uids: Sequence[str]


@dataclass(frozen=True, slots=True)
class GroupFailed:
    """A group could not start, at a time in seconds since the epoch: others go first now."""

    group: str
    at: float


@dataclass(frozen=True, slots=True)
class Claimed:
    """All claims of groups that have waited long; earlier ones that are not among them end."""

    claims: Sequence[Claim]


@dataclass(frozen=True, slots=True)
class GrantsEnded:
    """Groups have not come in time for the room that a queue had found for them."""

    groups: Sequence[str]


@dataclass(frozen=True, slots=True)
class PodRefused:
    """A pod was refused, and waits for somebody to wake it."""

    pod: PodInfo
    reason: str


@dataclass(frozen=True, slots=True)
class PodsTried:
    """kube-scheduler tries these pods, or is about to: earlier refusals say nothing any more."""

    uids: Sequence[str]


Listed = PodsListed | NodesListed | PodGroupsListed | JobsListed
"""All objects of a kind: what is missing is gone."""

Event = (
    PodApplied
    | PodSeen
    | SeenEnded
    | PodsListing
    | PodDeleted
    | NodeApplied
    | NodeDeleted
    | PodGroupApplied
    | PodGroupDeleted
    | JobApplied
    | JobDeleted
    | Planned
    | PodWaiting
    | PodBinding
    | Unreserved
    | GroupFailed
    | Claimed
    | GrantsEnded
    | PodRefused
    | PodsTried
)


@dataclass(frozen=True, slots=True)
class Change:
    """What an event touched: for whom it is worth deciding again."""

    groups: frozenset[str] = frozenset()
    """Groups that gained, lost or placed a pod, or whose PodGroup is another one now."""
    unschedulable: frozenset[str] = frozenset()
    """UIDs of pods that kube-scheduler has just found no node for."""
    room: bool = False
    """Room was freed that kube-scheduler does not know of, or that no event of its own tells."""
    statuses: frozenset[str] = frozenset()
    """Groups of which a pod started, got ready, ended or changed hands: nothing to decide room by,
    but to be told."""
