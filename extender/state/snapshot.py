"""The read-only side of the state, which is all that decisions see.

A snapshot shares the live tables instead of copying them: with thousands of nodes a copy for each
filter call would cost more than the decision. It stays consistent because everything runs on one
event loop and neither the writer nor a decision ever awaits; so a snapshot must not be kept
across an `await`.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from extender.api.wellknown import POD_GROUP_GROUPS
from extender.resources.quantity import Resources
from extender.state.assumed import Assumption, Refusal, Stage
from extender.state.nodes import NodeInfo
from extender.state.pod_groups import PodGroupInfo
from extender.state.pods import PodInfo


@dataclass(slots=True)
class GroupTally:
    """The pods of one group by how far they have come, as UIDs in order of arrival.

    Each member is in exactly one of `bound`, `binding`, `waiting`, `planned` or in none of them;
    `gated` only counts members in none.
    """

    members: dict[str, None] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    binding: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    planned: set[str] = field(default_factory=set)
    gated: set[str] = field(default_factory=set)

    @property
    def assigned(self) -> int:
        """Members that have a node or wait for quorum with one: what Permit counts."""
        return len(self.bound) + len(self.binding) + len(self.waiting)

    @property
    def committed(self) -> int:
        """Members that room is taken or kept for."""
        return self.assigned + len(self.planned)


@dataclass(slots=True)
class Tables:
    """Everything the state holds. Written by `Cluster` only."""

    pods: dict[str, PodInfo] = field(default_factory=dict)
    nodes: dict[str, NodeInfo] = field(default_factory=dict)
    pod_groups: dict[tuple[str, str], PodGroupInfo] = field(default_factory=dict)
    groups: dict[str, GroupTally] = field(default_factory=dict)
    assumed: dict[str, Assumption] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)
    used: dict[str, Resources] = field(default_factory=dict)
    """By node: bound pods, and those that wait or are being bound."""
    reserved: dict[str, dict[str, Assumption]] = field(default_factory=dict)
    """By node: the planned pods, by UID."""
    capacity_version: int = 0


_NO_GROUP = GroupTally()


class Snapshot:
    """Queries about the cluster as it is believed to be now."""

    __slots__ = ("_tables",)

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @property
    def nodes(self) -> Mapping[str, NodeInfo]:
        """All nodes by name."""
        return self._tables.nodes

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        """All pods that have not finished, by UID."""
        return self._tables.pods

    @property
    def refused(self) -> Mapping[str, Refusal]:
        """Pods that were refused and have not been tried since, by UID."""
        return self._tables.refused

    @property
    def groups(self) -> Collection[str]:
        """Keys of the groups that have pods."""
        return self._tables.groups.keys()

    def pod_group(self, key: str) -> PodGroupInfo | None:
        """Return the PodGroup of that `namespace/name`; the newer API group wins."""
        for api_group in POD_GROUP_GROUPS:
            found = self._tables.pod_groups.get((api_group, key))
            if found is not None:
                return found
        return None

    def tally(self, key: str) -> GroupTally:
        """Return the pods of a group; empty where it has none."""
        return self._tables.groups.get(key, _NO_GROUP)

    def members(self, key: str) -> Iterator[PodInfo]:
        """Yield the pods of a group in order of arrival."""
        pods = self._tables.pods
        return (pods[uid] for uid in self.tally(key).members)

    @property
    def capacity_version(self) -> int:
        """Return a number that grows whenever room may have appeared."""
        return self._tables.capacity_version

    def assumption(self, uid: str) -> Assumption | None:
        """Return the room that is kept or taken for a pod that the API shows without a node."""
        return self._tables.assumed.get(uid)

    def planned_node(self, uid: str) -> str | None:
        """Return the node where a plan keeps room for the pod."""
        found = self._tables.assumed.get(uid)
        return found.node if found is not None and found.stage is Stage.PLANNED else None

    def reserved(self, node: str) -> Mapping[str, Assumption]:
        """Return the planned pods on a node, by UID."""
        return self._tables.reserved.get(node, {})

    @property
    def reserved_nodes(self) -> Collection[str]:
        """Names of the nodes on which a plan keeps room."""
        return self._tables.reserved.keys()

    def used(self, node: str) -> Mapping[str, int]:
        """Return what the pods on a node take, those that wait for quorum included."""
        return self._tables.used.get(node, {})

    def free(self, node: NodeInfo, *, priority: int, without: str = "") -> Resources:
        """Return what a pod of that priority may still take on a node; may be negative.

        Room that a plan keeps counts as taken unless the plan's pod has a lower priority, or is
        the pod `without` itself.
        """
        free = dict(node.allocatable)
        for name, value in self._tables.used.get(node.name, {}).items():
            free[name] = free.get(name, 0) - value
        for uid, assumption in self._tables.reserved.get(node.name, {}).items():
            if assumption.pod.priority >= priority and uid != without:
                for name, value in assumption.pod.shape.requests.items():
                    free[name] = free.get(name, 0) - value
        return free
