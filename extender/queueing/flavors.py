"""The search for flavors: the flavor of each pod set for each resource, and its free quota.

All resources of a group get one flavor; flavors are tried in the order of the ClusterQueue. What
earlier pod sets of the workload get counts as used for the next.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from extender.api.core_v1 import NodeSelectorTerm, is_tolerated, matches_term
from extender.api.queue_wire import FlavorFungibility
from extender.api.reasons import Unadmitted
from extender.api.values import wrong_label
from extender.queueing.quota import QuotaNode, QuotaTree, level
from extender.queueing.rules import AdmissionOptions, has_topology
from extender.resources.quantity import PODS, show
from extender.state.cluster.records import Shape
from extender.state.queue.records import (
    Assignment,
    ClusterQueueInfo,
    FlavorInfo,
    FlavorResource,
    PodSetInfo,
    ResourceGroupInfo,
    WorkloadInfo,
)
from extender.state.queue.view import QueueView
from extender.steps import Steps


class Mode(IntEnum):
    """The time at which there is quota; higher is sooner."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    """It needs a preemption, and there are no victims."""
    PREEMPT = 2
    RECLAIM = 3
    """It needs a preemption, and all victims are in other ClusterQueues that borrow."""
    FIT = 4


Oracle = Callable[[FlavorResource, int], tuple[Mode, int] | None]
"""Returns what preemption could do for an amount of a resource: NO_CANDIDATES, PREEMPT or RECLAIM,
and how far up the tree it would borrow. None: victims are searched after the choice of flavors."""

LackOfRoom = Callable[[WorkloadInfo, Sequence[Assignment]], Steps[str | None]]
"""Returns what pods lack on nodes; None where all of them fit."""


@dataclass(frozen=True, slots=True)
class FlavorLack:
    """The reason why one flavor is unsuitable."""

    reason: Unadmitted
    text: str
    what: FlavorResource | None = None
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """One flavor for some resources of a pod set."""

    flavor: str
    mode: Mode
    borrow: int
    usage: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Flavors for a whole workload; complete unless the mode is NO_FIT."""

    mode: Mode
    assignments: tuple[Assignment, ...] = ()
    usage: Mapping[FlavorResource, int] = field(default_factory=dict)
    borrow: int = 0
    """The cohort level up to which it borrows; 0 within its own quota."""
    short: frozenset[FlavorResource] = frozenset()
    """Resources that need a preemption."""
    reason: Unadmitted = Unadmitted.WAITING_FOR_QUOTA
    message: str = ""
    lacks: tuple[FlavorLack, ...] = ()
    by_topology: bool = False
    """True if one of the flavors has a topology."""

    @property
    def lacks_room(self) -> bool:
        """Return whether a flavor has quota and lacks room on nodes."""
        return any(lack.reason is Unadmitted.WAITING_FOR_ROOM for lack in self.lacks)

    def without_capacity(self, text: str) -> "Proposal":
        """Return the proposal as one with quota and without room on nodes."""
        lack = FlavorLack(Unadmitted.WAITING_FOR_ROOM, text)
        return replace(
            self,
            mode=Mode.NO_FIT,
            reason=Unadmitted.TOPOLOGY_PLACEMENT_FAILED if self.by_topology else lack.reason,
            message=text,
            short=frozenset(),
            lacks=(*self.lacks, lack),
        )


def counts(workload: WorkloadInfo) -> dict[str, int]:
    """Return how many pods of each pod set still have to run."""
    done = workload.reclaimable
    return {each.name: max(0, each.count - done.get(each.name, 0)) for each in workload.pod_sets}


def assigning(
    workload: WorkloadInfo,
    asked: Mapping[str, int],
    *,
    queue: ClusterQueueInfo,
    quotas: "Quotas",
) -> Steps[Proposal]:
    """Return the flavors for so many pods of each pod set, on the current usage of the tree.

    It pauses wherever a question about room does.
    """
    search = _FlavorSearch(workload, queue, quotas)
    for pod_set in workload.pod_sets:
        yield from search.add(pod_set, asked[pod_set.name])
    return (yield from search.proposal())


