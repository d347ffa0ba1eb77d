"""What may make room for a gang, as units: each goes whole or not at all.

A plain pod is a unit. Of a gang the members above minMember are units, each by itself, and the
others are one unit: when these go, the gang runs no more, and all its members go with them. The
pods of a job that a queue has admitted are one unit, because the queue stops the whole job.

No unit has pods of the preemptor's priority or above, and neither has its gang. Static pods cannot
be evicted. Pods of a DaemonSet come back to the same node, whatever room is kept there. A gang that
is starting, or has not run for as long as it may, is left alone.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import attrgetter
from typing import Final, NamedTuple

from extender.api.core_v1 import LabelSelector
from extender.api.selectors import matches_selector
from extender.api.wellknown import INDEX_LABEL
from extender.gang.options import GangOptions
from extender.gang.room import is_of_system
from extender.resources.quantity import Resources, add
from extender.state.cluster.records import BudgetInfo, PodGroupInfo, PodInfo
from extender.state.cluster.view import ClusterView
from extender.steps import Steps

LATE: Final = 30.0
"""For how many seconds beyond its grace period the room of a pod that leaves counts as coming."""
_AT_ONCE: Final = 1024
"""Pods that are forgotten in one piece."""
MOST_LOOKS: Final = 50_000
"""Labels that are compared for the pods of one namespace in one search."""
VALUES: Final = 16
"""Values with which a label is compared in the time of one look."""
_NONE: Mapping[str, int] = {}


class Budgets:
    """The budgets of all namespaces that were asked about, and what has been taken from them."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._allowed: dict[str, int] = {}
        self._taken = Counter[str]()
        self._known: dict[tuple[object, ...], tuple[str, ...]] = {}
        self._named: dict[str, tuple[frozenset[str], int]] = {}
        """By namespace: the labels that its budgets name, and how long it takes to compare them."""
        self._looks = Counter[str]()

    def of(self, pods: Iterable[PodInfo]) -> Mapping[str, int]:
        """Return how many of these pods each budget is about, by its key."""
        found = Counter[str]()
        for pod in pods:
            budgets = self._view.budgets(pod.namespace)
            if budgets:
                found.update(self._about(pod, budgets))
        return found or _NONE

    def take(self, counts: Mapping[str, int], sign: int = 1) -> None:
        """Count evictions; those that are not made after all with the sign -1."""
        for key, count in counts.items():
            self._taken[key] += sign * count

    def would_break(self, counts: Mapping[str, int]) -> bool:
        """Return whether these evictions are more than a budget allows, beside those counted."""
        return any(self._taken[key] + n > self._allowed[key] for key, n in counts.items())

    def broken_by(self, counts: Mapping[str, int]) -> bool:
        """Return whether a budget that these evictions are about is exceeded as it is."""
        return any(self._taken[key] > self._allowed[key] for key in counts)

    def violated_by(self, counts: Mapping[str, int]) -> int:
        """Return how many of these evictions are beyond what budgets allow."""
        over = (self._taken[key] + n - self._allowed[key] for key, n in counts.items())
        return sum(max(0, min(n, each)) for each, n in zip(over, counts.values(), strict=True))

    @property
    def violations(self) -> int:
        """How many evictions are beyond what budgets allow."""
        over = (count - self._allowed[key] for key, count in self._taken.items() if count)
        return sum(each for each in over if each > 0)

    def _about(self, pod: PodInfo, budgets: Collection[BudgetInfo]) -> tuple[str, ...]:
        """Return the keys of the budgets that a pod counts for.

        They are worked out once for all pods that have the same of the labels that budgets name.
        Where that takes too long, because a tenant has made very many budgets, the others count as
        protected by all of them.
        """
        namespace = pod.namespace
        if namespace not in self._named:
            found = [name for each in budgets for name in _names(each.selector)]
            self._named[namespace] = frozenset(found), len(found) + len(budgets)
        names, cost = self._named[namespace]
        labels = {name: value for name, value in pod.labels.items() if name in names}
        if pod.index is not None and INDEX_LABEL in names:
            labels.setdefault(INDEX_LABEL, str(pod.index))
        key = (namespace, *labels.items())
        if key in self._known:
            return self._known[key]
        if self._looks[namespace] > MOST_LOOKS:
            self._allowed[namespace] = 0
            return (namespace,)
        self._looks[namespace] += cost
        about = [each for each in budgets if matches_selector(each.selector, labels)]
        self._allowed.update({each.key: each.allowed for each in about})
        self._known[key] = tuple(each.key for each in about)
        return self._known[key]


