"""Which nodes kube-scheduler sends: the first that fit, from where it stopped before."""

from typing import Final

from tests.bench.extender.scene import Scene, node_name, node_number

_LEAST_NODES: Final = 100
_LEAST_PERCENTAGE: Final = 5


def nodes_to_find(nodes: int) -> int:
    """Return how many nodes that fit end the search, with percentageOfNodesToScore unset.

    From `numFeasibleNodesToFind` in pkg/scheduler/schedule_one.go of Kubernetes.
    """
    if nodes < _LEAST_NODES:
        return nodes
    percentage = max(_LEAST_PERCENTAGE, 50 - nodes // 125)
    return max(_LEAST_NODES, nodes * percentage // 100)


class Nodes:
    """What kube-scheduler knows of the room on nodes; all pods that come are equal."""

    def __init__(self, scene: Scene) -> None:
        self._free = [scene.places(node) for node in range(scene.nodes)]
        self._quoted = [b'"%s"' % node_name(node).encode() for node in range(scene.nodes)]
        self._wanted = nodes_to_find(scene.nodes)
        self._start = 0
        self._kept: dict[int, tuple[bytes, int]] = {}
        """Samples by the node that they begin with, as long as no node becomes full or free."""

    def sample(self) -> bytes:
        """Return the names of the next sample, quoted and with commas; nothing where none fits."""
        kept = self._kept.get(self._start)
        if kept is None:
            kept = self._kept[self._start] = self._look()
        names, self._start = kept
        return names

    def _look(self) -> tuple[bytes, int]:
        found: list[bytes] = []
        nodes = len(self._free)
        for looked in range(nodes):
            node = (self._start + looked) % nodes
            if self._free[node] > 0:
                found.append(self._quoted[node])
            if len(found) == self._wanted:
                return b",".join(found), (node + 1) % nodes
        return b",".join(found), self._start

    def take(self, node: int) -> None:
        """Count a pod on a node."""
        self._free[node] -= 1
        if self._free[node] == 0:
            self._kept.clear()

    def give_back(self, node: int) -> None:
        """Count a pod less on a node."""
        self._free[node] += 1
        if self._free[node] == 1:
            self._kept.clear()

    def free(self, name: str) -> int:
        """Return how many pods more a node takes."""
        return self._free[node_number(name)]
