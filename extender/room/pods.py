"""The pods of workloads: which they are, what they take of nodes, and which of them lack a node.

Pods that were admitted name their workload. Pods that do not, because their job started before or
their template could not be written to, are found by their controller, or else by their group.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final
from weakref import WeakKeyDictionary

from extender.api.core_v1 import Toleration
from extender.api.wellknown import TOPOLOGY_GATE
from extender.fit.candidates import AntiAffinityKey, Placed, PodShape, is_feasible
from extender.gang.topology import domains_of
from extender.jobs.workload import made_for, pod_group_key
from extender.resources.quantity import Resources
from extender.state.cluster.records import (
    LONGEST_SECONDS,
    Domain,
    NodeInfo,
    PodGroupInfo,
    PodInfo,
    Shape,
)
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import (
    AdmissionInfo,
    Assignment,
    FlavorInfo,
    PodSetInfo,
    WorkloadInfo,
    remaining,
)
from extender.state.queue.view import QueueView


def members(
    workload: WorkloadInfo, *, queues: QueueView, cluster: ClusterView
) -> Iterator[PodInfo]:
    """Yield the pods of a workload that there are."""
    yield from declared(workload, cluster)
    for uid in _candidates(workload, cluster):
        pod = cluster.pods[uid]
        if pod.workload is not None or pod.namespace != workload.meta.namespace:
            continue
        owners = _owners(pod, queues, cluster)
        if not owners or workload.key in owners:
            yield pod


def declared(workload: WorkloadInfo, cluster: ClusterView) -> Iterator[PodInfo]:
    """Yield the pods that name a workload as theirs."""
    return (cluster.pods[uid] for uid in cluster.of_workload(workload.key))


def ending(key: str, cluster: ClusterView) -> Iterator[PodInfo]:
    """Yield the pods that name a workload which is gone, and are being deleted."""
    pods = (cluster.pods[uid] for uid in cluster.of_workload(key))
    return (pod for pod in pods if pod.terminating)


def workloads_of(pod: PodInfo, queues: QueueView, cluster: ClusterView) -> Collection[str]:
    """Return the workloads that a pod is of: the one that it names, or those of its controller."""
    return (pod.workload,) if pod.workload is not None else _owners(pod, queues, cluster)


def _candidates(workload: WorkloadInfo, cluster: ClusterView) -> set[str]:
    owners = [owner.uid for owner in workload.owners]
    made = (job for owner in owners for job in cluster.made_by(owner))
    found = {uid for maker in chain(owners, made) for uid in cluster.controlled_by(maker)}
    found |= {uid for uid in owners if uid in cluster.pods}
    return found | cluster.tally(pod_group_key(workload)).members.keys()


def _owners(pod: PodInfo, queues: QueueView, cluster: ClusterView) -> Collection[str]:
    """Return the workloads of the pod itself, of its controller, or of the controller of that."""
    job = cluster.job(pod.controller) if pod.controller else None
    for uid in (pod.uid, pod.controller, job.maker if job else None):
        found = queues.workloads_of(uid, pod.namespace) if uid else ()
        if found:
            return found
    return ()


@dataclass(frozen=True, slots=True)
class PodSetCount:
    """A number of equal pods, and the flavors that they have."""

    pod_set: PodSetInfo
    assignment: Assignment
    count: int


def asked(
    workload: WorkloadInfo, given: Sequence[Assignment], done: Mapping[str, int]
) -> list[PodSetCount]:
    """Return all pods of an admission that have still to run: not those that are `done`."""
    by_name = {each.name: each for each in workload.pod_sets}
    return [
        PodSetCount(by_name[each.name], each, remaining(each, workload, done))
        for each in given
        if each.name in by_name
    ]


def unplaced(
    workload: WorkloadInfo,
    held: AdmissionInfo,
    *,
    done: Mapping[str, int],
    queues: QueueView,
    cluster: ClusterView,
) -> tuple[list[PodSetCount], bool]:
    """Return the pods of an admitted workload that have no node, and whether others have one.

    Those that are not made yet are among them. A workload that is evicted or deleted gets no more
    pods, but one that was evicted before and is being admitted again does; a pod that is being
    deleted gets a successor. A workload that only holds quota has no room yet.
    """
    if workload.leaves or workload.meta.terminating or held.reserved_only:
        return [], False
    wanted = asked(workload, held.assignments, done)
    there = _placed(declared(workload, cluster))
    left = _without(wanted, there)
    if left:
        there = _placed(members(workload, queues=queues, cluster=cluster))
        left = _without(wanted, there)
    return left, bool(there)


def _placed(pods: Iterable[PodInfo]) -> list[PodInfo]:
    return [pod for pod in pods if pod.node is not None and not pod.terminating]


def _without(wanted: Sequence[PodSetCount], there: Sequence[PodInfo]) -> list[PodSetCount]:
    """Return what is wanted beside the pods that are there; of these the named ones count first."""
    left = [each.count for each in wanted]
    is_one: Callable[[PodInfo, PodSetInfo], bool]
    for is_one in (
        lambda pod, pod_set: pod.pod_set == pod_set.name,
        lambda pod, pod_set: pod.pod_set is None and pod.shape.requests == pod_set.shape.requests,
        lambda pod, _: pod.pod_set is None,  # something changed what it asks for, perhaps
    ):
        rest: list[PodInfo] = []
        for pod in there:
            free = [n for n, count in enumerate(left) if count]
            number = next((n for n in free if is_one(pod, wanted[n].pod_set)), None)
            if number is None:
                rest.append(pod)
            else:
                left[number] -= 1
        there = rest
    return [replace(each, count=n) for each, n in zip(wanted, left, strict=True) if n]


class PodShapes:
    """Equal pods of equal pod sets have one shape, as decoded pods have."""

    def __init__(self, queues: QueueView, cluster: ClusterView) -> None:
        self._queues, self._cluster = queues, cluster
        self._known = WeakKeyDictionary[
            Shape, dict[tuple[str, ...], tuple[Sequence[FlavorInfo], Shape]]
        ]()

    def of_pod_set(self, workload: WorkloadInfo, counts: PodSetCount) -> PodShape:
        """Return the shape of pods with their flavors."""
        names = tuple(sorted(set(counts.assignment.flavors.values())))
        flavors = [self._queues.flavors[name] for name in names if name in self._queues.flavors]
        shape = counts.pod_set.shape
        known = self._known.setdefault(shape, {})
        if names not in known or known[names][0] != flavors:
            known[names] = flavors, _in_flavors(shape, flavors)
        return PodShape(known[names][1], _anti_affinity_key(workload, counts.pod_set))

    def of_pod(self, pod: PodInfo) -> PodShape:
        """Return what a pod is: one of its workload's, or else of its group's."""
        if not pod.shape.one_per_node:
            return PodShape(pod.shape)
        there = self._queues.workloads
        keys = workloads_of(pod, self._queues, self._cluster)
        for workload in [there[key] for key in keys if key in there]:
            for each in workload.pod_sets:
                named = pod.pod_set == each.name
                alike = pod.pod_set is None and pod.shape.requests == each.shape.requests
                if each.shape.one_per_node and (named or alike):
                    return PodShape(pod.shape, _anti_affinity_key(workload, each))
        return PodShape(pod.shape, (pod.group, pod.shape) if pod.group else None)


def _anti_affinity_key(workload: WorkloadInfo, pod_set: PodSetInfo) -> AntiAffinityKey | None:
    """Return the key that pods from equal templates in a namespace share, where they have one."""
    shape = pod_set.shape
    return (workload.meta.namespace, shape) if shape.one_per_node else None


def _in_flavors(shape: Shape, flavors: Sequence[FlavorInfo]) -> Shape:
    selector, tolerations = dict(shape.node_selector), dict.fromkeys(shape.tolerations)
    for flavor in flavors:
        selector.update(flavor.node_labels)
        tolerations.update(dict.fromkeys(flavor.tolerations))
    return replace(shape, node_selector=selector, tolerations=tuple(tolerations))


def nodes_of(flavor: FlavorInfo, cluster: ClusterView) -> Iterator[NodeInfo]:
    """Yield the nodes that pods with a flavor may use, if they ask nothing else of nodes."""
    declared = tuple(Toleration(each.key, "Equal", each.value) for each in flavor.node_taints)
    shape = _in_flavors(Shape(tolerations=declared), [flavor])  # no others get the flavor
    return (node for node in cluster.nodes.values() if is_feasible(shape, node))


class HeldRoom:
    """The amounts that pods of workloads take of nodes, found again only if something changed."""

    def __init__(self, queues: QueueView, cluster: ClusterView, shapes: PodShapes) -> None:
        self._queues, self._cluster, self._shapes = queues, cluster, shapes
        self._versions = (-1, -1)
        """The versions of pods and nodes for which the answers hold."""
        self._known: dict[str, tuple[WorkloadInfo, Sequence[Placed]]] = {}
        """The answers by workload, if each of its pods names it."""
        self._until_any: dict[str, tuple[WorkloadInfo, Sequence[Placed]]] = {}
        """The answers for other workloads, until any pod changes."""

    def on_nodes(self, workload: WorkloadInfo) -> Sequence[Placed]:
        """Return the pods of a workload that have a node, equal ones of a node together.

        Not those that are being deleted: they go in any case.
        """
        self._look_again()
        key = workload.key
        known = self._known.get(key) or self._until_any.get(key)
        if known is not None and known[0] is workload:
            return known[1]
        nodes: dict[str, NodeInfo] = {}
        counts, all_say_so = Counter[tuple[str, PodShape]](), True
        for pod in members(workload, queues=self._queues, cluster=self._cluster):
            node = self._cluster.nodes.get(pod.node or "")
            all_say_so = all_say_so and pod.workload is not None
            if node is not None and not pod.terminating:
                nodes[node.name] = node
                counts[node.name, self._shapes.of_pod(pod)] += 1
        found = [Placed(nodes[name], like, count) for (name, like), count in counts.items()]
        (self._known if all_say_so else self._until_any)[key] = workload, found
        return found

    def _look_again(self) -> None:
        versions = self._cluster.pods_version, self._cluster.nodes_version
        if versions == self._versions:
            return
        (pods, nodes), self._versions = self._versions, versions
        moved = self._cluster.pods_since(pods) if pods >= 0 else None
        self._until_any.clear()
        if moved is None or nodes != versions[1]:
            self._known.clear()
        for pod in moved or ():
            for key in workloads_of(pod, self._queues, self._cluster):
                self._known.pop(key, None)


_NONE: Sequence[PodSetCount] = ()


class Awaited:
    """The pods of admitted workloads that have no node, found again only if something changed.

    To find them each pod of a workload is read. Most workloads have all their pods on nodes, and
    each pod names its workload: for these the answer is kept until one of the pods changes.
    """

    def __init__(
        self,
        queues: QueueView,
        cluster: ClusterView,
        done: Callable[[WorkloadInfo], Mapping[str, int]],
    ) -> None:
        self._queues, self._cluster, self._done = queues, cluster, done
        self._version = -1
        self._complete: dict[str, tuple[Any, ...]] = {}
        """The basis of the answer for workloads whose pods all have nodes."""
        self._incomplete: dict[str, tuple[tuple[Any, ...], Sequence[PodSetCount], bool]] = {}
        """The basis and the answer for other workloads, until any pod changes."""

    def without_node(
        self, workload: WorkloadInfo, held: AdmissionInfo
    ) -> tuple[Sequence[PodSetCount], bool]:
        """Return the pods that have no node, and whether others have one."""
        self._look_again()
        basis = workload, held, *self._jobs(workload)
        key = workload.key
        if _is_same(self._complete.get(key), basis):
            return _NONE, True
        known = self._incomplete.get(key)
        if known is not None and _is_same(known[0], basis):
            return known[1], known[2]
        counts, begun = unplaced(
            workload,
            held,
            done=self._done(workload),
            queues=self._queues,
            cluster=self._cluster,
        )
        there = self._cluster.of_workload(key)
        if begun and not counts and len(there) >= sum(each.count for each in held.assignments):
            self._complete[key] = basis
        else:
            self._incomplete[key] = basis, counts, begun
        return counts, begun

    def _jobs(self, workload: WorkloadInfo) -> tuple[object, object]:
        """Return the objects that say how many of its pods are done."""
        owner = workload.owner
        if owner is None:
            return None, None
        job = self._queues.job_of(owner.uid, workload.meta.namespace)
        return job, self._cluster.job(owner.uid)

    def _look_again(self) -> None:
        version = self._cluster.pods_version
        if version == self._version:
            return
        moved = self._cluster.pods_since(self._version) if self._version >= 0 else None
        self._version = version
        self._incomplete.clear()
        if moved is None:
            self._complete.clear()
        for pod in moved or ():
            if pod.workload is not None:
                self._complete.pop(pod.workload, None)


def _is_same(known: tuple[Any, ...] | None, basis: tuple[Any, ...]) -> bool:
    return known is not None and all(a is b for a, b in zip(known, basis, strict=True))


@dataclass(frozen=True, slots=True)
class Opened:
    """A pod that may go, and where."""

    pod: PodInfo
    domain: Domain
    selector: Mapping[str, str]
    """The labels of the nodes of its domain."""


def due(
    workload: WorkloadInfo, *, cluster: ClusterView, given: Mapping[str, Domain]
) -> Sequence[Opened]:
    """Return the gated pods of an admitted workload that have a domain, each with its own.

    `given` are the domains, by UID, of pods whose gate was removed and may be seen still.
    """
    held = workload.admission
    if held is None or not workload.admitted or workload.evicted or workload.finished:
        return ()
    assigned = {each.name: each.topology for each in held.assignments if each.topology is not None}
    pods = [pod for pod in declared(workload, cluster) if not pod.terminating]
    waiting = [pod for pod in pods if is_gated(pod) and pod.uid not in given]
    waiting.sort(key=lambda pod: (pod.index or 0, pod.created, pod.name))
    if not waiting:
        return ()
    others = [pod for pod in pods if not is_gated(pod) or pod.uid in given]
    found = domains_of(waiting, assigned, others=others, view=cluster, given=given)
    return [
        Opened(pod, found[pod.uid], assigned[pod.pod_set or ""].selector(found[pod.uid]))
        for pod in waiting
        if pod.uid in found
    ]


def is_gated(pod: PodInfo) -> bool:
    """Return whether a pod waits behind the gate of a topology."""
    return TOPOLOGY_GATE in pod.gates


NOT_BACKED: Final = "no admitted Workload asks for it"
OTHER_GROUP: Final = "its pods have another PodGroup"


def within(
    rooms: Mapping[str, Mapping[str, int]], asked: Iterable[PodSetCount]
) -> Mapping[str, Resources]:
    """Return amounts by node, node after node, as far as the pods that still run ask for them.

    Room is kept for no more than the pods of a workload ask for: see `why_over`.
    """
    left: Resources = {}
    for counts in asked:
        for name, value in counts.pod_set.shape.requests.items():
            left[name] = left.get(name, 0) + value * counts.count
    kept: dict[str, Resources] = {}
    for node, amounts in rooms.items():
        part = {name: min(value, left.get(name, 0)) for name, value in amounts.items()}
        for name, value in part.items():
            left[name] = left.get(name, 0) - value
        part = {name: value for name, value in part.items() if value > 0}
        if part:
            kept[node] = part
    return kept


def why_over(
    pod_group: PodGroupInfo, *, cluster: ClusterView, queues: QueueView, now: float
) -> str | None:
    """Return in a few words why the room granted to a PodGroup has ended, None while it holds.

    `now` is in seconds since the epoch.
    """
    grant = pod_group.grant
    if grant is None or not now < grant.until <= now + LONGEST_SECONDS:
        return "its time is over"
    backing = backing_of(pod_group, queues)
    if backing is None:
        return NOT_BACKED
    if any(pod.group not in (None, pod_group.key) for pod in declared(backing, cluster)):
        return OTHER_GROUP
    held = backing.admission
    every = asked(backing, held.assignments, {}) if held is not None else ()
    rooms = {node: {n: v for n, v in each.items() if v} for node, each in grant.rooms.items()}
    if within(grant.rooms, every) == {node: each for node, each in rooms.items() if each}:
        return None
    return "its Workload asks for less"


def backing_of(pod_group: PodGroupInfo, queues: QueueView) -> WorkloadInfo | None:
    """Return the admitted Workload that a PodGroup was made for."""
    own = pod_group.key
    found = queues.workloads.get(own)
    if found is None:  # a long name is shortened
        held = (key for key in queues.holders() if made_for(key) == own)
        found = next((queues.workloads[key] for key in held), None)
    if found is None or not found.admitted or found.admission is None or not found.active:
        return None
    return None if found.finished or found.evicted or found.meta.terminating else found
