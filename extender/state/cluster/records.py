"""The facts about nodes, pods, PodGroups and Jobs that decisions know.

Twin of `state/queue/records.py`. Amounts are as in `resources.quantity`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final, Literal, NamedTuple

from extender.api.core_v1 import Affinity, LabelSelector, NodeSelector, Taint, Toleration
from extender.api.wellknown import GANG_GATE
from extender.resources.quantity import Resources

REMEMBERED: Final = 20_000
"""The number of each kind of changed and deleted objects that are remembered."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One node as last seen; amounts as in `resources.quantity`."""

    name: str
    allocatable: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    """False only where a Ready condition says so; nodes without one are taken as they are."""
    unready_since: float | None = None
    """The time since which it says so, in seconds since the epoch; None if it does not."""
    features: frozenset[str] = frozenset()
    """The features that its kubelet says that it has (`declaredFeatures`)."""


Domain = tuple[str, ...]
"""The values of the labels of nodes, level by level."""


@dataclass(frozen=True, slots=True)
class DomainAssignment:
    """Numbers of pods of a set by domain: pods of growing index go there in this order."""

    levels: tuple[str, ...]
    """Labels of nodes, from the largest unit to the smallest."""
    domains: tuple[tuple[Domain, int], ...]

    @property
    def count(self) -> int:
        """The number of pods that have a domain."""
        return sum(count for _, count in self.domains)

    def by_rank(self) -> Iterator[Domain]:
        """Yield the domain of each pod, from rank 0 on."""
        for domain, count in self.domains:
            for _ in range(count):
                yield domain

    def without_ranks(self, done: Collection[int]) -> Sequence[tuple[Domain, int]]:
        """Return the numbers of pods by domain, without those of some ranks."""
        if not done:
            return self.domains
        found, first = list[tuple[Domain, int]](), 0
        for domain, count in self.domains:
            found.append((domain, sum(n not in done for n in range(first, first + count))))
            first += count
        return found

    def of(self, labels: Mapping[str, str]) -> Domain | None:
        """Return the domain of a node with these labels; None where it is in none."""
        found = tuple(labels[level] for level in self.levels if level in labels)
        return found if len(found) == len(self.levels) else None

    def selector(self, domain: Domain) -> Mapping[str, str]:
        """Return the labels that the nodes of a domain have."""
        return dict(zip(self.levels, domain, strict=True))


def in_order(levels: tuple[str, ...], places: Iterable[Domain]) -> DomainAssignment:
    """Return an assignment with these places, from rank 0 on; a domain may be there twice."""
    runs = ((domain, sum(1 for _ in run)) for domain, run in groupby(places))
    return DomainAssignment(levels, tuple(runs))


@dataclass(frozen=True, slots=True)
class PodTerm:
    """The pods that a term of affinity between pods, or a spread constraint, is about."""

    selector: LabelSelector | None
    namespaces: frozenset[str] = frozenset()
    """An empty set stands for the namespace of the pod that has the term."""
    by_labels: bool = False
    """True if labels of namespaces select some too: no namespace is watched."""
    spread: bool = False
    """True if it is a spread constraint."""

    def covers(self, namespace: str, *, own: str) -> bool:
        """Return whether it may be about pods of a namespace; `own` is that of its own pod."""
        if self.by_labels or namespace in self.namespaces:
            return True
        return not self.namespaces and namespace == own


HostPort = tuple[str, int, str]
"""Protocol, number and address; no address is every address."""
EVERY_PORT: Final[HostPort] = ("", 0, "")
"""All host ports of a node: those of a pod that has more than are read."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Shape:
    """Everything of a pod that decides where it fits; pods of one template share one Shape.

    Equality is identity: shapes are interned where pods are decoded, so that a gang of a thousand
    equal pods is one shape, one feasibility answer per node and one set of amounts in memory.
    """

    requests: Mapping[str, int] = field(default_factory=dict)
    """The room that a node must have free for it."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    one_per_node: bool = False
    """Two of this shape never share a node: host ports, or anti-affinity to itself by host name."""
    host_ports: frozenset[HostPort] = frozenset()
    individually_constrained: bool = False
    """Volumes, resource claims, spread constraints or affinity between pods: kube-scheduler judges
    them pod by pod, and differently after each placement."""
    shuns: tuple[PodTerm, ...] = ()
    """Pods that may not be where it is: required anti-affinity, which counts on nodes too."""
    seeks: tuple[PodTerm, ...] = ()
    """Pods that decide where it may go: required affinity, and spread that must be kept."""
    extended: bool = False
    """True if a container names an extended resource, be it none of it."""
    features: frozenset[str] = frozenset()
    """The features that a node's kubelet must have."""
    beside_nodes: Mapping[str, int] = field(default_factory=dict)
    """The things it asks for that kube-scheduler does not look for on nodes; quota counts it."""

    @property
    def asked(self) -> Mapping[str, int]:
        """Everything that it asks for, on nodes and beside them."""
        return {**self.requests, **self.beside_nodes} if self.beside_nodes else self.requests


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Pattern:
    """All that a scheduler plugin may read of a member: what makes members equal.

    Equality is identity, as with a Shape. Two members of one pattern may use the same nodes, as far
    as no pod or claim on them decides that.
    """

    shape: Shape
    namespace: str
    labels: Mapping[str, str]
    """The labels that all its pods have with the same value."""
    dropped: frozenset[str]
    """Keys of the labels whose values differ from pod to pod."""


