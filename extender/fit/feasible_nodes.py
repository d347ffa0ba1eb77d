"""The nodes that pods may use, room aside; a node is read once for equal pods until it changes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from extender.fit.feasibility import is_feasible
from extender.state.cluster.records import NodeInfo, Shape
from extender.state.cluster.view import ClusterView
from extender.steps import Steps

_AT_ONCE: Final = 256
"""Nodes that are read in one go."""
_KNOWN: Final = 1024
_FEW: Final = 64
"""Where more nodes changed than this, all are read again."""


class FeasibleNodes:
    """The nodes for all shapes that ask for the same ones."""

    __slots__ = ("__weakref__", "_asks", "_read")

    def __init__(self, shape: Shape) -> None:
        # Not the shape itself: what is known of it goes when it does.
        self._asks = Shape(
            node_selector=shape.node_selector,
            affinity=shape.affinity,
            tolerations=shape.tolerations,
            features=shape.features,
        )
        self._read: dict[str, bool] = {}

    def allows(self, node: NodeInfo) -> bool:
        """Return whether the pods may use a node."""
        found = self._read.get(node.name)
        if found is None:
            found = self._read[node.name] = is_feasible(self._asks, node)
        return found

    def allows_all(self, names: Sequence[str], nodes: Mapping[str, NodeInfo]) -> bool:
        """Return whether the pods may use all of these; an unknown node they may not."""
        if all(map(self._read.get, names)):
            return True
        return all(name in nodes and self.allows(nodes[name]) for name in names)

    def would_allow(self, node: NodeInfo) -> bool:
        """Return the same; what is not known is not kept."""
        found = self._read.get(node.name)
        return is_feasible(self._asks, node) if found is None else found

    def forget(self, names: Iterable[str]) -> None:
        """Forget what was read of nodes that changed."""
        for name in names:
            self._read.pop(name, None)


class Feasibility:
    """Which nodes each shape may use, as the cluster is now."""

    def __init__(self, cluster: ClusterView) -> None:
        self.cluster = cluster
        self._version = cluster.nodes_version
        self._known = WeakValueDictionary[tuple[object, ...], FeasibleNodes]()
        self._of = WeakKeyDictionary[Shape, FeasibleNodes]()
        self._usable: dict[frozenset[FeasibleNodes], int] = {}

    def still(self, node: NodeInfo, shape: Shape) -> NodeInfo | None:
        """Return a node, which a shape could use, as it is now; None where it went or bars it."""
        now = self.cluster.nodes.get(node.name)
        if now is node or now is None or is_feasible(shape, now):
            return now
        return None

    def of(self, shape: Shape) -> FeasibleNodes:
        """Return the nodes that a shape may use."""
        if self._version != self.cluster.nodes_version or len(self._known) > _KNOWN:
            self._look_again()
        found = self._of.get(shape)
        if found is None:
            selector = frozenset(shape.node_selector.items())
            key = (selector, id(shape.affinity), shape.tolerations, shape.features)
            found = self._known.get(key) or FeasibleNodes(shape)
            self._of[shape] = self._known[key] = found
        return found

    def usable(self, shapes: Iterable[Shape]) -> Steps[int]:
        """Return how many nodes there are that any of these shapes may use."""
        asked = frozenset(map(self.of, shapes))
        version, found = self._version, self._usable.get(asked)
        if found is None:
            found, at_once = 0, max(1, _AT_ONCE // max(1, len(asked)))
            for number, node in enumerate(list(self.cluster.nodes.values()), 1):
                found += any(each.would_allow(node) for each in asked)
                if number % at_once == 0:
                    yield
            if len(self._usable) >= _FEW:
                self._usable.clear()
            if self._version == version:
                self._usable[asked] = found
        return found

    def _look_again(self) -> None:
        changed = [*self.cluster.changed_since(self._version)]
        self._version = self.cluster.nodes_version
        self._usable.clear()
        if len(changed) > _FEW or len(self._known) > _KNOWN:
            self._known.clear()
            self._of.clear()
        for each in self._known.values():
            each.forget(changed)
