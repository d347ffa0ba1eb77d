"""The counts and orders that the store keeps, so that no decision goes through all pods or nodes.

The progress of groups and their queue, nodes in the order of what they have, logs of what changed,
pods of native PodGroups, terms of affinity, and what a new version of a pod concerns.
"""

from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final
from weakref import WeakKeyDictionary

from extender.api.core_v1 import LabelSelector, matches
from extender.api.wellknown import POD_GROUP_LABEL, POD_GROUP_LABEL_SIGS, TOPOLOGY_GATE
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import REMEMBERED, Pattern, PodInfo, PodTerm, Shape
from extender.state.cluster.reservations import ReservationKind

Turn = tuple[int, float, int, str]
"""The order of groups, lowest first: priority negated, time, arrival, `namespace/name`."""


@dataclass(slots=True)
class GroupTally:
    """The pods of one group by how far they have come, as UIDs in order of arrival.

    Each member is in exactly one of `bound`, `binding`, `waiting`, `planned` or in none of them;
    `gated`, `gated_by_us` and `leaving` only count members in none.
    """

    members: dict[str, None] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    binding: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    planned: set[str] = field(default_factory=set)
    gated: set[str] = field(default_factory=set)
    """Members behind gates of others, with or without our own gate."""
    leaving: set[str] = field(default_factory=set)
    """Members that are being deleted, with a node or without."""
    gated_by_us: set[str] = field(default_factory=set)
    """Members behind our own gate alone, which we remove when it is time."""
    all_gated_by_us: dict[str, None] = field(default_factory=dict, compare=False)
    """All members behind our own gate alone in order of arrival, with kept room or without."""
    priorities: dict[int, int] = field(default_factory=dict)
    """The number of members with each priority."""
    able: Counter[int] = field(default_factory=Counter, compare=False)
    """The number of members with each priority that run or could: no gate of others keeps them from
    a node, and kube-scheduler has not found them unschedulable."""

    @property
    def priority(self) -> int:
        """The lowest priority among the members: a gang is worth what its least member is."""
        return min(self.priorities, default=0)

    @property
    def worth(self) -> int | None:
        """The highest priority among members that run or could: that of a gang that makes room."""
        return max(self.able, default=None)

    @property
    def assigned(self) -> int:
        """Members that have a node or wait for quorum with one: what Permit counts."""
        return len(self.bound) + len(self.binding) + len(self.waiting)

    @property
    def committed(self) -> int:
        """Members that room is taken or kept for."""
        return self.assigned + len(self.planned)

    def waits_for_room(self, quorum: int) -> bool:
        """Return whether there are enough members free of gates, and too few of them have room."""
        able = len(self.members) - len(self.gated) - len(self.leaving)
        return able >= quorum > self.committed

    def add(self, pod: PodInfo) -> None:
        """Count a member by what the API shows of it."""
        self.members.setdefault(pod.uid)
        self.priorities[pod.priority] = self.priorities.get(pod.priority, 0) + 1
        if _is_able(pod):
            self.able[pod.priority] += 1
        if pod.is_gated_by_us:
            self.all_gated_by_us[pod.uid] = None
        if pod.terminating:
            # It does not help members that start now, though it takes its room.
            self.leaving.add(pod.uid)
        elif pod.node is not None:
            self.bound.add(pod.uid)
        elif pod.gates:
            self._behind_gates(pod).add(pod.uid)

    def remove(self, pod: PodInfo) -> None:
        """Undo `add`; the member keeps its place in `members`."""
        self.bound.discard(pod.uid)
        self.leaving.discard(pod.uid)
        self.all_gated_by_us.pop(pod.uid, None)
        if pod.gates:
            self._behind_gates(pod).discard(pod.uid)
        self.priorities[pod.priority] -= 1
        if not self.priorities[pod.priority]:
            del self.priorities[pod.priority]
        if _is_able(pod):
            self.able[pod.priority] -= 1
            if not self.able[pod.priority]:
                del self.able[pod.priority]

    def reserve(self, pod: PodInfo, kind: ReservationKind) -> None:
        """Count a member without a node as one that has a reservation of a kind."""
        self._at(kind).add(pod.uid)
        if pod.gates:
            self._behind_gates(pod).discard(pod.uid)

    def release(self, pod: PodInfo, kind: ReservationKind) -> None:
        """Undo `reserve`."""
        self._at(kind).discard(pod.uid)
        if pod.gates:
            self._behind_gates(pod).add(pod.uid)

    def _behind_gates(self, pod: PodInfo) -> set[str]:
        return self.gated_by_us if pod.is_gated_by_us else self.gated

    def _at(self, kind: ReservationKind) -> set[str]:
        match kind:
            case ReservationKind.PLANNED:
                return self.planned
            case ReservationKind.WAITING:
                return self.waiting
            case _:
                return self.binding