def _names(selector: LabelSelector | None) -> Iterator[str]:
    """Yield each name of a label once, and once more for some values that it is compared with."""
    yield from (selector.match_labels if selector else None) or ()
    for each in (selector.match_expressions if selector else None) or ():
        yield from repeat(each.key, 1 + len(each.values or ()) // VALUES)


# --- units -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unit:
    """Pods that go together or not at all."""

    pods: tuple[PodInfo, ...]
    group: str | None = None
    """`namespace/name` of its PodGroup; None for a plain pod."""
    whole: bool = False
    """Whether its gang falls below minMember: then these are all its members with a node."""
    priority: int = 0
    """The highest among its pods."""
    cost: int = 0
    since: float = 0.0
    """Since when it runs, in seconds since the epoch."""


class Rank(NamedTuple):
    """How important a unit is: the least important goes first."""

    priority: int
    cost: int
    age: float
    """The time of its start, below zero: the older one is more important."""
    part: int
    """Which part of its work a member does, below zero: the first one is more important."""
    namespace: str
    name: str
    whole: bool


class Evictable:
    """A unit while it is undecided whether it goes. Equality is identity."""

    __slots__ = ("beyond", "cost", "gone", "group", "guarded", "on", "pods", "rank", "whole")

    def __init__(
        self,
        pods: Sequence[PodInfo],
        group: str | None,
        *,
        rank: Rank,
        beyond: "Sequence[Evictable]" = (),
    ) -> None:
        self.pods, self.group, self.rank = pods, group, rank
        self.whole = rank.whole
        self.on: dict[str, Resources] = _by_node(pods)
        """What its pods take of their nodes."""
        self.beyond = beyond
        """The members of its gang above minMember, which go with it."""
        self.guarded: Mapping[str, int] = {}
        """How many of its pods each budget is about."""
        self.gone = False

    def going(self) -> "Iterator[Evictable]":
        """Yield what goes with it and has not gone, itself first."""
        return (each for each in (self, *self.beyond) if not each.gone)

    @property
    def size(self) -> int:
        """How many pods go with it."""
        return len(self.pods) + sum(len(each.pods) for each in self.beyond)

    def as_unit(self) -> Unit:
        """Return it as it goes."""
        pods = [pod for each in (self, *self.beyond) for pod in each.pods]
        return Unit(
            tuple(sorted(pods, key=attrgetter("name"))),
            self.group,
            whole=self.whole,
            priority=max(pod.priority for pod in pods),
            cost=self.rank.cost,
            since=-self.rank.age,
        )


class Going:
    """The pods that go, whatever is chosen now."""

    def __init__(self, view: ClusterView, now: float) -> None:
        """`now` is in seconds since the epoch."""
        chosen = (each.victims for each in view.nominated.values())
        self._chosen, self._now = frozenset[str]().union(*chosen), now

    def leaves(self, pod: PodInfo) -> bool:
        """Return whether a pod is being deleted, or was chosen to make room for another gang."""
        return pod.terminating or pod.uid in self._chosen

    def is_in_time(self, pod: PodInfo) -> bool:
        """Return whether a pod that leaves may be waited for: it is not late."""
        return pod.gone_by is None or self._now < pod.gone_by + LATE


class Evictables:
    """The units of a cluster that a gang of a priority may take; each is made when it is met."""

    def __init__(
        self,
        group: str,
        priority: int,
        *,
        view: ClusterView,
        now: float,
        options: GangOptions,
        near: Callable[[str], bool],
    ) -> None:
        """`near` says of which nodes the room is of use to the gang."""
        self.budgets = Budgets(view)
        self._group, self._priority, self._near = group, priority, near
        self._view, self._now, self._options = view, now, options
        self.looked = 0
        """How many members were looked at: the reader counts from zero after each piece."""
        self.going = Going(view, now)
        self._of: dict[str, Evictable | None] = {}
        """By UID: the unit of each pod of a gang or a workload that was met."""

    def of(self, pod: PodInfo) -> Evictable | None:
        """Return the unit of a pod with a node; None where it stays."""
        if pod.group is None and pod.workload is None:
            return self._made([pod], None, _rank([pod])) if self._may_go(pod) else None
        if pod.uid not in self._of:
            self._read(pod)
        return self._of[pod.uid]

    def forgetting(self) -> Steps[None]:
        """Forget all units, piece by piece."""
        while self._of:
            for _ in range(min(_AT_ONCE, len(self._of))):
                self._of.popitem()
            yield

    def _may_go(self, pod: PodInfo) -> bool:
        return pod.priority < self._priority and not is_of_system(pod)

    def _is_lower(self, group: str | None) -> bool:
        """Return whether all members of a group that run, or could, are less important."""
        if group is None:
            return True
        highest = self._view.tally(group).worth
        return group != self._group and highest is not None and highest < self._priority

    def _read(self, pod: PodInfo) -> None:
        """Find the units of all pods that belong to a pod's gang or job."""
        view, group = self._view, pod.group
        pod_group = view.pod_group(group) if group is not None else None
        if pod.workload is not None:
            uids = view.of_workload(pod.workload)
            there = sorted((view.pods[uid] for uid in uids), key=attrgetter("name"))
        elif pod_group is not None:
            there = list(view.members(pod_group.key))
        else:
            there = [pod]  # its PodGroup was deleted: it is no gang any more
        running = [each for each in there if each.node is not None and not self.going.leaves(each)]
        self.looked += len(there)
        self._of.update(dict.fromkeys([each.uid for each in running]))
        self._of[pod.uid] = None
        if all(map(self._is_lower, {each.group for each in there})):
            for unit in self._units(running, pod_group, is_job=pod.workload is not None):
                self._of.update(dict.fromkeys([each.uid for each in unit.pods], unit))

    def _units(
        self, running: Sequence[PodInfo], pod_group: PodGroupInfo | None, *, is_job: bool
    ) -> Iterator[Evictable]:
        """Yield what may go of these pods, which are a gang, or a job of the queue."""
        if pod_group is not None and self._is_let_run(pod_group, running):
            return
        if is_job:
            found: Sequence[Evictable | None] = [self._whole(running, pod_group, ())]
        elif pod_group is not None:
            found = self._of_gang(pod_group, running)
        else:
            found = [self._made([p], None, _rank([p])) for p in running if self._may_go(p)]
        yield from filter(None, found)

    def _is_let_run(self, pod_group: PodGroupInfo, running: Sequence[PodInfo]) -> bool:
        """Return whether a gang is starting, or has not run for long enough."""
        tally, least = self._view.tally(pod_group.key), self._options.runs_for(pod_group.min_run)
        starts = bool(tally.binding or tally.waiting)
        return starts or (least > 0 and self._now - _since(running, pod_group) < least)

    def _of_gang(
        self, pod_group: PodGroupInfo, running: Sequence[PodInfo]
    ) -> list[Evictable | None]:
        """Return the units of a gang: what is above minMember, and the rest.

        Those above are the members on nodes that are of use, of these the ones that no budget
        protects, and then those that do the last parts of the work, or are the youngest.
        """
        above = max(0, len(running) - max(0, self._view.quorum(pod_group)))
        if not above:
            return [self._whole(running, pod_group, ())]
        able = [pod for pod in running if self._may_go(pod)]
        single = sorted(able, key=lambda pod: self._order(pod, pod_group))[:above]
        uids = {pod.uid for pod in single}
        rest = [pod for pod in running if pod.uid not in uids]
        most = _rank(rest, pod_group, whole=True) if rest else None
        if len(able) < len(running) or most is None:
            return [self._made([p], pod_group.key, _rank([p], pod_group)) for p in single]
        below = most._replace(whole=False)  # they go before the rest, whatever their cost
        beyond = [
            self._made([pod], pod_group.key, min(_rank([pod], pod_group), below)) for pod in single
        ]
        return [self._whole(rest, pod_group, beyond), *beyond]

    def _order(self, pod: PodInfo, pod_group: PodGroupInfo) -> tuple[object, ...]:
        """Return what the members of a gang are ordered by: the first one goes first."""
        cost = _rank([pod], pod_group).cost
        index = -1 if pod.index is None else pod.index
        far = not self._near(pod.node or "")
        protected = self.budgets.would_break(self.budgets.of([pod]))
        return far, protected, pod.priority, cost, -index, -(pod.bound_at or pod.created), pod.name

    def _whole(
        self,
        pods: Sequence[PodInfo],
        pod_group: PodGroupInfo | None,
        beyond: Sequence[Evictable],
    ) -> Evictable | None:
        if not pods or not all(map(self._may_go, pods)):
            return None
        group = pod_group.key if pod_group is not None else None
        return self._made(pods, group, _rank(pods, pod_group, whole=True), beyond=beyond)

    def _made(
        self,
        pods: Sequence[PodInfo],
        group: str | None,
        rank: Rank,
        *,
        beyond: Sequence[Evictable] = (),
    ) -> Evictable:
        unit = Evictable(pods, group, rank=rank, beyond=beyond)
        unit.guarded = self.budgets.of(pods)
        return unit


def _rank(
    pods: Sequence[PodInfo], pod_group: PodGroupInfo | None = None, *, whole: bool = False
) -> Rank:
    """Return the rank of a unit; of a member its own cost goes before that of its PodGroup."""
    own = max([pod.cost for pod in pods if pod.cost is not None], default=None)
    of_group = pod_group.cost if pod_group is not None else None
    cost = (
        (of_group if own is None else own) if not whole else (own if of_group is None else of_group)
    )
    since = _since(pods, pod_group if whole else None)
    first = pods[0]
    name = pod_group.name if pod_group is not None and whole else first.name
    priority = max(pod.priority for pod in pods)
    part = 0 if whole or first.index is None else -first.index
    return Rank(priority, cost or 0, -since, part, first.namespace, name, whole)


def _since(pods: Sequence[PodInfo], pod_group: PodGroupInfo | None) -> float:
    """Return since when a gang runs, or the first of some pods."""
    started = pod_group.started if pod_group is not None else None
    if started is not None:
        return started
    return min([pod.bound_at or pod.created for pod in pods], default=0.0)


def _by_node(pods: Sequence[PodInfo]) -> dict[str, Resources]:
    found: dict[str, Resources] = {}
    for pod in pods:
        if pod.node is None:
            continue
        there = found.get(pod.node)
        if there is None:
            found[pod.node] = Resources(pod.shape.requests)
        else:
            add(there, pod.shape.requests)
    return found
