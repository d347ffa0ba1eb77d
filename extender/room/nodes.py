"""Room on nodes for workloads, by the same plan that gangs are given.

What counts as taken: pods with a node, and those that a plan or a claim keeps room for; the pods of
admitted workloads that have no node yet; gangs beside the queue that could start now; and whatever
was admitted since the cycle began.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final
from weakref import WeakKeyDictionary

from extender.gang import plan
from extender.gang.feasibility import is_feasible
from extender.gang.fit import Fit, Packing
from extender.jobs.gang import group_of
from extender.resources.quantity import Resources, add, show, subtract
from extender.room.unplaced import Some, asked, pods_of, unplaced
from extender.state.nodes import NodeInfo
from extender.state.pods import PodInfo, Shape
from extender.state.queues.records import Assignment, FlavorInfo, WorkloadInfo
from extender.state.queues.snapshot import QueueSnapshot
from extender.state.snapshot import Snapshot

_BESIDE: Final = 32
"""How many gangs that are not the queue's are planned, at most."""


class NodeRoom:
    """The nodes of a cluster, read when somebody asks; not to be kept across an `await`."""

    def __init__(self, queues: QueueSnapshot, cluster: Snapshot) -> None:
        self._queues, self._cluster = queues, cluster
        self._shapes = _Shapes(queues)
        self._groups: set[str] = set()
        """Those of admitted workloads."""
        self._packing: Packing | None = None
        self._placed: dict[str, list[tuple[str, Shape]]] = {}
        self._taken: list[tuple[WorkloadInfo, tuple[Assignment, ...], Collection[str]]] = []
        self.version = 0

    def begin(self) -> None:
        """Look at the nodes anew from now on."""
        self._packing = None
        self._placed.clear()
        self._taken.clear()
        self.version += 1

    def lack(
        self,
        workload: WorkloadInfo,
        given: Sequence[Assignment],
        *,
        without: Collection[str] = (),
    ) -> str | None:
        """Return what these pods lack, None where all fit once those who leave are gone."""
        pods = self._pods(workload, asked(workload, tuple(given)))
        found = self._best(pods, self._packed(), without)
        return None if found.complete else self._sentence(found, pods)

    def gains(
        self, workload: WorkloadInfo, given: Sequence[Assignment], *, without: Collection[str]
    ) -> Mapping[str, int]:
        """Return for how many of these pods each of those who leave gives room, or a part of it."""
        pods = self._pods(workload, asked(workload, tuple(given)))
        used = Counter(self._best(pods, self._packed(), without).placements.values())
        return {
            key: sum(used[node] for node in {node for node, _ in self._places(key)})
            for key in without
        }

    def take(
        self,
        workload: WorkloadInfo,
        given: Sequence[Assignment],
        *,
        without: Collection[str] = (),
    ) -> None:
        """Count the pods of an admission as placed, or of one that comes when others have left."""
        self.version += 1
        self._taken.append((workload, tuple(given), without))
        if self._packing is not None:
            self._place(self._packing, workload, asked(workload, tuple(given)), without=without)

    # -- what is there

    def _packed(self) -> Packing:
        if self._packing is None:
            packing = self._packing = Packing(self._cluster, self._free)
            self._place_admitted(packing)
            self._place_beside(packing)
            for workload, given, without in self._taken:
                self._place(packing, workload, asked(workload, given), without=without)
        return self._packing

    def _free(self, node: NodeInfo) -> Resources:
        """Return what nobody has or has kept; a workload's own claim is its unplaced pods'."""
        left, cluster = dict(node.allocatable), self._cluster
        subtract(left, cluster.used(node.name))
        for assumption in cluster.reserved(node.name).values():
            subtract(left, assumption.pod.shape.requests)
        for claim in cluster.claims.values():
            if node.name in claim.rooms and claim.group not in self._groups:
                subtract(left, claim.rooms[node.name])
        return left

    def _place_admitted(self, packing: Packing) -> None:
        queues = self._queues
        keys = {key for name in queues.cluster_queues for key in queues.reserving(name)}
        self._groups = {group_of(queues.workloads[key]) for key in keys}
        for workload in sorted((queues.workloads[key] for key in keys), key=_since):
            held = queues.admission(workload.key)
            if held is not None:
                self._place(packing, workload, unplaced(workload, held, self._cluster))

    def _place(
        self,
        packing: Packing,
        workload: WorkloadInfo,
        some: Sequence[Some],
        *,
        without: Collection[str] = (),
    ) -> None:
        if not some:
            return
        pods = {pod.uid: pod for pod in self._pods(workload, some)}
        best = self._best(list(pods.values()), packing, without)
        for uid, node in best.placements.items():
            packing.put(node, pods[uid].shape.requests)
            self._placed.setdefault(workload.key, []).append((node, pods[uid].shape))

    def _place_beside(self, packing: Packing) -> None:
        """Keep room for gangs that are not the queue's and are about to be planned."""
        cluster = self._cluster
        beside = (key for key in cluster.queue if key not in self._groups)
        for group in islice(beside, _BESIDE):
            pod_group = cluster.pod_group(group)
            if pod_group is None:
                continue
            missing = cluster.quorum(pod_group) - cluster.tally(group).committed
            pods = {p.uid: p for p in plan.candidates(None, group, snapshot=cluster)[:missing]}
            found = self._best(list(pods.values()), packing, ())
            if found.complete and len(pods) == missing:
                for uid, node in found.placements.items():
                    packing.put(node, pods[uid].shape.requests)

    # -- trying

    def _best(self, pods: Sequence[PodInfo], packing: Packing, without: Collection[str]) -> Fit:
        """Try the nodes in their order, then, where pods differ, the fullest first."""
        back = self._given_back(without)

        def room(node: NodeInfo) -> Resources:
            left = packing.left(node)
            add(left, back.get(node.name, {}))
            return left

        mixed = any(pod.shape is not pods[0].shape for pod in pods)
        best: Fit | None = None
        for fullest_first in (False, True) if mixed else (False,):
            attempt = Packing(
                self._cluster, room, fullest_first=fullest_first, beside_used=not back
            )
            found = attempt.fill(pods)
            if best is None or len(found.placements) > len(best.placements):
                best = found
            if found.complete:
                break
        assert best is not None
        return best

    def _given_back(self, workloads: Collection[str]) -> dict[str, Resources]:
        back: dict[str, Resources] = {}
        for key in workloads:
            for node, shape in self._places(key):
                add(back.setdefault(node, {}), shape.requests)
        return back

    def _places(self, key: str) -> Iterator[tuple[str, Shape]]:
        """Yield the nodes where a workload has pods, or is thought to have them soon."""
        yield from self._placed.get(key, ())
        workload = self._queues.workloads.get(key)
        for pod in pods_of(workload, self._cluster) if workload is not None else ():
            assumption = self._cluster.assumption(pod.uid)
            node = assumption.node if assumption is not None else pod.node
            if node is not None:
                yield node, pod.shape

    def _pods(self, workload: WorkloadInfo, some: Sequence[Some]) -> list[PodInfo]:
        return [
            PodInfo(
                uid=f"{workload.key}/{each.pod_set.name}/{number}",
                namespace=workload.meta.namespace,
                name=f"{each.pod_set.name}-{number}",
                shape=shape,
            )
            for each in some
            for shape in (self._shapes.of(each),)
            for number in range(each.count)
        ]

    def _sentence(self, found: Fit, pods: Sequence[PodInfo]) -> str:
        text = f"room for {len(found.placements)} of {found.wanted}"
        shapes = {pod.shape for pod in pods if pod.uid not in found.placements}
        nodes = self._cluster.nodes.values()
        usable = sum(any(is_feasible(shape, node) for shape in shapes) for node in nodes)
        if not usable:
            return f"{text}: they may use none of {len(nodes)} nodes"
        on = f"{usable} node" if usable == 1 else f"{usable} nodes"
        if not found.short:
            return f"{text}: none of {on} has all that one more needs"
        short = ", ".join(f"{show(name, n)} {name}" for name, n in sorted(found.short.items()))
        return f"{text}: {short} short on {on}"


