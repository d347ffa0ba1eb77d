"""Everything that can happen to the state: facts from watches, and steps of our own."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from extender.state.cluster.records import (
    BATCH_JOB,
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
class NativesDecided:
    """It is known whether native gangs are ours; `fixed` is what no condition changes.

    With None it is open again, unless kube-scheduler has written a condition to one.
    """

    ours: bool | None
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class BatchJobApplied:
    """A Job was created or changed."""

    job: JobInfo


@dataclass(frozen=True, slots=True)
class BatchJobDeleted:
    """A Job is gone."""

    uid: str


@dataclass(frozen=True, slots=True)
class BatchJobsListed:
    """All Jobs there are, or all jobs of another kind."""

    jobs: Sequence[JobInfo]
    kind: str = BATCH_JOB


@dataclass(frozen=True, slots=True)
class WorkloadApplied:
    """A Workload was created or changed."""

    workload: AdmittedPods


@dataclass(frozen=True, slots=True)
class WorkloadDeleted:
    """A Workload is gone."""

    key: str


@dataclass(frozen=True, slots=True)
class WorkloadsListed:
    """All Workloads there are."""

    workloads: Sequence[AdmittedPods]
    served: bool = True
    """True if the API server has such objects: without them nothing admits jobs."""


@dataclass(frozen=True, slots=True)
class AdmissionKnown:
    """It is known whether anything admits jobs, and for how many pods; or, with None, it is not."""

    in_use: bool | None


@dataclass(frozen=True, slots=True)
class JobsManaged:
    """Kinds of which all jobs need a queue to admit them, named or not, but in some namespaces."""

    kinds: frozenset[str] = frozenset()
    """The kinds, as GROUP/KIND."""
    except_in: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BudgetApplied:
    """A PodDisruptionBudget was created or changed."""

    budget: BudgetInfo


@dataclass(frozen=True, slots=True)
class BudgetDeleted:
    """A PodDisruptionBudget is gone."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class BudgetsListed:
    """All PodDisruptionBudgets there are."""

    budgets: Sequence[BudgetInfo]


@dataclass(frozen=True, slots=True)
class ClaimObjectApplied:
    """A claim, a volume or a StorageClass was created or changed."""

    found: ClaimObject


@dataclass(frozen=True, slots=True)
class ClaimObjectDeleted:
    """A claim, a volume or a StorageClass is gone."""

    found: ClaimObject


@dataclass(frozen=True, slots=True)
class ClaimObjectsListed:
    """All claims, volumes or StorageClasses there are: keys begin with `prefix`."""

    prefix: str
    found: Sequence[ClaimObject]


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
class BoundAhead:
    """Bindings that kube-scheduler did not ask for are on their way: node by pod UID.

    They are those of pods with planned room; kube-scheduler has not seen these pods on their nodes.
    """

    placements: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sighted:
    """kube-scheduler has seen these pods on the nodes to which they were bound ahead."""

    uids: Collection[str]


@dataclass(frozen=True, slots=True)
class AllUnseen:
    """True if kube-scheduler may not have seen some pods on any of the nodes."""

    is_so: bool


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
class Nominated:
    """Victims leave for a group, which keeps their room from now on, in place of any before."""

    group: str
    nomination: PreemptedRoom
    priority: int | None = None
    """The priority of the group; None for that of its pods now."""


@dataclass(frozen=True, slots=True)
class NominationsEnded:
    """Groups keep no room of victims any more."""

    groups: Collection[str]


@dataclass(frozen=True, slots=True)
class PodRefused:
    """A pod was refused, and sleeps until it is woken."""

    pod: PodInfo
    reason: str


@dataclass(frozen=True, slots=True)
class PodsTried:
    """kube-scheduler tries these pods, or is about to: earlier refusals say nothing any more."""

    uids: Sequence[str]


@dataclass(frozen=True, slots=True)
class Looked:
    """kube-scheduler found nodes good for a pod of a pattern, at a time in seconds."""

    pattern: Pattern
    names: Sequence[str]
    at: float
    agrees: bool = True
    """True if our books say the same of all nodes that it sent."""


Listed = (
    PodsListed
    | NodesListed
    | PodGroupsListed
    | BatchJobsListed
    | WorkloadsListed
    | BudgetsListed
    | ClaimObjectsListed
)
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
    | NativesDecided
    | BatchJobApplied
    | BatchJobDeleted
    | WorkloadApplied
    | WorkloadDeleted
    | AdmissionKnown
    | JobsManaged
    | BudgetApplied
    | BudgetDeleted
    | ClaimObjectApplied
    | ClaimObjectDeleted
    | Planned
    | PodWaiting
    | PodBinding
    | BoundAhead
    | Sighted
    | AllUnseen
    | Unreserved
    | GroupFailed
    | Claimed
    | GrantsEnded
    | Nominated
    | NominationsEnded
    | PodRefused
    | PodsTried
    | Looked
)


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