@dataclass(frozen=True, slots=True)
class Quotas:
    """The input of a search: the tree at one ClusterQueue, and what preemption could do there."""

    tree: QuotaTree
    node: QuotaNode
    view: QueueView
    options: AdmissionOptions
    oracle: Oracle
    lack: LackOfRoom | None = None
    """Finds out what pods lack on nodes; None if workloads need quota only."""
    excluded: Mapping[str, FlavorLack] = field(default_factory=dict)
    """Flavors that lack room even after a preemption, and what they lack."""

    def passing_over(self, flavors: Collection[str], text: str) -> "Quotas":
        """Return the same without these flavors."""
        reason = Unadmitted.WAITING_FOR_ROOM
        more = {flavor: FlavorLack(reason, f"flavor {flavor}: {text}") for flavor in flavors}
        return replace(self, excluded={**self.excluded, **more})

    def has_no_room(self, lack: FlavorLack) -> bool:
        """Return whether only room is lacking: quota is free without a preemption."""
        return lack.reason is Unadmitted.WAITING_FOR_ROOM and lack not in self.excluded.values()


class _FlavorSearch:
    """The pod sets of one workload, one after the other."""

    def __init__(self, workload: WorkloadInfo, queue: ClusterQueueInfo, quotas: Quotas) -> None:
        self._workload, self._queue, self._quotas = workload, queue, quotas
        self._assigned: list[Assignment] = []
        self._usage: dict[FlavorResource, int] = {}
        self._short: set[FlavorResource] = set()
        self._mode, self._borrow = Mode.FIT, 0
        self._lacks: list[tuple[PodSetInfo, list[FlavorLack]]] = []

    def add(self, pod_set: PodSetInfo, count: int) -> Steps[None]:
        """Choose flavors for one more pod set."""
        lacks: list[FlavorLack] = []
        flavors: dict[str, str] = {}
        asked = {name: amount * count for name, amount in pod_set.shape.asked.items()}
        covered = {name for group in self._queue.resource_groups for name in group.covered}
        if PODS not in covered:
            asked.pop(PODS, None)
        ignores = self._quotas.options.quota_check == "IgnoreUndeclared"
        for resource, amount in () if ignores else asked.items():
            if amount and resource not in covered:
                text = f"resource {resource} unavailable in ClusterQueue"
                lacks.append(FlavorLack(Unadmitted.NO_MATCHING_FLAVOR, text, ("", resource)))
                self._mode = Mode.NO_FIT
        for number, group in enumerate(self._queue.resource_groups):
            wanted = {name: asked[name] for name in group.covered if name in asked}
            if wanted:
                given = Assignment(pod_set.name, flavors, wanted, count)
                choice, why = yield from self._choose(pod_set, number, given)
                self._take(choice, why)
                lacks += why
                flavors |= dict.fromkeys(wanted, choice.flavor) if choice else {}
        if lacks:
            self._lacks.append((pod_set, lacks))
        usage = {name: asked[name] for name in flavors}
        self._assigned.append(Assignment(pod_set.name, flavors, usage, count))

    def proposal(self) -> Steps[Proposal]:
        """Return the proposal for all pod sets."""
        lacks = [lack for _, each in self._lacks for lack in each]
        # The worst pod set has the last word; each has the reason of its best flavor.
        best = [min(_BEST_FIRST.index(x.reason) for x in each) for _, each in self._lacks if each]
        flavors = self._quotas.view.flavors
        given = {name for each in self._assigned for name in each.flavors.values()}
        found = Proposal(
            self._mode,
            tuple(self._assigned),
            self._usage,
            self._borrow,
            short=frozenset(self._short),
            reason=_BEST_FIRST[max(best, default=0)],
            message=_message(self._lacks),
            lacks=tuple(lacks),
            by_topology=any(x in flavors and flavors[x].topology for x in given),
        )
        lack = self._quotas.lack
        if lack is None or found.mode is not Mode.FIT:
            return found
        text = yield from lack(self._workload, found.assignments)
        return found if text is None else found.without_capacity(f"quota yes; {text}")

    def _take(self, choice: Choice | None, why: list[FlavorLack]) -> None:
        if choice is None:
            self._mode = Mode.NO_FIT
            return
        self._mode = min(self._mode, choice.mode)
        self._borrow = max(self._borrow, choice.borrow)
        for resource, amount in choice.usage.items():
            what = (choice.flavor, resource)
            self._usage[what] = self._usage.get(what, 0) + amount
            if any(lack.what == what for lack in why):
                self._short.add(what)

    def _choose(
        self, pod_set: PodSetInfo, number: int, given: Assignment
    ) -> Steps[tuple[Choice | None, list[FlavorLack]]]:
        """Return the best flavor up to where the search may stop, and what the others lack.

        `given` has the flavors of other groups, and as usage the request for this group.
        """
        lacks: list[FlavorLack] = []
        best: Choice | None = None
        quotas, fungibility = self._quotas, self._queue.fungibility
        flavors = self._queue.resource_groups[number].flavors
        why_not = unfit(pod_set, self._queue, number, tree=quotas.tree, view=quotas.view)
        for listed, text in zip(flavors, why_not, strict=True):
            excluded = quotas.excluded.get(listed.flavor)
            if text is not None:
                excluded = FlavorLack(Unadmitted.NO_MATCHING_FLAVOR, text)
            if excluded is not None:
                lacks.append(excluded)
                continue
            choice, missing = self._try(listed.flavor, given.usage)
            if choice.mode is Mode.FIT and len(flavors) > 1:
                choice, missing = yield from self._with_room(choice, given)
            lacks += missing
            if choice.mode > Mode.NO_FIT and _is_better(choice, best, fungibility):
                best = choice
            if _may_stop(choice, fungibility):
                break
        return best, [] if best and best.mode is Mode.FIT else lacks

    def _try(self, flavor: str, wanted: Mapping[str, int]) -> tuple[Choice, list[FlavorLack]]:
        mode, borrow = Mode.FIT, 0
        lacks: list[FlavorLack] = []
        for resource, amount in wanted.items():
            what = (flavor, resource)
            judged, height, lack = self._judge(what, amount + self._usage.get(what, 0))
            mode, borrow = min(mode, judged), max(borrow, height)
            lacks += [lack] if lack else []
        return Choice(flavor, mode, borrow, wanted), lacks

    def _with_room(
        self, choice: Choice, given: Assignment
    ) -> Steps[tuple[Choice, list[FlavorLack]]]:
        """Skip a flavor in which the pods so far, with these, do not fit on nodes."""
        lack = self._quotas.lack
        if lack is None:
            return choice, []
        waits = self._mode is not Mode.FIT  # for victims: ask for room for these pods alone
        if waits and given.flavors:
            return choice, []
        flavors = {**given.flavors, **dict.fromkeys(choice.usage, choice.flavor)}
        before = [] if waits else self._assigned
        text = yield from lack(self._workload, [*before, replace(given, flavors=flavors)])
        if text is None:
            return choice, []
        text = f"flavor {choice.flavor}: quota yes; {text}"
        return replace(choice, mode=Mode.NO_FIT), [FlavorLack(Unadmitted.WAITING_FOR_ROOM, text)]

    def _judge(self, what: FlavorResource, amount: int) -> tuple[Mode, int, FlavorLack | None]:
        node, (flavor, resource) = self._quotas.node, what
        if not amount:
            return Mode.FIT, 0, None
        most = node.potential(what)
        if amount > most:
            over = show(resource, amount - most)
            text = (
                f"insufficient quota for {resource} in flavor {flavor}, "
                f"{over} more than its maximum capacity ({show(resource, most)})"
            )
            lack = FlavorLack(Unadmitted.EXCEEDS_MAX_QUOTA, text, what, amount - most)
            return Mode.NO_FIT, 0, lack
        height, has_part = level(node, what, amount)
        missing = amount - node.available(what)
        if missing <= 0:
            return Mode.FIT, height, None
        text = (
            f"insufficient unused quota for {resource} in flavor {flavor}, "
            f"{show(resource, missing)} more needed"
        )
        lack = FlavorLack(Unadmitted.WAITING_FOR_QUOTA, text, what, missing)
        lends = self._queue.preemption.borrow_within_cohort != "Never"
        if amount <= node.quota(what).nominal or has_part or lends:
            return *(self._quotas.oracle(what, amount) or (Mode.PREEMPT, height)), lack
        return Mode.NO_FIT, height, lack