def _is_able(pod: PodInfo) -> bool:
    return pod.node is not None or (
        pod.unschedulable is None and (not pod.gates or pod.is_gated_by_us)
    )


class GroupQueue:
    """Groups in order; moving one costs a search and a shift, whatever their number."""

    __slots__ = ("_line", "_turns")

    def __init__(self) -> None:
        self._turns: dict[str, Turn] = {}
        self._line: list[Turn] = []

    def __len__(self) -> int:
        return len(self._line)

    def __contains__(self, group: str) -> bool:
        return group in self._turns

    def __iter__(self) -> Iterator[str]:
        """Yield the groups, first to be served first."""
        return (turn[-1] for turn in self._line)

    def put(self, turn: Turn) -> None:
        """Give the group at the end of `turn` its place, whether or not it had another one."""
        group = turn[-1]
        if self._turns.get(group) != turn:
            self.drop(group)
            self._turns[group] = turn
            insort(self._line, turn)

    def drop(self, group: str) -> bool:
        """Remove a group; return whether it was in."""
        turn = self._turns.pop(group, None)
        if turn is None:
            return False
        del self._line[bisect_left(self._line, turn)]
        return True

    def position(self, turn: Turn) -> int:
        """Return how many groups come before a turn."""
        return bisect_left(self._line, turn)

    def ahead_of(self, turn: Turn) -> Iterator[str]:
        """Yield the groups that come before a turn, first to be served first."""
        for other in self._line:
            if other >= turn:
                return
            yield other[-1]


_FEW: Final = 8
"""If more than one in this number of nodes changed, sorting all takes less time."""
Entry = tuple[int, str]
"""An amount, and the name of the node that has it; equal amounts are in the order of names."""


class NodeOrder:
    """Nodes in the order of an amount, least first, by resource; `amounts` returns those of a node.

    A packer that looks for a node with so much of a resource begins at the first one that has it,
    and so passes the full ones without a look. The order is kept from one question to the next:
    only nodes that changed meanwhile get another place.
    """

    __slots__ = ("_amounts", "_changed", "_having", "_known", "_most", "_moved", "_orders")

    def __init__(self, amounts: Callable[[str], Mapping[str, int] | None]) -> None:
        self._amounts = amounts
        self._known: dict[str, Mapping[str, int]] = {}
        self._orders: dict[str, list[Entry]] = {}
        self._most: dict[str, int] = {}
        self._having = Counter[str]()
        """The number of nodes that have a resource; if none has it, all orders are the same."""
        self._changed: set[str] = set()
        """Nodes to be read again."""
        self._moved: dict[str, Mapping[str, int] | None] = {}
        """Nodes that were, and are to have other places: what they had when those were given."""

    def note(self, *nodes: str) -> None:
        """Note that nodes came, went, or have other amounts."""
        self._changed.update(nodes)

    def all(self) -> Mapping[str, Mapping[str, int]]:
        """Return the amounts of all nodes by name; the answer is the next one's too."""
        if self._changed:
            self._read()
        return self._known

    def by(self, resource: str) -> Sequence[Entry]:
        """Return all nodes, the one with the least of a resource first.

        The answer stays as it is when nodes change: a reader may go on with it.
        """
        amounts = self.all()
        if self._moved:
            self._sort()
        if not self._having[resource]:
            resource = ""
        found = self._orders.get(resource)
        if found is None:
            entries = ((each.get(resource, 0), name) for name, each in amounts.items())
            found = self._orders[resource] = sorted(entries)
        return found

    def most(self, resource: str) -> int:
        """Return the most that any node has of a resource, never less than zero."""
        amounts = self.all()
        if not self._having[resource]:
            return 0
        found = self._most.get(resource)
        if found is None:
            found = max((each.get(resource, 0) for each in amounts.values()), default=0)
            found = self._most[resource] = max(0, found)
        return found

    def _read(self) -> None:
        changed, self._changed = self._changed, set()
        self._most.clear()
        for name in changed:
            before = self._known.pop(name, None)
            self._moved.setdefault(name, before)
            self._having.subtract(before or ())
            amounts = self._amounts(name)
            if amounts is not None:
                self._known[name] = amounts
                self._having.update(amounts.keys())

    def _sort(self) -> None:
        """Give the nodes that changed their new places, in copies of the orders."""
        moved, self._moved = self._moved, {}
        if len(moved) > len(self._known) // _FEW:
            self._orders.clear()
        for resource, order in self._orders.items():
            self._orders[resource] = self._sorted(order.copy(), resource, moved)

    def _sorted(
        self, order: list[Entry], resource: str, moved: Mapping[str, Mapping[str, int] | None]
    ) -> list[Entry]:
        for name, before in moved.items():
            now = self._known.get(name)
            if before is not None:
                del order[bisect_left(order, (before.get(resource, 0), name))]
            if now is not None:
                insort(order, (now.get(resource, 0), name))
        return order


