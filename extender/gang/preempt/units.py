"""The units that may make room for a gang. Each unit goes as a whole or not at all.

A pod without a group is a unit. In a gang each member above minMember is a unit by itself, and the
others are one unit: if it goes, the gang no longer runs, and all its members go with it. The pods
of a job that a queue has admitted are one unit, because the queue stops the whole job.

No unit, and no gang of a unit, has pods of the preemptor's priority or above. Static pods cannot be
evicted. Pods of a DaemonSet come back to the same node, whatever room is kept there. A gang that is
starting, or has not run for its guaranteed time, is left alone.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

from extender.api.core_v1 import LabelSelector, matches_selector
from extender.api.wellknown import INDEX_LABEL
from extender.gang.room import is_of_system
from extender.gang.verdicts import GangOptions
from extender.state.cluster.records import BudgetInfo, PodGroupInfo, PodInfo
from extender.state.cluster.view import ClusterView

PATIENCE_SECONDS: Final = 30.0
"""The time that a pod may take to leave beyond its grace period, and then the group to start."""
MOST_LOOKS: Final = 50_000
"""The number of labels and values to compare for the pods of one namespace in one search."""
_NONE: Mapping[str, int] = {}


class Budgets:
    """The budgets of the namespaces that were asked about."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._allowed: dict[str, int] = {}
        self._known: dict[tuple[object, ...], tuple[str, ...]] = {}
        self._named: dict[str, tuple[frozenset[str], int]] = {}
        """The labels that the budgets of a namespace name, and the cost of comparing them."""
        self._looks = Counter[str]()

    def of(self, pods: Iterable[PodInfo]) -> Mapping[str, int]:
        """Return the number of these pods that each budget selects, by the key of the budget."""
        found = Counter[str]()
        for pod in pods:
            budgets = self._view.budgets(pod.namespace)
            if budgets:
                found.update(self._about(pod, budgets))
        return found or _NONE

    def violations(self, units: Iterable["Unit"]) -> int:
        """Return the number of evictions beyond what the budgets allow, if these units go."""
        counts = Counter[str]()
        for part in (part for unit in units for part in unit.parts):
            counts.update(part.guarded)
        return sum(max(0, count - self._allowed[key]) for key, count in counts.items())

    def protected(self, units: Iterable["Unit"]) -> "set[Unit]":
        """Return those of these units that exceed a budget, if the first ones rather go."""
        taken, found = Counter[str](), set[Unit]()
        for unit in (each for each in units if each.guarded or each.beyond):
            if not found.isdisjoint(unit.beyond) or self.would_break(unit.guarded, taken):
                found.add(unit)
            else:
                taken.update(unit.guarded)
        return found

    def would_break(self, counts: Mapping[str, int], taken: Mapping[str, int] = _NONE) -> bool:
        """Return whether these evictions, beside those `taken`, are more than a budget allows."""
        return any(taken.get(key, 0) + n > self._allowed[key] for key, n in counts.items())

    def _about(self, pod: PodInfo, budgets: Collection[BudgetInfo]) -> tuple[str, ...]:
        """Return the keys of the budgets that select a pod.

        They are worked out once for all pods with the same values of the labels that budgets name.
        If that takes too long, because a tenant has made very many budgets, the remaining pods
        count as protected by all budgets.
        """
        namespace = pod.namespace
        if namespace not in self._named:
            found = frozenset(name for each in budgets for name in _names(each.selector))
            self._named[namespace] = found, sum(_cost(each.selector) for each in budgets)
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


def _names(selector: LabelSelector | None) -> list[str]:
    """Return the names of the labels that a selector compares."""
    if selector is None:
        return []
    return [*(selector.match_labels or ()), *(e.key for e in selector.match_expressions or ())]


def _cost(selector: LabelSelector | None) -> int:
    """Return the number of labels and values that a selector compares, and one for itself."""
    expressions = (selector.match_expressions if selector else None) or ()
    return 1 + len(_names(selector)) + sum(len(each.values or ()) for each in expressions)


# --- units -------------------------------------------------------------------------------------