@dataclass(frozen=True, slots=True)
class PodInfo:
    """One pod as last seen; times in seconds since the epoch."""

    uid: str
    namespace: str
    name: str
    shape: Shape
    group: str | None = None
    """`namespace/name` of the PodGroup that a label names, or the native one, whether or not it
    exists; None also where kube-scheduler schedules the native one itself."""
    native: str | None = None
    """`namespace/name` of the native PodGroup that its spec names."""
    node: str | None = None
    nominated: str | None = None
    priority: int = 0
    gates: tuple[str, ...] = ()
    terminating: bool = False
    finished: bool = False
    created: float = 0.0
    unschedulable: str | None = None
    """The message of `PodScheduled=False`, reason Unschedulable, of a pod that has no node."""
    scheduler: str = "default-scheduler"
    phase: str = "Pending"
    ready: bool = False
    """True if everything in it is ready, readiness gates aside (`ContainersReady`)."""
    owners: tuple[str, ...] = ()
    """`namespace/name` of what owns it."""
    controller: str | None = None
    """The UID of the owner that makes another one in its place."""
    controller_kind: str | None = None
    """The kind of that owner, as GROUP/KIND, where it may be a job of a queue."""
    only_node: str | None = None
    """The one node of a pod that says that a DaemonSet made it."""
    readiness_gate: bool = False
    """True if it waits for us to say that its gang is ready."""
    pod_set: str | None = None
    """The pod set of its workload, if its template was admitted by a queue."""
    workload: str | None = None
    """`namespace/name` of the Workload that it was admitted with, where its template says so."""
    gang_ready: bool = False
    """True if we have said so."""
    index: int | None = None
    """The part of an Indexed Job's work that it does."""
    preempts: bool = True
    """True if others may be evicted for it (`preemptionPolicy`)."""
    cost: int | None = None
    """The cost by its annotation: of equal priority the cheaper one makes room first."""
    mirror: bool = False
    """True if it is the copy of a static pod, which cannot be evicted."""
    bound_at: float = 0.0
    """The time when it got its node, by its status."""
    refused_at: float | None = None
    """The time when its node refused it before it ran, as other pods had the room (`OutOfcpu`)."""
    gone_by: float | None = None
    """The time when it has to be gone, once it is being deleted: the end of its grace period."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """All labels but the completion index, so that the pods of a Job share one mapping."""
    pattern: Pattern | None = None
    """The pattern of a member without a node and without gates; None if kube-scheduler has to judge
    the pod by itself."""
    claim_keys: tuple[str, ...] = ()
    """Keys of the claims that it names: ResourceClaims, and volumes where it has no node."""
    unreadable: str = ""
    """The reason why nothing is read of a pod on a node but what it takes there; may be empty."""

    @property
    def is_gated_by_us(self) -> bool:
        """True if our own gate is the only one that keeps kube-scheduler from trying it."""
        return self.gates == (GANG_GATE,)

    def as_requested(self) -> "PodInfo":
        """Return what of a pod in a request is believed: what it is, not where and how it is."""
        return replace(
            self,
            node=None,
            nominated=None,
            unschedulable=None,
            finished=False,
            phase="Pending",
            ready=False,
            gang_ready=False,
        )

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class BudgetInfo:
    """One PodDisruptionBudget as last seen."""

    namespace: str
    name: str
    selector: LabelSelector | None = None
    """The pods that it protects: None selects none, an empty selector all of the namespace."""
    allowed: int = 0
    """The number of its pods that may be evicted now, by its status."""
    gang: str = ""
    """The PodGroup for which we made it; empty for everybody else's."""
    gang_uid: str = ""
    need: int | None = None
    """The number of pods that stay, for ours."""
    uid: str = field(default="", compare=False)

    def asks_like(self, other: "BudgetInfo") -> bool:
        """Return whether two budgets ask for the same, whatever they allow now."""
        return replace(self, allowed=0) == replace(other, allowed=0)

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