def _may_stop(choice: Choice, fungibility: FlavorFungibility) -> bool:
    may_borrow = not choice.borrow or fungibility.when_can_borrow == "MayStopSearch"
    if choice.mode is Mode.FIT:
        return may_borrow
    found = choice.mode in (Mode.PREEMPT, Mode.RECLAIM)
    return found and may_borrow and fungibility.when_can_preempt == "MayStopSearch"


def _is_better(choice: Choice, than: Choice | None, fungibility: FlavorFungibility) -> bool:
    if than is None:
        return True
    hopeless = Mode.NO_CANDIDATES in (choice.mode, than.mode)
    if fungibility.preference == "PreemptionOverBorrowing" and not hopeless:
        return (-choice.borrow, choice.mode) > (-than.borrow, than.mode)
    return (choice.mode, -choice.borrow) > (than.mode, -than.borrow)


_BEST_FIRST = (
    Unadmitted.WAITING_FOR_ROOM,
    Unadmitted.WAITING_FOR_QUOTA,
    Unadmitted.EXCEEDS_MAX_QUOTA,
    Unadmitted.NO_MATCHING_FLAVOR,
)


def _message(lacking: list[tuple[PodSetInfo, list[FlavorLack]]]) -> str:
    parts = (
        f"couldn't assign flavors to pod set {pod_set.name}: "
        + ", ".join(dict.fromkeys(lack.text for lack in lacks))
        for pod_set, lacks in lacking
    )
    return "; ".join(parts)