class Gains:
    """Nodes in the order in which they were noted last; each note has a number, its version.

    A reader that keeps the version of its last look walks only over the nodes noted since then.
    """

    __slots__ = ("_at", "version")

    def __init__(self) -> None:
        self.version = 0
        """The number of the latest note; 0 before the first one."""
        self._at: dict[str, int] = {}

    def note(self, nodes: Iterable[str]) -> None:
        """Note nodes, if there are any, under one new version."""
        found = list(nodes)
        if found:
            self.version += 1
        for node in found:
            self._at.pop(node, None)
            self._at[node] = self.version

    def forget(self, node: str) -> None:
        """Forget a node that went, once every reader has looked since."""
        self._at.pop(node, None)

    def since(self, version: int) -> Iterator[str]:
        """Yield the nodes noted after a version, the latest first; not to be kept over a note."""
        for node, at in reversed(self._at.items()):
            if at <= version:
                return
            yield node


class PodLog:
    """The latest pods that were counted or taken off; each entry has a number, its version."""

    __slots__ = ("_pods", "version")

    def __init__(self) -> None:
        self.version = 0
        """The number of the latest entry; 0 before the first one."""
        self._pods: deque[PodInfo] = deque(maxlen=REMEMBERED)

    def note(self, pod: PodInfo) -> None:
        """Add an entry."""
        self.version += 1
        self._pods.append(pod)

    def since(self, version: int) -> Collection[PodInfo] | None:
        """Return the pods noted after a version; None where they are too many to be known."""
        number = self.version - version
        if number > len(self._pods):
            return None
        return list(islice(reversed(self._pods), number))


@dataclass(slots=True)
class Natives:
    """Pods of native PodGroups, and the group that each is a member of here.

    Where kube-scheduler schedules native groups itself, their pods are in no group here, whatever
    their labels say. Where it does not, a pod is a member of the group that its label names. A pod
    without such a label is a member of its native PodGroup, unless that has no gang policy.
    """

    ours: bool | None = None
    """True if the extender schedules them; None while that is not known."""
    fixed: bool = False
    """True if that is said by a setting, so that no condition changes it."""
    cycles: bool = False
    """True if kube-scheduler has written a condition to one: it tries groups as a whole."""
    basic: set[str] = field(default_factory=set)
    """Keys of the PodGroups without a gang policy."""
    pods: dict[str, PodInfo] = field(default_factory=dict)
    """The pods that name a native PodGroup, as they were decoded, by UID."""
    of: dict[str, dict[str, None]] = field(default_factory=dict)
    """The UIDs of these pods, by PodGroup."""

    def group(self, native: str, labelled: str | None) -> str | None:
        """Return the group that a pod of a native PodGroup is a member of here.

        `labelled` is the group that a label of the pod names.
        """
        if self.ours is False:
            return None
        if labelled is not None:
            return labelled
        return None if native in self.basic else native

    def take(self, pod: PodInfo) -> PodInfo:
        """Return a pod with its group; remember it for as long as it has not finished."""
        if pod.native is None:
            return pod
        if not pod.finished:
            self.pods[pod.uid] = pod
            self.of.setdefault(pod.native, {})[pod.uid] = None
        labelled = pod.labels.get(POD_GROUP_LABEL) or pod.labels.get(POD_GROUP_LABEL_SIGS)
        is_default = pod.group == pod.native and not labelled
        group = self.group(pod.native, None if is_default else pod.group)
        return pod if group == pod.group else replace(pod, group=group)

    def forget(self, uid: str) -> None:
        """Forget a pod, which may be none of these."""
        pod = self.pods.pop(uid, None)
        if pod is None or pod.native is None:
            return
        there = self.of[pod.native]
        del there[uid]
        if not there:
            del self.of[pod.native]

    def members(self, key: str) -> Collection[str]:
        """Return the UIDs of the pods that name a PodGroup."""
        return [*self.of.get(key, ())]


