"""Which flavor each pod set gets for each resource, and whether there is quota for it now.

One flavor for all resources of a group, tried in the order in which the ClusterQueue lists them.
Every pod set counts what those before it were given.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from extender.api.queue_reasons import Unadmitted
from extender.queueing.eligibility import unfit
from extender.queueing.options import Options
from extender.queueing.quota import Node, QuotaTree, level
from extender.resources.quantity import PODS, show
from extender.state.pods import Shape
from extender.state.queues.records import (
    Assignment,
    ClusterQueueInfo,
    FlavorResource,
    Fungibility,
    PodSetInfo,
    WorkloadInfo,
)
from extender.state.queues.snapshot import QueueSnapshot
from extender.steps import Steps, at_once


class Mode(IntEnum):
    """How near quota is; the higher, the better."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    """It would take a preemption, for which there is nobody."""
    PREEMPT = 2
    RECLAIM = 3
    """Only others who borrow would have to go."""
    FIT = 4


Oracle = Callable[[FlavorResource, int], tuple[Mode, int] | None]
"""Says what preemption could do for so much of a resource: NO_CANDIDATES, PREEMPT or RECLAIM, and
how far up the tree it would borrow then. None: it is not asked before the flavors are chosen."""

LackOfRoom = Callable[[WorkloadInfo, Sequence[Assignment]], Steps[str | None]]
"""Says what pods lack on nodes; None where all of them fit."""


@dataclass(frozen=True, slots=True)
class Lack:
    """Why one flavor will not do."""

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
    """How far up the tree it has to borrow: 0 for not at all."""
    short: frozenset[FlavorResource] = frozenset()
    """What only a preemption could make room for."""
    reason: Unadmitted = Unadmitted.WAITING_FOR_QUOTA
    message: str = ""
    lacks: tuple[Lack, ...] = ()

    @property
    def lacks_room(self) -> bool:
        """Whether there is a flavor that has quota and no room."""
        return any(lack.reason is Unadmitted.WAITING_FOR_ROOM for lack in self.lacks)

    def roomless(self, text: str) -> "Proposal":
        """Return the proposal as one that quota was found for, but no room."""
        lack = Lack(Unadmitted.WAITING_FOR_ROOM, text)
        return replace(
            self,
            mode=Mode.NO_FIT,
            reason=lack.reason,
            message=text,
            short=frozenset(),
            lacks=(*self.lacks, lack),
        )


def counts(workload: WorkloadInfo) -> dict[str, int]:
    """Return how many pods of each pod set have still to run."""
    done = workload.reclaimable
    return {each.name: max(0, each.count - done.get(each.name, 0)) for each in workload.pod_sets}


def assign(
    workload: WorkloadInfo,
    asked: Mapping[str, int],
    *,
    queue: ClusterQueueInfo,
    quotas: "Quotas",
) -> Proposal:
    """Return the flavors for so many pods of each pod set, on the usage that the tree has now."""
    return at_once(assigning(workload, asked, queue=queue, quotas=quotas))


def assigning(
    workload: WorkloadInfo,
    asked: Mapping[str, int],
    *,
    queue: ClusterQueueInfo,
    quotas: "Quotas",
) -> Steps[Proposal]:
    """Return the same, with a pause wherever a question for room has one."""
    search = _Search(workload, queue, quotas)
    for pod_set in workload.pod_sets:
        yield from search.add(pod_set, asked[pod_set.name])
    return (yield from search.proposal())


@dataclass(frozen=True, slots=True)
class Quotas:
    """What a search asks: the tree at one ClusterQueue, and what preemption could do there."""

    tree: QuotaTree
    node: Node
    snapshot: QueueSnapshot
    options: Options
    oracle: Oracle
    lack: LackOfRoom | None = None
    """None where quota is enough."""
    barred: Mapping[str, Lack] = field(default_factory=dict)
    """Flavors that have no room even when others have left them, and what they lack."""

    def besides(self, flavors: Collection[str], text: str) -> "Quotas":
        """Return the same without these flavors."""
        reason = Unadmitted.WAITING_FOR_ROOM
        more = {flavor: Lack(reason, f"flavor {flavor}: {text}") for flavor in flavors}
        return replace(self, barred={**self.barred, **more})

    def has_no_room(self, lack: Lack) -> bool:
        """Return whether a lack is that of room alone: quota is there, and nobody has to go."""
        return lack.reason is Unadmitted.WAITING_FOR_ROOM and lack not in self.barred.values()


class _Search:
    """The pod sets of one workload, one after the other."""

    def __init__(self, workload: WorkloadInfo, queue: ClusterQueueInfo, quotas: Quotas) -> None:
        self._workload, self._queue, self._quotas = workload, queue, quotas
        self._assigned: list[Assignment] = []
        self._usage: dict[FlavorResource, int] = {}
        self._short: set[FlavorResource] = set()
        self._mode, self._borrow = Mode.FIT, 0
        self._lacks: list[tuple[PodSetInfo, list[Lack]]] = []

    def add(self, pod_set: PodSetInfo, count: int) -> Steps[None]:
        """Find flavors for one more pod set."""
        lacks: list[Lack] = []
        flavors: dict[str, str] = {}
        asked = self._requests(pod_set, count)
        for resource in self._uncovered(asked):
            text = f"resource {resource} unavailable in ClusterQueue"
            lacks.append(Lack(Unadmitted.NO_MATCHING_FLAVOR, text, ("", resource)))
            self._mode = Mode.NO_FIT
        for number, group in enumerate(self._queue.resource_groups):
            wanted = {name: asked[name] for name in group.covered if name in asked}
            if wanted:
                given = Assignment(pod_set.name, flavors, wanted, count)
                choice, why = yield from self._choose(pod_set.shape, number, given)
                self._take(choice, why)
                lacks += why
                flavors |= dict.fromkeys(wanted, choice.flavor) if choice else {}
        if lacks:
            self._lacks.append((pod_set, lacks))
        usage = {name: asked[name] for name in flavors}
        self._assigned.append(Assignment(pod_set.name, flavors, usage, count))

    def proposal(self) -> Steps[Proposal]:
        """Return what was found for all of them."""
        lacks = [lack for _, each in self._lacks for lack in each]
        found = Proposal(
            self._mode,
            tuple(self._assigned),
            self._usage,
            self._borrow,
            short=frozenset(self._short),
            reason=_reason([[lack.reason for lack in each] for _, each in self._lacks]),
            message=_message(self._lacks),
            lacks=tuple(lacks),
        )
        lack = self._quotas.lack
        if lack is None or found.mode is not Mode.FIT:
            return found
        text = yield from lack(self._workload, found.assignments)
        return found if text is None else found.roomless(f"quota yes; {text}")

    def _requests(self, pod_set: PodSetInfo, count: int) -> dict[str, int]:
        asked = {name: amount * count for name, amount in pod_set.shape.asked.items()}
        if not any(PODS in group.covered for group in self._queue.resource_groups):
            asked.pop(PODS, None)
        return asked

    def _uncovered(self, asked: dict[str, int]) -> Iterator[str]:
        if self._quotas.options.quota_check == "IgnoreUndeclared":
            return
        covered = {name for group in self._queue.resource_groups for name in group.covered}
        yield from (name for name, amount in asked.items() if amount and name not in covered)

    def _take(self, choice: Choice | None, why: list[Lack]) -> None:
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
        self, shape: Shape, number: int, given: Assignment
    ) -> Steps[tuple[Choice | None, list[Lack]]]:
        """Return the best flavor up to where the search may stop, and what the others lack.

        `given` has the flavors of other groups, and as usage what is wanted of this one.
        """
        lacks: list[Lack] = []
        best: Choice | None = None
        quotas, fungibility = self._quotas, self._queue.fungibility
        flavors = self._queue.resource_groups[number].flavors
        why_not = unfit(shape, self._queue, number, tree=quotas.tree, snapshot=quotas.snapshot)
        for listed, text in zip(flavors, why_not, strict=True):
            barred = quotas.barred.get(listed.flavor)
            if text is not None:
                barred = Lack(Unadmitted.NO_MATCHING_FLAVOR, text)
            if barred is not None:
                lacks.append(barred)
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

    def _try(self, flavor: str, wanted: Mapping[str, int]) -> tuple[Choice, list[Lack]]:
        mode, borrow = Mode.FIT, 0
        lacks: list[Lack] = []
        for resource, amount in wanted.items():
            what = (flavor, resource)
            judged, height, lack = self._judge(what, amount + self._usage.get(what, 0))
            mode, borrow = min(mode, judged), max(borrow, height)
            lacks += [lack] if lack else []
        return Choice(flavor, mode, borrow, wanted), lacks

    def _with_room(self, choice: Choice, given: Assignment) -> Steps[tuple[Choice, list[Lack]]]:
        """Pass over a flavor in which the pods so far, these among them, do not fit on nodes."""
        lack = self._quotas.lack
        if lack is None:
            return choice, []
        waits = self._mode is not Mode.FIT  # for others to go: these pods' room is asked for alone
        if waits and given.flavors:
            return choice, []
        flavors = {**given.flavors, **dict.fromkeys(choice.usage, choice.flavor)}
        before = [] if waits else self._assigned
        text = yield from lack(self._workload, [*before, replace(given, flavors=flavors)])
        if text is None:
            return choice, []
        text = f"flavor {choice.flavor}: quota yes; {text}"
        return replace(choice, mode=Mode.NO_FIT), [Lack(Unadmitted.WAITING_FOR_ROOM, text)]

    def _judge(self, what: FlavorResource, amount: int) -> tuple[Mode, int, Lack | None]:
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
            return Mode.NO_FIT, 0, Lack(Unadmitted.EXCEEDS_MAX_QUOTA, text, what, amount - most)
        height, has_part = level(node, what, amount)
        missing = amount - node.available(what)
        if missing <= 0:
            return Mode.FIT, height, None
        text = (
            f"insufficient unused quota for {resource} in flavor {flavor}, "
            f"{show(resource, missing)} more needed"
        )
        lack = Lack(Unadmitted.WAITING_FOR_QUOTA, text, what, missing)
        lends = self._queue.preemption.borrow_within_cohort != "Never"
        if amount <= node.quota(what).nominal or has_part or lends:
            return *(self._quotas.oracle(what, amount) or (Mode.PREEMPT, height)), lack
        return Mode.NO_FIT, height, lack


def _may_stop(choice: Choice, fungibility: Fungibility) -> bool:
    may_borrow = not choice.borrow or fungibility.when_can_borrow == "MayStopSearch"
    if choice.mode is Mode.FIT:
        return may_borrow
    found = choice.mode in (Mode.PREEMPT, Mode.RECLAIM)
    return found and may_borrow and fungibility.when_can_preempt == "MayStopSearch"


def _is_better(choice: Choice, than: Choice | None, fungibility: Fungibility) -> bool:
    if than is None:
        return True
    helpless = Mode.NO_CANDIDATES
    if fungibility.preference == "PreemptionOverBorrowing" and helpless not in (
        choice.mode,
        than.mode,
    ):
        return (-choice.borrow, choice.mode) > (-than.borrow, than.mode)
    return (choice.mode, -choice.borrow) > (than.mode, -than.borrow)


_HOPE = (
    Unadmitted.WAITING_FOR_ROOM,
    Unadmitted.WAITING_FOR_QUOTA,
    Unadmitted.EXCEEDS_MAX_QUOTA,
    Unadmitted.NO_MATCHING_FLAVOR,
)


def _reason(lacking: list[list[Unadmitted]]) -> Unadmitted:
    """Return the reason of the pod set with the least hope; each has that of its best flavor."""
    best = [min(map(_HOPE.index, reasons)) for reasons in lacking if reasons]
    return _HOPE[max(best, default=0)]


def _message(lacking: list[tuple[PodSetInfo, list[Lack]]]) -> str:
    parts = (
        f"couldn't assign flavors to pod set {pod_set.name}: "
        + ", ".join(dict.fromkeys(lack.text for lack in lacks))
        for pod_set, lacks in lacking
    )
    return "; ".join(parts)
