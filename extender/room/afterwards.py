"""What nodes have once everything that the queues run has ended.

Pods of the queues end one day, and so do pods that are being deleted; other pods may stay for ever.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from extender.fit.conflicts import PodShape
from extender.resources.quantity import Resources, add
from extender.room.members import workloads_of
from extender.room.pod_shapes import PodShapes
from extender.state.cluster.node_order import NodeOrder
from extender.state.cluster.records import NodeInfo, PodInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue.view import QueueView
from extender.steps import PIECE, Steps

_MUCH: Final = 1 << 50
"""More than any node has of anything."""
_ALL_SECONDS: Final = 30.0
"""Seconds after which all nodes are read again."""


class Afterwards:
    """Amounts by node; `free` returns what a node has now.

    What ends on a node is read again only where its pods have changed.
    """

    def __init__(
        self,
        queues: QueueView,
        cluster: ClusterView,
        *,
        shapes: PodShapes,
        free: Callable[[NodeInfo], Resources],
    ) -> None:
        self._queues, self._cluster, self._shapes, self._free = queues, cluster, shapes, free
        self._known: dict[str, tuple[Resources, int]] = {}
        self._version = -1
        self._read_all_at = float("-inf")

    def begin(self, now: float) -> None:
        """Forget what was read of nodes whose pods have changed; `now` since the epoch.

        All of it now and then: whether pods are of a queue may change without them.
        """
        version, since = self._cluster.pods_version, now - self._read_all_at
        moved = self._cluster.pods_since(self._version) if self._version >= 0 else None
        self._version = version
        if moved is None or not 0 <= since < _ALL_SECONDS:
            self._known.clear()
            self._read_all_at = now
        for pod in moved or ():
            self._known.pop(pod.node or "", None)

    def on(self, node: NodeInfo) -> Resources:
        """Return what a node has then; the caller may change it."""
        amounts = self._free(node)
        add(amounts, self._read(node)[0])
        return amounts

    def reading(self, nodes: Collection[NodeInfo]) -> Steps[None]:
        """Read nodes in steps, so that what is asked of them next is answered at once."""
        for number, node in enumerate(nodes):
            if number % PIECE == PIECE - 1:
                yield
            self._read(node)

    def unshared(self, node: str) -> Iterator[PodShape]:
        """Yield the pods that are on a node then and do not share it with all others."""
        for pod in self._cluster.shunning(node):
            if not self._will_end(pod):
                yield self._shapes.of_pod(pod)

    def ordering(self) -> Steps[NodeOrder]:
        """Return the nodes by how soon they may have room, the best ones last.

        That is by the number of workloads on them, and then by what they have now: each workload
        is one more end to wait for, and the pods of one workload end together.
        """
        ranks: dict[str, Resources] = {}
        for number, node in enumerate([*self._cluster.nodes.values()]):
            if number % PIECE == PIECE - 1:
                yield
            now, ends = self._cluster.left.all().get(node.name, {}), self._read(node)[1]
            ranks[node.name] = {
                resource: now.get(resource, 0) - ends * _MUCH for resource in node.allocatable
            }
        order = NodeOrder(ranks.get)
        order.note(*ranks)
        yield
        order.all()
        yield
        return order

    def _read(self, node: NodeInfo) -> tuple[Resources, int]:
        found = self._known.get(node.name)
        if found is None:
            amounts, owners = Resources(), set[str]()
            for uid in self._cluster.pods_on(node.name):
                pod = self._cluster.pods[uid]
                if self._will_end(pod):
                    add(amounts, pod.shape.requests)
                    owners.add(pod.workload or pod.controller or uid)
            found = self._known[node.name] = amounts, len(owners)
        return found

    def _will_end(self, pod: PodInfo) -> bool:
        if pod.terminating:
            return True
        there = self._queues.workloads
        return any(key in there for key in workloads_of(pod, self._queues, self._cluster))