VOLUME_CLAIMS: Final = "persistentvolumeclaims"
RESOURCE_CLAIMS: Final = "resourceclaims"


@dataclass(frozen=True, slots=True)
class ClaimInfo:
    """One PersistentVolumeClaim or ResourceClaim as last seen."""

    key: str
    """`RESOURCE/NAMESPACE/NAME`, as pods name it."""
    uid: str = ""
    version: str = ""
    """Its resourceVersion."""
    classes: frozenset[str] = frozenset()
    """Its StorageClass, or the DeviceClasses that it asks for, as `KIND NAME`."""
    allocated: bool = False
    """True if it has a volume, or devices."""
    users: frozenset[str] = frozenset()
    """UIDs of what a ResourceClaim is reserved for."""
    size: int = 0
    """The storage it asks for."""
    modes: frozenset[str] = frozenset()
    """The access modes it asks for."""


@dataclass(frozen=True, slots=True)
class VolumeInfo:
    """One PersistentVolume as last seen."""

    key: str
    storage_class: str = ""
    """The key, as `KIND NAME`, like that of a claim."""
    size: int = 0
    modes: frozenset[str] = frozenset()
    claim: str = ""
    """The key of the claim that it is kept for or bound to."""
    free: bool = True
    """True if a claim may still be bound to it."""
    nodes: NodeSelector | None = None
    """The nodes that can use it; None for all."""


@dataclass(frozen=True, slots=True)
class StorageClassInfo:
    """One StorageClass as last seen."""

    key: str
    """`KIND NAME`, as claims and volumes name it."""
    static: bool = False
    """True if its volumes are made by hand: no provisioner makes one for a claim."""


ClaimObject = ClaimInfo | VolumeInfo | StorageClassInfo


LONGEST_REASON: Final = 1024
LONGEST_MESSAGE: Final = 32768
"""Characters that the API server stores of the reason and the message of a condition."""
LONGEST_SECONDS: Final = 1200.0
"""The longest time for which room is granted."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The room that a queue has found for the pods of a PodGroup, by its status."""

    rooms: Mapping[str, Resources]
    """The granted amounts by node."""
    until: float
    """The time when it ends if its pods do not come, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class NominatedRoom:
    """The room of one node that is kept for members of a group while victims leave it."""

    pods: tuple[str, ...]
    """Names of the members that are to go there."""
    amounts: Resources


@dataclass(frozen=True, slots=True)
class VictimInfo:
    """A victim, by UIDs: its names are none of the preemptor's business."""

    kind: Literal["PodGroup", "Pod"]
    uid: str
    pods: tuple[str, ...]
    """UIDs of the pods that leave: of a Pod its own one, of a PodGroup those of its members."""


@dataclass(frozen=True, slots=True)
class PreemptedRoom:
    """Room that a group gets by preemption, and the victims that leave for it."""

    since: float
    """The time in seconds since the epoch."""
    rooms: Mapping[str, NominatedRoom]
    """The room on each node."""
    victims: tuple[VictimInfo, ...]

    @property
    def amounts(self) -> Mapping[str, Resources]:
        """The room that is kept, by node."""
        return {node: room.amounts for node, room in self.rooms.items()}


@dataclass(frozen=True, slots=True)
class ConditionInfo:
    """One condition of a status; the time in seconds since the epoch.

    Texts are cut to what the API server stores: it would refuse the whole status otherwise.
    """

    type: str
    status: str
    reason: str
    message: str = ""
    transition: float = 0.0
    generation: int | None = None

    def __post_init__(self) -> None:
        if len(self.message) > LONGEST_MESSAGE:
            object.__setattr__(self, "message", f"{self.message[: LONGEST_MESSAGE - 4]} ...")
        if len(self.reason) > LONGEST_REASON:
            object.__setattr__(self, "reason", self.reason[:LONGEST_REASON].rstrip(",:"))


@dataclass(frozen=True, slots=True)
class PodGroupStatusInfo:
    """A PodGroup's status as it is stored; times in seconds since the epoch."""

    phase: str = ""
    occupied_by: str = ""
    scheduled: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    started: float | None = None
    """`scheduleStartTime`."""
    conditions: tuple[ConditionInfo, ...] = ()

    def condition(self, kind: str) -> ConditionInfo | None:
        """Return the condition of a type."""
        return next((each for each in self.conditions if each.type == kind), None)


