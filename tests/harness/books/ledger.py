"""What is on each node, event by event: no node over its allocatable, no host port twice.

A pod is judged when its Binding shows, for that is what a scheduler has decided: its node must have
had room for all that it asks for, at that resourceVersion. A pod that was created with its node
takes room and is not judged, nor is a node that has less than before.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from typing_extensions import override

from tests.harness.books import amounts
from tests.harness.books.admissions import Admissions, Owner, PodLife, controllers
from tests.harness.books.amounts import Amounts, Port, Spec, Status
from tests.harness.objects import POD_GROUP_LABEL

ADDED: Final = "ADDED"
DELETED: Final = "DELETED"
_FINISHED: Final = ("Succeeded", "Failed")
_COLLIDED: Final = "SchedulerError"
"""The reason that kube-scheduler writes on a pod that was bound during its cycle."""


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What tells objects apart."""

    name: str = ""
    resource_version: str = ""
    uid: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[Owner] = []
    deletion_timestamp: str = ""


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A pod, as far as the ledger reads it."""

    metadata: Metadata
    spec: Spec
    status: Status = Status()


class _NodeStatus(msgspec.Struct, frozen=True, gc=False):
    allocatable: dict[str, str] = {}


class Node(msgspec.Struct, frozen=True, gc=False):
    """A node, as far as the ledger reads it."""

    metadata: Metadata
    status: _NodeStatus = _NodeStatus()


@dataclass(frozen=True, slots=True)
class Findings:
    """What a ledger found: sentences, and names of pods."""

    breaches: list[str]
    """A node was over its allocatable, a host port was taken twice, a pod changed its node."""
    collisions: list[str]
    """Pods with a node on which kube-scheduler wrote that it failed to place them, and why."""
    misplaced: list[str] = field(default_factory=list)
    """A pod of an admitted workload lacks what its admission gave, or asks for more."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A pod on a node."""

    name: str
    version: int
    node: str
    group: str
    uses: Amounts
    """Nothing once it has finished."""
    ports: frozenset[Port]

    @override
    def __str__(self) -> str:
        return f"{self.name} (version {self.version}: {', '.join(amounts.described(self.uses))})"


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A pod came to a node that may have had no room for it; its node is known later."""

    pod: _Held
    used: Amounts
    """Of what the pod asks for, with it."""
    beside: tuple[str, ...]


@dataclass(slots=True)
class _Books:
    """What is known of one node."""

    sizes: list[tuple[int, Amounts | None]] = field(default_factory=list)
    """What it has, by the version from which it has that; None where it is gone."""
    used: Counter[str] = field(default_factory=Counter)
    pods: dict[str, _Held] = field(default_factory=dict)
    """By UID."""

    def size(self, version: int) -> Amounts | None:
        """Return what the node had at that version; what it had first for those before."""
        found = self.sizes[0][1] if self.sizes else None
        for since, size in self.sizes:
            if since <= version:
                found = size
        return found


class Ledger:
    """Takes events of pods and nodes in the order of their watches, and judges each."""

    def __init__(self) -> None:
        self._nodes: defaultdict[str, _Books] = defaultdict(_Books)
        self._pods: dict[str, _Held] = {}
        self._versions: dict[str, int] = {}
        self._suspects: list[_Suspect] = []
        self._breaches: list[str] = []
        self._collided: dict[str, str] = {}
        self._asked: set[str] = set()
        """UIDs of collisions that were found before."""
        self.admissions = Admissions()
        self.bound = 0
        """How many Bindings showed."""

    def pod(self, kind: str, pod: Pod) -> None:
        """Note what happened to a pod."""
        uid = pod.metadata.uid
        before = self._forget(uid)
        if kind == DELETED or _has_ended(pod):
            self.admissions.ended(uid, int(pod.metadata.resource_version))
        if kind == DELETED:
            self._versions.pop(uid, None)
            return
        self._versions[uid] = int(pod.metadata.resource_version)
        if not pod.spec.node_name:
            return
        held = _held(pod)
        self._take(uid, held)
        condition = pod.status.condition("PodScheduled")
        if before is None:
            if condition is not None and condition.status == "True":
                self._bind(uid, pod, held)
        elif before.node != held.node:
            self._breaches.append(f"{held} is on {held.node} and was on {before.node}")
        if condition and (condition.status, condition.reason) == ("False", _COLLIDED):
            self._collided.setdefault(uid, f"{held.name}: {condition.message}")

    def node(self, kind: str, node: Node) -> None:
        """Note what happened to a node."""
        books = self._nodes[node.metadata.name]
        size = None if kind == DELETED else amounts.allocatable(node.status.allocatable)
        if not books.sizes or books.sizes[-1][1] != size:
            books.sizes.append((int(node.metadata.resource_version), size))

    def listed(self, pods: Sequence[Pod]) -> None:
        """Note all the pods that there are: some events may have been lost before."""
        for uid in self._versions.keys() - {pod.metadata.uid for pod in pods}:
            self._forget(uid)
            self.admissions.ended(uid, self._versions.pop(uid))
        for pod in pods:
            self.pod(ADDED, pod)

    def listed_nodes(self, nodes: Sequence[Node]) -> None:
        """Note all the nodes that there are."""
        there = {node.metadata.name for node in nodes}
        for name, books in self._nodes.items():
            if name not in there and books.sizes:
                books.sizes.append((books.sizes[-1][0] + 1, None))
        for node in nodes:
            self.node(ADDED, node)

    def versions(self) -> Mapping[str, int]:
        """Return the version of each pod that is known, by UID."""
        return dict(self._versions)

    def partial(self, sizes: Mapping[str, int]) -> list[str]:
        """Return the groups that have members on nodes, but fewer than they need.

        Groups are named NAMESPACE/NAME.
        """
        members = Counter(held.group for held in self._pods.values())
        return sorted(group for group, size in sizes.items() if 0 < members[group] < size)

    def ask(self) -> Findings:
        """Return what was found since this was asked last."""
        breaches, self._breaches = self._breaches, []
        suspects, self._suspects = self._suspects, []
        breaches += [text for each in suspects for text in self._proven(each)]
        collisions = [name for uid, name in self._collided.items() if uid not in self._asked]
        self._asked |= self._collided.keys()
        return Findings(breaches, collisions, self.admissions.ask())

    def _take(self, uid: str, held: _Held) -> None:
        books = self._nodes[held.node]
        books.used.update(held.uses)
        books.pods[uid] = held
        self._pods[uid] = held

    def _forget(self, uid: str) -> _Held | None:
        held = self._pods.pop(uid, None)
        if held is not None:
            books = self._nodes[held.node]
            books.used.subtract(held.uses)
            del books.pods[uid]
        return held

    def _bind(self, uid: str, pod: Pod, held: _Held) -> None:
        self.bound += 1
        self._judge(uid, held)
        if not _has_ended(pod):
            self.admissions.bound(uid, _life(pod, held))

    def _judge(self, uid: str, held: _Held) -> None:
        books = self._nodes[held.node]
        others = [each for other, each in books.pods.items() if other != uid]
        for port in held.ports:
            for other in others:
                if any(amounts.clashes(port, each) for each in other.ports):
                    text = f"{held} and {other} have host port {port[2]} of {held.node}"
                    self._breaches.append(text)
        used = {name: books.used[name] for name, asked in held.uses.items() if asked > 0}
        size = books.sizes[-1][1] if books.sizes else None
        if size is None or _excess(used, size):
            self._suspects.append(_Suspect(held, used, tuple(map(str, others))))

    def _proven(self, suspect: _Suspect) -> list[str]:
        held = suspect.pod
        size = self._nodes[held.node].size(held.version)
        if size is None:
            return []  # it was gone: no scheduler knows that at once
        over = [
            f"{used} of {size.get(name, 0)} {name}" for name, used in _excess(suspect.used, size)
        ]
        if not over:
            return []
        beside = "; ".join(suspect.beside) or "none"
        return [f"{held.node} has {', '.join(over)} in use with {held}. Beside it: {beside}"]


def _held(pod: Pod) -> _Held:
    meta, finished = pod.metadata, pod.status.phase in _FINISHED
    group = meta.labels.get(POD_GROUP_LABEL)
    return _Held(
        name=f"{meta.namespace}/{meta.name}",
        version=int(meta.resource_version),
        node=pod.spec.node_name,
        group=f"{meta.namespace}/{group}" if group else "",
        uses={} if finished else amounts.uses(pod.spec, pod.status),
        ports=frozenset() if finished else amounts.host_ports(pod.spec),
    )


def _has_ended(pod: Pod) -> bool:
    return pod.status.phase in _FINISHED or bool(pod.metadata.deletion_timestamp)


def _life(pod: Pod, held: _Held) -> PodLife:
    meta = pod.metadata
    return PodLife(
        name=held.name,
        namespace=meta.namespace,
        bound=held.version,
        uses=held.uses,
        labels=meta.labels,
        annotations=meta.annotations,
        owners=controllers(meta.owner_references),
        selector=pod.spec.node_selector,
        tolerations=pod.spec.tolerations,
    )


def _excess(used: Amounts, size: Amounts) -> list[tuple[str, int]]:
    return [(name, amount) for name, amount in used.items() if amount > size.get(name, 0)]
