"""What the pods of workloads take of nodes, found again only where something changed."""

from collections import Counter
from collections.abc import Sequence

from extender.fit.conflicts import PodShape
from extender.fit.room_left import Placed
from extender.room.members import members, workloads_of
from extender.room.pod_shapes import PodShapes
from extender.state.cluster.records import NodeInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.view import QueueView


class HeldRoom:
    """Answers from the state as it is now; a search for victims asks about all that are lower."""

    def __init__(self, queues: QueueView, cluster: ClusterView, shapes: PodShapes) -> None:
        self._queues, self._cluster, self._shapes = queues, cluster, shapes
        self._versions = (-1, -1)
        """Of pods and nodes, when the answers were looked at."""
        self._known: dict[str, tuple[WorkloadInfo, Sequence[Placed]]] = {}
        """By workload, where each of its pods names it."""
        self._until_any: dict[str, tuple[WorkloadInfo, Sequence[Placed]]] = {}
        """By other workload, until any pod changes."""

    def of(self, workload: WorkloadInfo) -> Sequence[Placed]:
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