@dataclass(frozen=True, slots=True)
class PodGroupInfo:
    """One PodGroup of ours or a native one; times in seconds."""

    namespace: str
    name: str
    api_group: str
    min_member: int
    uid: str = ""
    min_resources: Mapping[str, int] = field(default_factory=dict)
    schedule_timeout: float | None = None
    created: float = 0.0
    on_partial: str | None = None
    """The annotation that says what becomes of it when it has lost its quorum."""
    disruption_budget: str | None = None
    """The annotation that says whether it gets a PodDisruptionBudget."""
    required_topology: str | None = None
    """The label of which all nodes of its pods have the same value."""
    preferred_topology: str | None = None
    """The label of which the nodes of its pods have as few values as possible."""
    cost: int | None = None
    """The cost by its annotation: of equal priority the cheaper gang makes room first."""
    min_run: float | None = None
    """The seconds that it asks to run before it makes room for others."""
    placement: str | None = None
    """The placement of its pods to each other, by its annotation or else by the setting."""
    assigned: Mapping[str, DomainAssignment] = field(default_factory=dict)
    """The domains of nodes that a queue has chosen for its pods, by pod set."""
    grant: Grant | None = None
    done: int = 0
    """The number of `min_member` pods that are done for good, without those of its Jobs."""
    started: float | None = None
    """The time when its present run had `min_member` scheduled pods (`status.scheduleStartTime`),
    in seconds since the epoch."""
    succeeded: int = 0
    """The number of its pods that are there and have succeeded, by its status."""
    version: int = field(default=0, compare=False)
    """The resourceVersion in which it was first seen: creation times are whole seconds, and this
    gives the order within one. After a restart it is that of the last change before."""
    generation: int = field(default=0, compare=False)
    status: PodGroupStatusInfo = field(default=PodGroupStatusInfo(), compare=False)
    """The status as last seen. It is not compared: it does not change what the group asks for."""
    nomination: PreemptedRoom | None = field(default=None, compare=False)
    """The room that it gets by preemption, by its status."""
    kept_nodes: tuple[str, ...] = field(default=(), compare=False)
    """The nodes that are set aside for it and that autoscalers are to count as taken."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def topology_labels(self) -> frozenset[str]:
        """The labels of nodes that say where its pods may go."""
        asked = (self.required_topology, self.preferred_topology)
        return frozenset(label for label in asked if label is not None)


BATCH_JOB: Final = "batch/Job"


class Resumption(NamedTuple):
    """A Job that we have suspended, or the JobSet with which it was, each as `namespace/name`."""

    job: str
    job_set: str | None = None
    may_be_ours: bool = True
    """False for a Job that is suspended with its JobSet, and does not say by whom."""


@dataclass(frozen=True, slots=True)
class JobInfo:
    """One Job as last seen; of one that has failed nothing, for another may use its group then.

    Of jobs of other kinds no more than their queue and what made them.
    """

    uid: str
    group: str | None = None
    """`namespace/name` of the PodGroup that its pod template names."""
    begun: int = 0
    """The number of pods that it begins with."""
    done: int = 0
    """The number of them that it will not start again."""
    more: int = 0
    """The number of pods that it starts in the place of others that succeeded."""
    held_by_queue: str | None = None
    """`namespace/name` of itself where it has a queue: its pods start only when it is admitted."""
    maker: str | None = None
    """The UID of what made it: its pods may be those of a job of another kind."""
    created: float = 0.0
    completed: float | None = None
    """The time it completed: its pods are done while a Job that was there then goes on."""
    kind: str = BATCH_JOB
    """Its kind, as GROUP/KIND."""
    needs_quota: bool = True
    """False for what no queue admits by itself."""
    resumes: Resumption | None = None
    """The Job or JobSet that is to go on, where we have suspended that and its pods are gone."""


@dataclass(frozen=True, slots=True)
class AdmittedPods:
    """The pods that a Workload is admitted for, by its status: only the reconciler writes it."""

    key: str
    """`namespace/name` of the Workload."""
    owners: tuple[str, ...] = ()
    """UIDs of its job, or of the pods that are its job together."""
    pods: int = 0
    """The number of pods that may have nodes; 0 while it is not admitted."""
    is_of_pods: bool = False
    """True if its job is a group of plain pods, or one pod."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The last refusal of a pod that kube-scheduler is not expected to try again by itself."""

    pod: PodInfo
    reason: str
