"""The nodes that pods may use, room aside; known until a node changes."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from extender.gang.feasibility import is_feasible
from extender.state.nodes import NodeInfo
from extender.state.pods import Shape
from extender.state.snapshot import Snapshot

_KNOWN: Final = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """The nodes for all shapes that ask for the same ones."""

    nodes: Sequence[NodeInfo]
    asks: Shape
    """One of them: it keeps what it is known by."""


class Places:
    """Answers for the nodes of a cluster as they are now."""

    def __init__(self, cluster: Snapshot) -> None:
        self._cluster = cluster
        self._version = -1
        self._known: dict[tuple[object, ...], Place] = {}

    def named(self, names: Collection[str], shape: Shape) -> Iterator[NodeInfo]:
        """Yield the nodes of these names that a shape may use."""
        found = map(self._cluster.nodes.get, names)
        yield from (node for node in found if node is not None and is_feasible(shape, node))

    def still(self, node: NodeInfo, shape: Shape) -> NodeInfo | None:
        """Return a node, which a shape could use, as it is now; None where it went or bars it."""
        now = self._cluster.nodes.get(node.name)
        if now is node or now is None or is_feasible(shape, now):
            return now
        return None

    def of(self, shape: Shape) -> Place:
        """Return the nodes that a shape may use, in their order."""
        if self._version != self._cluster.nodes_version or len(self._known) > _KNOWN:
            self._version = self._cluster.nodes_version
            self._known.clear()
        key = (frozenset(shape.node_selector.items()), id(shape.affinity), shape.tolerations)
        if key not in self._known:
            nodes = [node for node in self._cluster.nodes.values() if is_feasible(shape, node)]
            self._known[key] = Place(nodes, shape)
        return self._known[key]
