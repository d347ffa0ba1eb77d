"""Pods that we bound ahead of kube-scheduler, and that its cache may not hold yet.

kube-scheduler believes their room free until its own watch shows them. Nothing here reads a clock:
pods get numbers in the order in which our watch shows them on their nodes, and what keeps the time
notes how far the numbers were at which moment.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from extender.state.cluster.records import Pattern, PodInfo


class Unseen:
    """The pods that may be unseen, by UID and by node, as they were before they were bound."""

    __slots__ = ("_node", "_nodes", "_patterns", "_shown", "everywhere", "version")

    def __init__(self) -> None:
        self.everywhere = False
        """True if there may be others, on any node."""
        self.version = 0
        """The number of the pod that was shown last; 0 before the first one."""
        self._node: dict[str, str] = {}
        self._nodes: dict[str, dict[str, PodInfo]] = {}
        self._shown: dict[str, int] = {}
        self._patterns = Counter[Pattern | None]()

    def __contains__(self, uid: object) -> bool:
        return uid in self._node

    def __len__(self) -> int:
        return len(self._node)

    @property
    def exist(self) -> bool:
        """True if there are such pods, or may be."""
        return self.everywhere or bool(self._node)

    @property
    def nodes(self) -> Mapping[str, Mapping[str, PodInfo]]:
        """Nodes with such pods, and the pods there by UID."""
        return self._nodes

    @property
    def pods(self) -> Iterator[PodInfo]:
        """All such pods."""
        return (pod for pods in self._nodes.values() for pod in pods.values())

    @property
    def patterns(self) -> Collection[Pattern | None]:
        """The patterns that such pods have."""
        return self._patterns.keys()

    def node(self, uid: str) -> str | None:
        """Return the node of such a pod."""
        return self._node.get(uid)

    def number(self, uid: str) -> int | None:
        """Return the number under which our watch showed a pod on its node, if it has."""
        return self._shown.get(uid)

    def shown_until(self, number: int) -> Iterator[str]:
        """Yield the pods shown up to a number, the first ones first.

        The iterator does not outlive a change.
        """
        for uid, at in self._shown.items():
            if at > number:
                return
            yield uid

    def put(self, pod: PodInfo, node: str) -> None:
        """Add a pod that is being bound to a node."""
        self.drop(pod.uid)
        self._node[pod.uid] = node
        self._nodes.setdefault(node, {})[pod.uid] = pod
        self._patterns[pod.pattern] += 1

    def show(self, uid: str) -> None:
        """Give a number to a pod that our watch shows on its node."""
        if uid not in self._shown:
            self.version += 1
            self._shown[uid] = self.version

    def drop(self, uid: str) -> bool:
        """Remove a pod; return whether it was there."""
        node = self._node.pop(uid, None)
        if node is None:
            return False
        self._shown.pop(uid, None)
        there = self._nodes[node]
        pattern = there.pop(uid).pattern
        self._patterns[pattern] -= 1
        if not self._patterns[pattern]:
            del self._patterns[pattern]
        if not there:
            del self._nodes[node]
        return True

    def validate(self, where: Mapping[str, tuple[str, bool]]) -> None:
        """Raise AssertionError where the table disagrees with pods and reservations.

        `where` are the pods that are bound or being bound: the node, and whether our watch shows it
        there.
        """
        by_node = {(uid, node) for node, pods in self._nodes.items() for uid in pods}
        assert by_node == set(self._node.items()), "unseen pods by node are not those by UID"
        assert all(self._nodes.values()), "a node without unseen pods is kept"
        patterns = Counter(pod.pattern for pod in self.pods)
        assert self._patterns == patterns, "the patterns are not those of the unseen pods"
        for uid, node in self._node.items():
            assert where.get(uid) == (node, uid in self._shown), f"{uid} is not unseen on {node}"
        numbers = list(self._shown.values())
        assert self._shown.keys() <= self._node.keys(), "a pod has a number that is not unseen"
        assert numbers == sorted(numbers), "unseen pods are not in the order of their numbers"