def unfit(
    pod_set: PodSetInfo, queue: ClusterQueueInfo, number: int, *, tree: QuotaTree, view: QueueView
) -> tuple[str | None, ...]:
    """Return for each flavor of a resource group why it is unsuitable, or None."""
    known = tree.unfit.setdefault(pod_set.shape, {})
    found = known.get((queue.name, number))
    if found is None:
        group = queue.resource_groups[number]
        found = known[queue.name, number] = tuple(_unfit(pod_set.shape, group, view.flavors))
    if not has_topology(queue, view.flavors) and pod_set.topology is None:
        return found
    names = [quotas.flavor for quotas in queue.resource_groups[number].flavors]
    topologies = [_unfit_by_topology(pod_set, name, queue, view=view) for name in names]
    return tuple(why or other for why, other in zip(found, topologies, strict=True))


def _unfit_by_topology(
    pod_set: PodSetInfo, name: str, queue: ClusterQueueInfo, *, view: QueueView
) -> str | None:
    """Return why the pods' wishes about domains and a flavor's topology do not go together.

    Pods without wishes get a flavor with a topology only where the ClusterQueue has no others.
    """
    flavor, asked = view.flavors.get(name), pod_set.topology
    explicit = asked is not None and asked.is_explicit
    topology = flavor.topology if flavor is not None else None
    if topology is None:
        return f"flavor {name} has no topology" if explicit else None
    if asked is None or not explicit:
        flavors = [view.flavors[each] for each in queue.flavors if each in view.flavors]
        if all(each.topology for each in flavors):
            return None
        return f"flavor {name} is for pods with a topology annotation"
    found = view.topologies.get(topology)
    missing = [each for each in asked.levels if found is None or each not in found.levels]
    if missing:
        return f"topology {topology} of flavor {name} has no level {missing[0]}"
    return None


def _unfit(
    shape: Shape, group: ResourceGroupInfo, flavors: Mapping[str, FlavorInfo]
) -> Iterator[str | None]:
    there = [flavors.get(quotas.flavor) for quotas in group.flavors]
    for flavor, quotas in zip(there, group.flavors, strict=True):
        if flavor is None:
            yield f"flavor {quotas.flavor} not found"
        elif wrong := wrong_label(flavor.node_labels):
            yield f"no node can have the label {wrong} of flavor {quotas.flavor}"
        elif taint := _untolerated(shape, flavor):
            yield f"untolerated taint {taint} in flavor {quotas.flavor}"
        elif not _selects(shape, flavor):
            yield f"flavor {quotas.flavor} doesn't match node affinity"
        else:
            yield None


def _untolerated(shape: Shape, flavor: FlavorInfo) -> str | None:
    tolerations = (*shape.tolerations, *flavor.tolerations)
    for taint in flavor.node_taints:
        if not is_tolerated(taint, tolerations):
            return f"{taint.key}={taint.value}:{taint.effect}"
    return None


def _selects(shape: Shape, flavor: FlavorInfo) -> bool:
    """Return whether pods may run on the flavor's nodes, by the labels that the flavor declares.

    Its nodes may have any other label: pods that ask for one find out when they are scheduled.
    """
    labels = flavor.node_labels
    if any(labels.get(key, value) != value for key, value in shape.node_selector.items()):
        return False
    affinity = shape.affinity.node_affinity if shape.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is None:
        return True
    for term in required.node_selector_terms:
        relevant = [each for each in term.match_expressions or () if each.key in labels]
        # A term about other labels only may match nodes of each flavor.
        if not relevant or matches_term(NodeSelectorTerm(relevant), labels, name=""):
            return True
    return False