class Rank(NamedTuple):
    """The importance of a unit: the least important unit goes first."""

    priority: int
    cost: int
    age: float
    """The negated time of its start: an older unit is more important."""
    part: int
    """The negated index of a member: a lower index is more important."""
    namespace: str
    name: str
    whole: bool


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Pods that go together or not at all. Equality is identity."""

    pods: Sequence[PodInfo]
    group: str | None
    rank: Rank
    beyond: "Sequence[Unit]" = ()
    """The members of its gang above minMember, which go with it."""
    guarded: Mapping[str, int] = field(default_factory=dict)
    """The number of its pods that each budget selects."""

    @property
    def whole(self) -> bool:
        """True if it is a whole gang or job."""
        return self.rank.whole

    @property
    def parts(self) -> "tuple[Unit, ...]":
        """The units that go with it, itself first."""
        return (self, *self.beyond)

    @property
    def all_pods(self) -> tuple[PodInfo, ...]:
        """The pods that go with it, by name."""
        pods = (pod for each in self.parts for pod in each.pods)
        return tuple(sorted(pods, key=attrgetter("name")))


class Going:
    """The pods that leave anyway, whatever is chosen now."""

    def __init__(self, view: ClusterView, now: float) -> None:
        """`now` is in seconds since the epoch."""
        chosen = (each.victims for each in view.nominated.values())
        self._chosen, self._now = frozenset[str]().union(*chosen), now

    def leaves(self, pod: PodInfo) -> bool:
        """Return whether a pod is being deleted, or was chosen to make room for another gang."""
        return pod.terminating or pod.uid in self._chosen

    def is_in_time(self, pod: PodInfo) -> bool:
        """Return whether a pod that leaves is not late, so that its room may be waited for."""
        return pod.gone_by is None or self._now < pod.gone_by + PATIENCE_SECONDS


class Evictables:
    """The units of a cluster that a gang may take; each is made when a pod of it is asked about."""

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
        """`near` returns whether room on a node is of use to the gang."""
        self.budgets = Budgets(view)
        self._group, self._priority, self._near = group, priority, near
        self._view, self._now, self._options = view, now, options
        self.going = Going(view, now)
        self._of: dict[str, Unit | None] = {}
        """The unit of each pod of a gang or a workload that was asked about, by UID."""

    def of(self, pod: PodInfo) -> Unit | None:
        """Return the unit of a pod with a node; None if the pod stays."""
        if pod.group is None and pod.workload is None:
            return self._made([pod], None, _rank([pod])) if self._may_go(pod) else None
        if pod.uid not in self._of:
            self._read(pod)
        return self._of[pod.uid]

    def _may_go(self, pod: PodInfo) -> bool:
        return pod.priority < self._priority and not is_of_system(pod)

    def _is_lower(self, group: str | None) -> bool:
        """Return whether all members of a group that run, or could run, have a lower priority."""
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
            there = [pod]  # its PodGroup was deleted: its pods are no gang any more
        running = [each for each in there if each.node is not None and not self.going.leaves(each)]
        self._of.update(dict.fromkeys([each.uid for each in running]))
        self._of[pod.uid] = None
        if all(map(self._is_lower, {each.group for each in there})):
            for unit in self._units(running, pod_group, is_job=pod.workload is not None):
                self._of.update(dict.fromkeys([each.uid for each in unit.pods], unit))

    def _units(
        self, running: Sequence[PodInfo], pod_group: PodGroupInfo | None, *, is_job: bool
    ) -> Iterator[Unit]:
        """Yield the units that may go of these pods, which are a gang, or a job of a queue."""
        if pod_group is not None and self._is_let_run(pod_group, running):
            return
        if is_job:
            found: Sequence[Unit | None] = [self._whole(running, pod_group, ())]
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

    def _of_gang(self, pod_group: PodGroupInfo, running: Sequence[PodInfo]) -> list[Unit | None]:
        """Return the units of a gang: each member above minMember, and the rest.

        The members above minMember are chosen in this order: on nodes that are of use, not
        protected by a budget, of low priority and cost, with the highest index, the youngest.
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
        """Return the sort key for the members of a gang: the first member goes first."""
        cost = _rank([pod], pod_group).cost
        index = -1 if pod.index is None else pod.index
        far = not self._near(pod.node or "")
        protected = self.budgets.would_break(self.budgets.of([pod]))
        return far, protected, pod.priority, cost, -index, -(pod.bound_at or pod.created), pod.name

    def _whole(
        self,
        pods: Sequence[PodInfo],
        pod_group: PodGroupInfo | None,
        beyond: Sequence[Unit],
    ) -> Unit | None:
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
        beyond: Sequence[Unit] = (),
    ) -> Unit:
        return Unit(pods, group, rank, beyond, self.budgets.of(pods))


def _rank(
    pods: Sequence[PodInfo], pod_group: PodGroupInfo | None = None, *, whole: bool = False
) -> Rank:
    """Return the rank of a unit. For a member its own cost goes before that of its PodGroup."""
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
    """Return the time since which a gang, or the first of some pods, runs."""
    started = pod_group.started if pod_group is not None else None
    if started is not None:
        return started
    return min([pod.bound_at or pod.created for pod in pods], default=0.0)