def may_name(terms: Iterable[PodTerm], namespace: str, pattern: Pattern) -> bool:
    """Return whether a term of a pod in a namespace may be about pods of a pattern."""
    return any(
        term.covers(pattern.namespace, own=namespace) and _selects(term.selector, pattern)
        for term in terms
    )


def _selects(selector: LabelSelector | None, pattern: Pattern) -> bool:
    """Return whether a selector may select pods of a pattern; None selects no pod."""
    if selector is None:
        return False
    labels, dropped = pattern.labels, pattern.dropped
    exact = (selector.match_labels or {}).items()
    return all(key in dropped or labels.get(key) == value for key, value in exact) and all(
        each.key in dropped or matches(each, labels) for each in selector.match_expressions or ()
    )


class PodAffinityIndex:
    """The number of pods with the same terms about other pods, by shape and namespace.

    kube-scheduler holds a pod against required anti-affinity of every pod on a node, and a pending
    pod against every pod that it sees. It does not see at once what was bound without it.
    """

    def __init__(self) -> None:
        self.counts: dict[tuple[Shape, str, bool], int] = {}
        """The last part of the key says whether the pods have no node yet."""
        self._answers = WeakKeyDictionary[Pattern, bool]()
        """The answers for patterns, until there are other terms."""

    def add(self, pod: PodInfo) -> None:
        """Count a pod with terms."""
        key = pod.shape, pod.namespace, pod.node is None
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.counts[key] == 1:
            self._answers.clear()

    def remove(self, pod: PodInfo) -> None:
        """Undo `add`."""
        key = pod.shape, pod.namespace, pod.node is None
        self.counts[key] -= 1
        if not self.counts[key]:
            del self.counts[key]
            self._answers.clear()

    def names(self, pattern: Pattern) -> bool:
        """Return whether a term that is in force may be about pods of a pattern."""
        found = self._answers.get(pattern)
        if found is None:
            found = self._answers[pattern] = any(
                may_name((*shape.shuns, *(shape.seeks if waits else ())), namespace, pattern)
                for shape, namespace, waits in self.counts
            )
        return found


def change_of_pod(before: PodInfo | None, pod: PodInfo, *, room: bool) -> ClusterChange:
    """Return what a new version of a pod touches; `room` says whether it gives any."""
    touched, quiet = True, False
    if before is not None:
        was = (before.group, before.node, before.gates, before.terminating, before.shape)
        touched = was != (pod.group, pod.node, pod.gates, pod.terminating, pod.shape)
        said = (before.phase, before.ready, before.gang_ready, before.unschedulable, before.owners)
        now = (pod.phase, pod.ready, pod.gang_ready, pod.unschedulable, pod.owners)
        quiet = not touched and said == now
    groups = {pod.group, before.group if before is not None else None}
    # Behind our gate it concerns its native group too, though it may be no member of that here.
    natives = {pod.native if pod.is_gated_by_us else None}
    found_no_node = pod.unschedulable and (
        before is None or before.unschedulable != pod.unschedulable
    )
    awaits_domain = TOPOLOGY_GATE in pod.gates and not pod.terminating
    return ClusterChange(
        groups=frozenset(filter(None, groups | natives)) if touched else frozenset(),
        unschedulable=frozenset((pod.uid,)) if found_no_node else frozenset(),
        room=room,
        statuses=frozenset(filter(None, groups)) if not quiet else frozenset(),
        gated=frozenset(filter(None, (pod.workload,))) if awaits_domain else frozenset(),
    )


class PodsByPriority:
    """Pods, counted by scheduler and priority."""

    def __init__(self) -> None:
        self.of: dict[str, tuple[str, int]] = {}
        """The scheduler and priority that a pod is counted under, by UID."""
        self.counts = Counter[tuple[str, int]]()

    def put(self, pod: PodInfo) -> None:
        """Count a pod, as it is now."""
        self.drop(pod.uid)
        under = self.of[pod.uid] = pod.scheduler, pod.priority
        self.counts[under] += 1

    def drop(self, uid: str) -> None:
        """Count a pod no more, if it is counted."""
        under = self.of.pop(uid, None)
        if under is not None:
            self.counts[under] -= 1
            if not self.counts[under]:
                del self.counts[under]

    def highest(self, schedulers: Collection[str]) -> int | None:
        """Return the highest priority among those of schedulers."""
        return max((n for scheduler, n in self.counts if scheduler in schedulers), default=None)
