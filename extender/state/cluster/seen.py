"""The nodes and pods that kube-scheduler has seen, as far as its requests and our watch say so.

The nodes that it found good for pods of a pattern, the nodes on which schedulers place pods, and
the pods that we bound ahead of it and that its cache may not hold yet. State has no clock: what
ends with time begins at the next time that is given, and pods get numbers in the order in which our
watch shows them on their nodes.
"""

from collections import Counter
from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from extender.state.cluster.records import REMEMBERED, Pattern, PodInfo

SECONDS: Final = 60.0
"""The time that an answer of kube-scheduler counts, which may restart with other settings, and for
which a scheduler may soon place another pod on a node."""
_FEATURES_SECONDS: Final = 5.0
"""The lag of kube-scheduler's watch behind ours that a change unknown to us may have."""
MOST: Final = 64
"""Patterns; of more the first ones are forgotten."""
_NOWHERE: Final[frozenset[str]] = frozenset()

T = TypeVar("T", bound=Hashable)


class ExpiringSet(Generic[T]):
    """Entries that stay for a number of seconds from the first time given after they were added.

    If no time is ever given, so many are kept as the state remembers of anything.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._new: dict[T, None] = {}
        self._until: dict[T, float] = {}
        """The first to end first."""

    def __contains__(self, what: object) -> bool:
        return what in self._new or what in self._until

    def add(self, what: T) -> T | None:
        """Add an entry from now on; return the entry that had to go for it, if there is one."""
        self._until.pop(what, None)
        self._new[what] = None
        if len(self._new) <= REMEMBERED:
            return None
        oldest = next(iter(self._new))
        del self._new[oldest]
        return oldest

    def pass_time(self, now: float) -> Iterator[T]:
        """Yield the entries that have expired by `now`, in seconds, and remove them."""
        new, self._new = self._new, {}
        self._until.update(dict.fromkeys(new, now + self._seconds))
        while self._until:
            what, until = next(iter(self._until.items()))
            if until > now:
                return
            del self._until[what]
            yield what


class PatternNodes:
    """The nodes that were good for a pattern and have not changed since."""

    __slots__ = ("agrees", "began", "nodes")

    def __init__(self, began: float) -> None:
        self.nodes: set[str] = set()
        self.began = began
        """The time of the first request, in seconds."""
        self.agrees = True
        """True if our books agreed with the last request: no node counts until they do again."""


class FeasibleByPattern:
    """The nodes that kube-scheduler found feasible for pods of a pattern, until they change.

    Each filter request names nodes on which an equal pod has passed its filters. That says nothing
    of the other nodes: it may be a sample. Samples add up, until a node changes.
    """

    def __init__(self) -> None:
        self._of: dict[Pattern, PatternNodes] = {}
        """The one first that began first."""
        self._doubted = ExpiringSet[str](_FEATURES_SECONDS)
        """Nodes that declare other features than before. kube-scheduler may ask for one that is
        unknown here, and its answer may be about the node as it was."""

    def __iter__(self) -> Iterator[PatternNodes]:
        return iter(self._of.values())

    def of(self, pattern: Pattern) -> PatternNodes | None:
        """Return what was seen of a pattern."""
        return self._of.get(pattern)

    def good(self, pattern: Pattern) -> Collection[str]:
        """Return the nodes that are good for a pattern, room aside; the live set."""
        look = self._of.get(pattern)
        return look.nodes if look is not None and look.agrees else _NOWHERE

    def add(self, pattern: Pattern, names: Iterable[str], *, at: float, agrees: bool) -> None:
        """Add what a request said, at a time in seconds."""
        for _ in self._doubted.pass_time(at):
            pass
        self._drop_old(at)
        look = self._of.get(pattern)
        if look is None:
            look = self._of[pattern] = PatternNodes(at)
            if len(self._of) > MOST:
                del self._of[next(iter(self._of))]
        look.agrees = agrees
        if agrees:
            look.nodes.update(name for name in names if name not in self._doubted)

    def forget(self, node: str, *, doubted: bool = False) -> None:
        """Forget what was said of a node: it came, went or changed."""
        if doubted:
            self._doubted.add(node)
        for look in self._of.values():
            look.nodes.discard(node)

    def _drop_old(self, now: float) -> None:
        for pattern, look in [*self._of.items()]:
            if now - look.began <= SECONDS:
                return
            del self._of[pattern]


class SchedulersOnNodes:
    """Counts of pods on nodes by the scheduler that they name, which are 0 for a minute at last."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, int]] = {}
        """By scheduler and node; 0 for a while after the last pod went."""
        self._gone = ExpiringSet[tuple[str, str]](SECONDS)

    def count(self, scheduler: str, node: str) -> None:
        """Count a pod on a node."""
        there = self._pods.setdefault(scheduler, {})
        there[node] = there.get(node, 0) + 1

    def uncount(self, scheduler: str, node: str) -> None:
        """Undo `count`: a pod has gone."""
        there = self._pods[scheduler]
        there[node] -= 1
        if not there[node]:
            ended = self._gone.add((scheduler, node))
            if ended is not None:
                self._forget(*ended)

    def pass_time(self, now: float) -> None:
        """Forget the nodes whose last pod of a scheduler went too long before `now`, in seconds."""
        for ended in self._gone.pass_time(now):
            self._forget(*ended)

    def nodes_of_others(self, but: Container[str]) -> list[Collection[str]]:
        """Return the nodes of each scheduler that is not one of these; live."""
        return [there.keys() for name, there in self._pods.items() if name not in but]

    def _forget(self, scheduler: str, node: str) -> None:
        there = self._pods.get(scheduler, {})
        if there.get(node) == 0:
            del there[node]
            if not there:
                del self._pods[scheduler]


class Unseen:
    """The pods bound ahead that may be unseen, by UID and by node, as they were before that.

    kube-scheduler believes their room free until its own watch shows them. What keeps the time
    notes how far the numbers of the pods were at which moment.
    """

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