class _Shapes:
    """What pods of a pod set are with their flavors; equal ones are one, as decoded ones are."""

    def __init__(self, queues: QueueSnapshot) -> None:
        self._queues = queues
        self._version = -1
        self._known: WeakKeyDictionary[Shape, dict[tuple[str, ...], Shape]] = WeakKeyDictionary()

    def of(self, some: Some) -> Shape:
        """Return the shape that the pods will have."""
        if self._version != self._queues.structure_version:
            self._version = self._queues.structure_version
            self._known.clear()
        names = tuple(sorted(set(some.given.flavors.values())))
        shape = some.pod_set.shape
        known = self._known.setdefault(shape, {})
        if names not in known:
            known[names] = _in_flavors(shape, list(self._flavors(names)))
        return known[names]

    def _flavors(self, names: Sequence[str]) -> Iterator[FlavorInfo]:
        for name in names:
            if name in self._queues.flavors:
                yield self._queues.flavors[name]


def _in_flavors(shape: Shape, flavors: Sequence[FlavorInfo]) -> Shape:
    selector, tolerations = dict(shape.node_selector), dict.fromkeys(shape.tolerations)
    for flavor in flavors:
        selector.update(flavor.node_labels)
        tolerations.update(dict.fromkeys(flavor.tolerations))
    return Shape(
        requests=shape.requests,
        node_selector=selector,
        affinity=shape.affinity,
        tolerations=tuple(tolerations),
        one_per_node=shape.one_per_node,
        individually_constrained=shape.individually_constrained,
    )


def _since(workload: WorkloadInfo) -> tuple[float, str]:
    reserved = workload.condition("QuotaReserved")
    known = reserved is not None and reserved.status == "True"
    return (reserved.transition if reserved is not None and known else float("inf"), workload.key)
