"""The read-only side of the cluster's state, which is all that decisions see.

**The rule: no value read from a view survives an `await`.** A view reads the live tables and copies
nothing: a copy of thousands of nodes for each filter call would cost more than the decision. It is
consistent all the same, because everything runs on one event loop and neither the writer nor a
decision awaits. The view itself may be kept for life; after an `await` it is read again.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from extender.api.reasons import Reason
from extender.api.wellknown import GROUP_NATIVE, POD_GROUP_GROUPS
from extender.resources.quantity import Resources
from extender.state.cluster.index import (
    Gains,
    GroupQueue,
    GroupTally,
    Natives,
    NodeOrder,
    PodAffinityIndex,
    PodLog,
    PodsByPriority,
    Turn,
)
from extender.state.cluster.jobs import AdmissionBarrier, Admissions, JobTable
from extender.state.cluster.records import (
    AdmittedPods,
    BudgetInfo,
    ClaimInfo,
    ClaimObject,
    JobInfo,
    NodeInfo,
    Pattern,
    PodGroupInfo,
    PodInfo,
    Refusal,
    StorageClassInfo,
    VolumeInfo,
)
from extender.state.cluster.reservations import (
    OF_PODS,
    Asker,
    Claim,
    Reservation,
    ReservationKind,
    Reservations,
    VictimsRoom,
    share_of,
)
from extender.state.cluster.seen import FeasibleByPattern, PatternNodes, SchedulersOnNodes, Unseen

NO_GROUP: Final = ""
"""The key that stands for pods without a group."""


@dataclass(slots=True)
class ClusterTables:
    """Everything the state holds. Written by `Cluster` only."""

    pods: dict[str, PodInfo] = field(default_factory=dict)
    nodes: dict[str, NodeInfo] = field(default_factory=dict)
    pod_groups: dict[tuple[str, str], PodGroupInfo] = field(default_factory=dict)
    groups: dict[str, GroupTally] = field(default_factory=dict)
    controlled: dict[str, set[str]] = field(default_factory=dict)
    """The pods that an owner replaces when they go, by its UID."""
    shunning: dict[str, set[str]] = field(default_factory=dict)
    """The UIDs of the pods on a node that do not share it with all others."""
    nominated: dict[str, set[str]] = field(default_factory=dict)
    """The UIDs of the pods without a node for which kube-scheduler makes room on a node."""
    of_workload: dict[str, set[str]] = field(default_factory=dict)
    """The UIDs of the pods that name a Workload as theirs, by its `namespace/name`."""
    on_node: dict[str, set[str]] = field(default_factory=dict)
    """The UIDs of the pods that the API shows on a node."""
    ending: dict[str, set[str]] = field(default_factory=dict)
    """The UIDs of the pods on a node that are being deleted."""
    seen: dict[str, bool] = field(default_factory=dict)
    """The pods that only requests have shown yet, and no watch, by UID. The value is True once a
    list has begun, which must then have them."""
    refused: dict[str, Refusal] = field(default_factory=dict)
    unadmitted: set[str] = field(default_factory=set)
    """The UIDs of refused pods that wait for their job to be admitted for more pods."""
    refused_of: dict[str, dict[str, None]] = field(default_factory=dict)
    """The UIDs of refused pods in order, by group or under NO_GROUP."""
    asking_for_label: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """The API groups and keys of the PodGroups that ask for domains of a label of nodes."""
    gained: Gains = field(default_factory=Gains)
    """The log of nodes that gained room, or take other pods now."""
    changed: Gains = field(default_factory=Gains)
    """The log of nodes that came, went or changed."""
    pod_log: PodLog = field(default_factory=PodLog)
    feasible_by_pattern: FeasibleByPattern = field(default_factory=FeasibleByPattern)
    pod_affinity_index: PodAffinityIndex = field(default_factory=PodAffinityIndex)
    """Pods whose terms may be about others."""
    fresh: PodsByPriority = field(default_factory=PodsByPriority)
    """The pending pods that no scheduler has judged yet."""
    plain: PodsByPriority = field(default_factory=PodsByPriority)
    """The pods without a group that wait for a node."""
    schedulers: SchedulersOnNodes = field(default_factory=SchedulersOnNodes)
    priorities: dict[int, int] = field(default_factory=dict)
    """The number of pods on nodes with each priority."""
    version: int = 0
    ended: dict[str, PodInfo] = field(default_factory=dict)
    """The finished members by UID, as far as they are watched."""
    finished: dict[str, dict[str, PodInfo]] = field(default_factory=dict)
    """The finished members by group."""
    jobs: JobTable = field(default_factory=JobTable)
    budgets: dict[str, dict[str, BudgetInfo]] = field(default_factory=dict)
    """PodDisruptionBudgets by namespace and name, without those that we made for gangs."""
    gang_budgets: dict[str, dict[str, BudgetInfo]] = field(default_factory=dict)
    """PodDisruptionBudgets that we made, by namespace and name."""
    claim_objects: dict[str, ClaimObject] = field(default_factory=dict)
    """Claims, StorageClasses, and the volumes that claims may still be bound to, by key."""
    claimed: dict[str, set[str]] = field(default_factory=dict)
    """The UIDs of the pods that name a claim, by its key."""
    claiming: dict[str, set[str]] = field(default_factory=dict)
    """The UIDs of the pods of a group that name claims and have no node."""
    natives: Natives = field(default_factory=Natives)
    failed_at: dict[str, float] = field(default_factory=dict)
    queue: GroupQueue = field(default_factory=GroupQueue)
    reservations: Reservations = field(default_factory=Reservations)
    unseen: Unseen = field(default_factory=Unseen)
    left: NodeOrder = field(init=False)
    """Nodes by what pods leave of them."""
    whole: NodeOrder = field(init=False)
    """Nodes by what they have for pods."""
    admissions: Admissions = field(init=False)

    def __post_init__(self) -> None:
        kept = self.reservations.pods
        self.admissions = Admissions(self.jobs, self.pods, kept, self.ending, self.nodes)
        self.left, self.whole = NodeOrder(self._left_on), NodeOrder(self._allocatable)

    def _allocatable(self, name: str) -> Mapping[str, int] | None:
        node = self.nodes.get(name)
        return node.allocatable if node is not None else None

    def _left_on(self, name: str) -> Mapping[str, int] | None:
        node = self.nodes.get(name)
        return self.left_of(node) if node is not None else None

    def left_of(self, node: NodeInfo) -> Resources:
        """Return what pods leave of a node."""
        left = dict(node.allocatable)
        for resource, value in self.reservations.used.get(node.name, {}).items():
            left[resource] = left.get(resource, 0) - value
        return left


_NO_GROUP = GroupTally()
_NO_PODS: Mapping[str, PodInfo] = {}


class ClusterView:
    """Queries about the cluster as it is believed to be now; no answer survives an `await`."""

    def __init__(self, tables: ClusterTables, *, growing: bool = False) -> None:
        self._tables = tables
        self.growing: Final = growing
        """True if an autoscaler adds nodes."""
        self.too_large: Final = Reason.WAITING_FOR_NODES if growing else Reason.NEVER_FITS
        """The reason of a group that would not fit even on empty nodes."""
        self.nodes: Final[Mapping[str, NodeInfo]] = tables.nodes
        """All nodes by name."""
        self.pods: Final[Mapping[str, PodInfo]] = tables.pods
        """All pods that have not finished, by UID."""
        self.refused: Final[Mapping[str, Refusal]] = tables.refused
        """Pods that were refused and have not been tried since, by UID."""
        self.claims: Final[Mapping[str, Claim]] = tables.reservations.claims
        """Claims to room of groups that have waited long, by group."""
        self.grants: Final[Mapping[str, Reservation]] = tables.reservations.grants
        """The room that queues have found for groups which have no plan yet, by group."""
        self.nominated: Final[Mapping[str, VictimsRoom]] = tables.reservations.nominated
        """The room that victims leave to groups which have not started, by group."""
        self.unseen: Final[Unseen] = tables.unseen
        """Pods that were bound ahead, and that kube-scheduler may not have seen yet."""
        self.left: Final[NodeOrder] = tables.left
        """The part that the pods on nodes leave, those that wait for quorum counted as there."""
        self.whole: Final[NodeOrder] = tables.whole
        """The resources that nodes have for pods."""
        self._jobs = tables.jobs
        self._reservations = tables.reservations
        self._admissions = tables.admissions

    @property
    def seen(self) -> Collection[str]:
        """UIDs of the pods that only requests have shown, oldest first."""
        return self._tables.seen.keys()

    @property
    def groups(self) -> Collection[str]:
        """Keys of the groups that have pods."""
        return self._tables.groups.keys()

    @property
    def pod_groups(self) -> Collection[str]:
        """Keys of the groups that have a PodGroup, native ones as far as these are ours."""
        found = self._tables.pod_groups
        return {key for group, key in found if group != GROUP_NATIVE or self.pod_group(key)}

    def known_groups(self) -> Iterator[str]:
        """Yield the groups that exist when this begins: those with pods, then other PodGroups.

        The state may change meanwhile. A group without pods whose PodGroup has gone is left out.
        """
        groups, pod_groups = [*self._tables.groups], [*self._tables.pod_groups]
        found: set[str] = set()
        for key in groups:
            found.add(key)
            yield key
        for _, key in pod_groups:
            if key not in found and self.pod_group(key) is not None:
                found.add(key)
                yield key

    def pod_group(self, key: str) -> PodGroupInfo | None:
        """Return the PodGroup of that `namespace/name`; the newer API group of ours wins.

        A native one is found where the extender schedules those, and it is a gang.
        """
        for api_group in POD_GROUP_GROUPS:
            found = self._tables.pod_groups.get((api_group, key))
            if found is not None:
                return found
        if not self._tables.natives.ours or key in self._tables.natives.basic:
            return None
        return self._tables.pod_groups.get((GROUP_NATIVE, key))

    @property
    def natives_are_ours(self) -> bool | None:
        """True if the extender schedules native gangs; None while that is not known."""
        return self._tables.natives.ours

    def naming(self, key: str) -> Collection[str]:
        """UIDs of the pods that name a native PodGroup, whatever they are members of here."""
        return self._tables.natives.members(key)

    @property
    def has_group_cycles(self) -> bool:
        """True if kube-scheduler tries the pods of a native group together, as far as is known."""
        return self._tables.natives.cycles or not self._tables.natives.ours

    def member_of(self, pod: PodInfo, labelled: str | None) -> str | None:
        """Return the group of a pod whose labels name this one."""
        if pod.native is None:
            return labelled
        return self._tables.natives.group(pod.native, labelled)

    def pod_group_of(self, api_group: str, key: str) -> PodGroupInfo | None:
        """Return the PodGroup of one API group with that `namespace/name`."""
        return self._tables.pod_groups.get((api_group, key))

    def quorum(self, pod_group: PodGroupInfo) -> int:
        """Return how many members the group needs now.

        That is minMember, or fewer where so many pods of this run are done that fewer remain: when
        a Job starts again, the pods that remain are the gang. The Jobs of the group say how many
        are done, or the PodGroup where it has none.
        """
        need = pod_group.min_member
        begun, done = self._jobs.work.get(pod_group.key, (0, 0))
        beyond = max(0, begun - need)  # pods that the group can do without, and another Job's
        through = max(0, done - beyond) + (pod_group.done or self._succeeded(pod_group))
        return max(min(need, 1), need - through)

    def _succeeded(self, pod_group: PodGroupInfo) -> int:
        """Return how many members have succeeded in this run of a group that has no Jobs.

        The run goes on while a member is left that was there at its start, with a node or without:
        a Binding may fail after its gang was released, and this process may end before it is tried
        again. Pods that all came later are another run of the group, which starts as a whole.
        """
        group, started = pod_group.key, pod_group.started
        if not pod_group.succeeded or started is None or group in self._jobs.work:
            return 0
        if len(self.tally(group).members) >= pod_group.min_member:
            return 0
        goes_on = any(pod.created <= started for pod in self.members(group))
        return pod_group.succeeded if goes_on else 0

    def has_unfinished_jobs(self, key: str) -> bool:
        """Return whether a Job whose pods are members has not ended."""
        return key in self._jobs.work

    def resumable(self, key: str) -> Iterator[JobInfo]:
        """Yield the Jobs of a group that we have suspended, and that are to go on.

        Those of one JobSet go on together.
        """
        jobs, ready = self._jobs.by_uid, dict[str, bool]()
        for job in (jobs[uid] for uid in self._jobs.of_group.get(key, ())):
            if job.resumes is None or not job.resumes.may_be_ours:
                continue
            maker = job.maker or ""
            if maker not in ready:  # a JobSet may have made thousands
                beside = (jobs[uid] for uid in self.made_by(maker))
                ready[maker] = all(e.resumes or e.completed or not e.begun for e in beside)
            if ready[maker]:
                yield job

    @property
    def groups_of_jobs(self) -> Collection[str]:
        """The groups that Jobs name."""
        return self._jobs.of_group

    def job(self, uid: str) -> JobInfo | None:
        """Return a Job with members, or one that something has made."""
        return self._jobs.by_uid.get(uid)

    def finished(self, key: str) -> Mapping[str, PodInfo]:
        """Return the finished pods of a group by UID; none where those are not watched."""
        return self._tables.finished.get(key, _NO_PODS)

    @property
    def queue(self) -> GroupQueue:
        """Groups that have their pods and no room yet, in the order of their turns."""
        return self._tables.queue

    def stored_grants(self, key: str, *, after: float = 0.0) -> list[PodGroupInfo]:
        """Return the PodGroups of that `namespace/name` with a grant until `after`, used or not."""
        found = (self._tables.pod_groups.get((group, key)) for group in POD_GROUP_GROUPS)
        return [each for each in found if each and each.grant and each.grant.until > after]

    def claims_on(self, node: str) -> Mapping[str, Claim]:
        """Return the claims to room on a node, by group."""
        shares = self._reservations.kept.get(node, ())
        groups = (each.owner for each in shares if each.kind is ReservationKind.CLAIMED)
        return {group: self.claims[group] for group in groups if group is not None}

    def budget(self, namespace: str, name: str) -> BudgetInfo | None:
        """Return a PodDisruptionBudget, of a gang or another one."""
        others = self._tables.budgets.get(namespace, {})
        return others.get(name) or self.gang_budget(namespace, name)

    def gang_budget(self, namespace: str, name: str) -> BudgetInfo | None:
        """Return a PodDisruptionBudget that we made for a gang."""
        return self._tables.gang_budgets.get(namespace, {}).get(name)

    def budgets(self, namespace: str) -> Collection[BudgetInfo]:
        """Return the PodDisruptionBudgets of a namespace that we did not make."""
        return self._tables.budgets.get(namespace, {}).values()

    def claim(self, key: str) -> ClaimInfo | None:
        """Return a claim that pods name by this key."""
        found = self._tables.claim_objects.get(key)
        return found if isinstance(found, ClaimInfo) else None

    def is_static(self, storage_class: str) -> bool:
        """Return whether the volumes of a StorageClass are made by hand."""
        found = self._tables.claim_objects.get(storage_class)
        return isinstance(found, StorageClassInfo) and found.static

    def free_volumes(self, storage_class: str) -> list[VolumeInfo]:
        """Return the volumes of a StorageClass that claims may still be bound to."""
        found = (v for v in self._tables.claim_objects.values() if isinstance(v, VolumeInfo))
        return [volume for volume in found if volume.storage_class == storage_class]

    def users_of_claim(self, key: str) -> Collection[str]:
        """Return the UIDs of the pods that name a claim."""
        return self._tables.claimed.get(key, ())

    def claiming(self, group: str) -> Collection[str]:
        """Return the UIDs of the pods of a group that have no node and name claims."""
        return self._tables.claiming.get(group, ())

    def turn(self, pod_group: PodGroupInfo) -> Turn:
        """Return what groups are ordered by: priority, age or last failure, arrival, name."""
        key = pod_group.key
        since = self._tables.failed_at.get(key, pod_group.created)
        return -self.tally(key).priority, since, pod_group.version, key

    def tally(self, key: str) -> GroupTally:
        """Return the pods of a group; empty where it has none."""
        return self._tables.groups.get(key, _NO_GROUP)

    def members(self, key: str) -> Iterator[PodInfo]:
        """Yield the pods of a group in order of arrival."""
        pods = self._tables.pods
        return (pods[uid] for uid in self.tally(key).members)

    def pods_on(self, node: str) -> Collection[str]:
        """Return the UIDs of the pods that the API shows on a node and that have not finished."""
        return self._tables.on_node.get(node, ())

    @property
    def ending(self) -> Iterator[PodInfo]:
        """The pods on nodes that are being deleted."""
        return (self._tables.pods[uid] for there in self._tables.ending.values() for uid in there)

    def shunning(self, node: str) -> Iterator[PodInfo]:
        """Yield the pods that are or will be on a node and do not share it with all others."""
        pods = self._tables.pods
        yield from (pods[uid] for uid in self._tables.shunning.get(node, ()))
        coming = (pods.get(uid) for uid in self.coming_to(node))
        yield from (each for each in coming if each is not None and each.shape.one_per_node)

    def nominated_to(self, node: str) -> Iterator[PodInfo]:
        """Yield the pods without a node for which kube-scheduler makes room on this one."""
        return (self._tables.pods[uid] for uid in self._tables.nominated.get(node, ()))

    def coming_to(self, node: str) -> Iterator[str]:
        """Yield the UIDs of the pods without a node that have a reservation on this one."""
        kinds = self._reservations.on_node.get(node, {})
        return (uid for kind in OF_PODS for uid in kinds.get(kind, ()))

    def refused_of(self, group: str) -> Collection[str]:
        """Return the UIDs of a group's pods that were refused and have not been tried since.

        With NO_GROUP those of the pods that have none.
        """
        return self._tables.refused_of.get(group, ())

    def controlled_by(self, owner: str) -> Collection[str]:
        """Return the UIDs of the pods whose controller has that UID."""
        return self._tables.controlled.get(owner, ())

    def admitted_pods(self, key: str) -> AdmittedPods | None:
        """Return for how many pods the Workload of that `namespace/name` is admitted."""
        return self._admissions.workloads.get(key)

    def made_by(self, maker: str) -> Collection[str]:
        """Return the UIDs of the Jobs whose controller has that UID."""
        return self._jobs.made.get(maker, ())

    def of_workload(self, key: str) -> Collection[str]:
        """Return the UIDs of the pods that name a Workload, which is given as `namespace/name`."""
        return self._tables.of_workload.get(key, ())

    @property
    def pods_version(self) -> int:
        """Return a number that grows whenever a pod came, went or changed."""
        return self._tables.pod_log.version

    def pods_since(self, version: int) -> Collection[PodInfo] | None:
        """Return the pods that came, went or changed since; None where they are too many."""
        return self._tables.pod_log.since(version)

    @property
    def version(self) -> int:
        """Return a number that grows with each event."""
        return self._tables.version

    @property
    def nodes_version(self) -> int:
        """Return a number that grows whenever a node came, went or changed."""
        return self._tables.changed.version

    def changed_since(self, version: int) -> Iterator[str]:
        """Yield the nodes that came, went or changed after a `nodes_version`."""
        return self._tables.changed.since(version)

    @property
    def capacity_version(self) -> int:
        """Return a number that grows whenever a node has gained room, or takes other pods."""
        return self._tables.gained.version

    def gained_since(self, version: int) -> Iterator[str]:
        """Yield the nodes that have gained room after a `capacity_version`."""
        return self._tables.gained.since(version)

    def look(self, pattern: Pattern) -> PatternNodes | None:
        """Return what kube-scheduler has said of nodes for pods of a pattern."""
        return self._tables.feasible_by_pattern.of(pattern)

    def good_nodes(self, pattern: Pattern) -> Collection[str]:
        """Return the nodes that kube-scheduler found good for a pattern and that are as they were.

        Neither room nor our own reading of the nodes is looked at.
        """
        return self._tables.feasible_by_pattern.good(pattern)

    def is_good(self, pattern: Pattern, node: str) -> bool:
        """Return whether kube-scheduler found a node good for a pattern, and it is as it was."""
        return node in self._tables.feasible_by_pattern.good(pattern)

    def is_named(self, pattern: Pattern) -> bool:
        """Return whether a term of a pod may be about pods of a pattern.

        These are required anti-affinity, and of pods without a node also required affinity and
        spread constraints that must be kept.
        """
        return self._tables.pod_affinity_index.names(pattern)

    def highest_fresh(self, schedulers: Collection[str]) -> int | None:
        """Return the highest priority of pending pods that schedulers have not judged yet.

        Pods behind gates, pods with a reservation and those that filter has refused are none.
        """
        return self._tables.fresh.highest(schedulers)

    @property
    def fresh(self) -> Collection[str]:
        """UIDs of the pending pods that no scheduler has judged yet.

        Pods behind gates, pods with a reservation and those that filter has refused are none.
        """
        return self._tables.fresh.of.keys()

    def highest_plain(self, schedulers: Collection[str]) -> int | None:
        """Return the highest priority of the pods of schedulers that wait and have no group.

        They may have been judged; those behind gates and those with a reservation are none.
        """
        return self._tables.plain.highest(schedulers)

    @property
    def lowest_on_nodes(self) -> int | None:
        """The lowest priority among the pods on nodes; None where there are none."""
        return min(self._tables.priorities, default=None)

    def nodes_of_others(self, schedulers: Container[str]) -> list[Collection[str]]:
        """Return the nodes of each other scheduler: those with its pods, now or a minute ago."""
        return self._tables.schedulers.nodes_of_others(schedulers)

    def reservation(self, uid: str) -> Reservation | None:
        """Return the reservation of a pod that the API shows without a node."""
        return self._reservations.pods.get(uid)

    def planned_node(self, uid: str) -> str | None:
        """Return the node where a plan keeps room for the pod."""
        found = self._reservations.pods.get(uid)
        return found.node if found is not None and found.kind is ReservationKind.PLANNED else None

    def bound_node(self, pod: PodInfo) -> str | None:
        """Return the node that a pod is bound to, or to which its Binding is being written."""
        if pod.node is not None:
            return pod.node
        found = self._reservations.pods.get(pod.uid)
        return found.node if found is not None and found.kind is ReservationKind.BINDING else None

    def planned_on(self, node: str) -> Mapping[str, Reservation]:
        """Return what plans keep on a node, by UID of the pod."""
        return self._reservations.there(node, ReservationKind.PLANNED)

    @property
    def planned(self) -> Collection[str]:
        """Return the UIDs of the pods that a plan keeps room for."""
        kept = self._reservations.pods.values()
        return [each.owner for each in kept if each.kind is ReservationKind.PLANNED]

    def is_kept(self, node: str) -> bool:
        """Return whether a node has reservations that may yield: plans, claims or grants."""
        return node in self._reservations.kept

    @property
    def reserved(self) -> Iterator[Reservation]:
        """Yield all reservations, those of pods first: they are no copy."""
        kept = self._reservations
        return chain(
            kept.pods.values(), kept.claims.values(), kept.grants.values(), kept.nominated.values()
        )

    def yields_to(self, reservation: Reservation, group: str) -> bool:
        """Return whether a group may use all of a reservation."""
        asker = Asker(self.tally(group).priority, "", group, self._has_begun)
        share = share_of(reservation)
        there = ((self.nodes.get(name), amounts) for name, amounts in reservation.amounts.items())
        return all(
            node is None or asker.may_use(share, amounts, node.allocatable)
            for node, amounts in there
        )

    def is_nominated(self, node: str) -> bool:
        """Return whether room of a node is kept for a group that preempts."""
        shares = self._reservations.kept.get(node, ())
        return any(share.kind is ReservationKind.NOMINATED for share in shares)

    def awaits_admission(self, pod: PodInfo) -> AdmissionBarrier | None:
        """Return the job whose pod this is, if a queue has not admitted it for one pod more."""
        return self._admissions.barrier(pod)

    def admitted_of(self, pods: Iterable[PodInfo], first: PodInfo | None = None) -> list[PodInfo]:
        """Return those of the pods without room that their jobs are admitted for, with `first`."""
        return self._admissions.within(pods, first)

    def is_admitted_by_number(self, pod: PodInfo) -> bool:
        """Return whether a pod counts against the number of a Workload."""
        return bool(self._admissions.workloads_of(pod))

    @property
    def keeps_room(self) -> bool:
        """True if any node has reservations that may yield: plans, claims or grants."""
        return bool(self._reservations.kept)

    def used(self, node: str) -> Mapping[str, int]:
        """Return what the pods on a node take, those that wait for quorum included."""
        return self._reservations.used.get(node, {})

    def is_overcommitted(self, node: str, resources: Iterable[str]) -> bool:
        """Return whether pods and plans take more of one of these than a node has.

        A plan may have been made for room that kube-scheduler had given to another pod already.
        """
        found, used = self.nodes.get(node), self.used(node)
        shares = self._reservations.kept.get(node, {}).items()
        plans = [amounts for share, amounts in shares if share.kind is ReservationKind.PLANNED]
        return found is None or any(
            used.get(what, 0) + sum(kept.get(what, 0) for kept in plans)
            > found.allocatable.get(what, 0)
            for what in resources
        )

    def free(
        self, node: NodeInfo, *, priority: int, without: str = "", group: str | None = None
    ) -> Resources:
        """Return what is left on a node for a pod or group of that priority; may be negative.

        Left is what no reservation takes that does not yield to it: `reservations.YIELDS` says
        which do. `without` is the UID of the pod that asks, `group` its group.
        """
        tables, reservations = self._tables, self._reservations
        known = tables.nodes.get(node.name) is node
        free = dict(tables.left.all()[node.name]) if known else tables.left_of(node)
        if node.name in reservations.kept:
            asker = Asker(priority, without, group, self._has_begun)
            reservations.subtract_from(free, node, asker)
        return free

    def _has_begun(self, key: str | None) -> bool:
        """Return whether a group has room for some of its members, and not yet nodes for enough."""
        pod_group = self.pod_group(key) if key else None
        if pod_group is None:
            return False
        tally = self.tally(pod_group.key)
        return tally.committed > 0 and tally.assigned < self.quorum(pod_group)
