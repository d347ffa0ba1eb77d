"""Room on nodes for workloads, found by the packer that plans gangs too.

Room is taken by: pods with a node; claims of groups; pods of admitted workloads that have no node
yet; gangs beside the queue that could start now; workloads admitted since the cycle began.
"""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any, Final, TypeVar

from extender.api.wellknown import WorkloadCondition
from extender.fit.candidates import (
    Candidates,
    Conflicts,
    Feasibility,
    Placed,
    PodShape,
    RoomLeft,
    is_feasible,
    slots,
)
from extender.fit.packer import Found, Packer, Promised, Unit, Wanted, fewest_to_leave
from extender.gang.fit import candidates
from extender.jobs.workload import pod_group_key
from extender.resources.quantity import Resources, add, show, subtract
from extender.room.answers import Answer, Answers, Key, RoomLack, key_of
from extender.room.domains import DomainPlacer, are_on, replacing
from extender.room.pods import (
    Awaited,
    HeldRoom,
    PodSetCount,
    PodShapes,
    asked,
    ending,
    members,
    within,
)
from extender.room.reserved import Afterwards, Aged, Reserved
from extender.state.cluster.records import Domain, DomainAssignment, NodeInfo, PodInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import AdmissionInfo, Assignment, Order, WorkloadInfo
from extender.state.queue.view import QueueView
from extender.steps import PIECE, Steps, at_once

_BESIDE: Final = 32
"""The most gangs outside the queue that are planned."""

_NOWHERE: Final[Promised] = {}
T = TypeVar("T")
_Taken = tuple[WorkloadInfo, Sequence[Assignment], Collection[str]]
"""A workload that was given room, its assignments, and the workloads preempted for it."""


class NodeRoom:
    """The nodes of a cluster, read at the first question; not to be kept across an `await`.

    This process knows no plans of the extender: it counts a planned gang as one outside the queue.

    Questions are answered in pieces, one question at a time. While one is `asking` nothing else may
    be asked, taken or looked at again.
    """

    def __init__(self, queues: QueueView, cluster: ClusterView) -> None:
        self._queues, self._cluster = queues, cluster
        self._feasible, self._shapes = Feasibility(cluster), PodShapes(queues, cluster)
        self._domains = DomainPlacer(queues, cluster)
        self._groups: set[str] = set()
        """The groups of admitted workloads."""
        self._packer: Packer | None = None
        self._empty: Packer | None = None
        self._ever: dict[tuple[Wanted, ...], bool] = {}
        self._placed: dict[str, list[Placed]] = {}
        self._taken: list[_Taken | None] = []
        """The room taken since the cycle began; None if it was released again."""
        self._lacks = Answers[RoomLack]()
        self._gained = Answers[Mapping[str, int]]()
        self._needed = Answers[tuple[str, ...] | None]()
        self._judgement = 0
        self._found: dict[str, Mapping[str, Resources]] = {}
        """The amounts by node that were found for each admitted workload."""
        self._seen = (-1, -1, -1, -1, -1)
        """The versions of the state that was looked at."""
        self._rest: Generator[None, None, None] | None = None
        """The holders that are still to be looked at."""
        self._keeps: dict[str, AdmissionInfo] = {}
        """The admitted workloads whose pods without a node were placed, and what they had then."""
        self._short: dict[str, Sequence[Wanted]] = {}
        """The admitted workloads of which not all pods have room; they get it first of all.

        With the pods that lack it, if these may have room one day and need no domain.
        """
        self._awaited = Awaited(queues, cluster, self._done)

        def wanted(workload: WorkloadInfo, given: Sequence[Assignment]) -> list[Wanted]:
            return self._wanted(workload, self._asked(workload, given))

        after = Afterwards(queues, cluster, shapes=self._shapes, free=self._free)
        self._reserved = Reserved(cluster, self._feasible, after=after, wanted=wanted)
        self._structure = -1
        """The structure that reservations were made for."""
        self._order: Callable[[WorkloadInfo], Order] | None = None
        self._held = HeldRoom(queues, cluster, self._shapes)
        self.version = 0
        self.asking = False
        """True if a question is being answered: pods are placed that will be taken back."""

    def begin(self) -> None:
        """Forget everything: the next question reads the nodes as they are then."""
        self._drop_rest()
        self._packer = self._empty = None
        self._lacks.clear()
        self._gained.clear()
        self._needed.clear()
        self._ever.clear()
        self._placed.clear()
        self._taken.clear()
        self._keeps.clear()
        self._short.clear()
        self._seen = self._versions()
        self.version += 1
        gone = [key for key in self._found if self._queues.admission(key) is None]
        for key in gone:
            del self._found[key]

    def prepare(self) -> Iterator[None]:
        """Read the nodes and the workloads that have room on them, once, piece by piece."""
        if self._packer is None:
            self._start()
        worked = False
        while self._packer is not None and self._rest is not None:
            yield from islice(self._rest, 1)
            worked = True
        if worked:
            yield  # the caller may look again at what has changed meanwhile

    def judge(self) -> None:
        """Begin a judgement: answers of earlier ones count only while nothing has changed."""
        self._judgement += 1

    def look_again(self) -> bool:
        """Read again what has changed, and return whether anything has."""
        assert not self.asking, "the nodes may not change while a question is being answered"
        versions = self._versions()
        if self._seen == versions:
            return False
        _, _, pods, nodes, gained = self._seen
        self._seen = versions
        self.version += 1
        if self._packer is not None:
            if gained != self._cluster.capacity_version:
                self._packer.look_anew()
            self._look_at_changes(self._packer, pods=pods, nodes=nodes)
        return True

    def _look_at_changes(self, packer: Packer, *, pods: int, nodes: int) -> None:
        moved = self._cluster.pods_since(pods)
        if moved is None:
            self._start()
            return
        names = {pod.node for pod in moved if pod.node is not None}
        others: Collection[str] = ()
        if nodes != self._cluster.nodes_version:
            others = frozenset(self._cluster.changed_since(nodes))
            names.update(others)
            packer.look_at_places()
            self._empty = None
            self._ever.clear()
        there = [self._cluster.nodes[name] for name in names if name in self._cluster.nodes]
        overdrawn = {node.name for node in there if packer.look_at(node)}
        changed = {pod.workload for pod in moved if pod.workload in self._keeps}
        for key in self._keeps:
            if self._queues.admission(key) is not self._keeps[key]:
                changed.add(key)
        if overdrawn or others:
            changed.update(self._displaced(overdrawn, others))
        changed.update(self._short)
        again = sorted(filter(None, changed))
        for key in again:
            packer.give_back(self._placed.pop(key, ()))
        for key in again:  # once none of them is in the way of another
            at_once(self._place_again(packer, key))

    def _displaced(self, overdrawn: Collection[str], others: Collection[str]) -> Iterator[str]:
        """Yield the admitted workloads that have no room any more where their pods were placed.

        A workload that waits for its victims is placed where these still are, and stays there.
        """

        def is_gone(each: Placed) -> bool:
            name = each.node.name
            gone = name in others and self._feasible.still(each.node, each.pod.shape) is None
            return gone or name in overdrawn

        for key, placed in self._placed.items():
            if self._queues.admission(key) is not None and any(map(is_gone, placed)):
                yield key

    def _place_again(self, packer: Packer, key: str) -> Steps[None]:
        """Place the pods of an admitted workload without a node as they are now, not as before."""
        packer.give_back(self._placed.pop(key, ()))
        self._keeps.pop(key, None)
        self._short.pop(key, None)
        held = self._queues.admission(key)
        if held is not None:
            self._keeps[key] = held
            workload = self._queues.workloads[key]
            counts, begun = self._awaited.without_node(workload, held)
            yield from self._keep(packer, workload, counts, begun=begun)

    def _versions(self) -> tuple[int, int, int, int, int]:
        queues, cluster = self._queues, self._cluster
        versions = cluster.version, cluster.pods_version, cluster.nodes_version
        return (queues.version, *versions, cluster.capacity_version)

    # -- room that is kept for workloads that have waited for long

    def is_due(self, now: float, waits: Callable[[str], bool], *, period: float) -> bool:
        """Return whether reservations are to be looked at again."""
        structure = self._structure == self._queues.structure_version
        if not structure:
            self._reserved.never_fit.clear()
        return not structure or self._reserved.is_due(now, waits, period=period)

    def reserving(
        self,
        aged: Sequence[Aged],
        *,
        order: Callable[[WorkloadInfo], Order],
        passing: Collection[str],
        now: float,
        period: float,
    ) -> Steps[None]:
        """Make the reservations that are due, and drop all others."""
        self._order, self._structure = order, self._queues.structure_version
        if aged:
            yield from self.prepare()
        looking = self._reserved.looking(aged, passing=passing, now=now, period=period)
        if (yield from looking):
            self.version += 1

    def kept_for(self, workload: str) -> tuple[int, int] | None:
        """Return for how many pods room is kept, and on how many nodes; None where none is."""
        found = self._reserved.known.get(workload)
        return (found.pods, len(found.nodes)) if found is not None else None

    @property
    def never_fit(self) -> Collection[Hashable]:
        """Return the equivalence keys of workloads that fitted nowhere a short time ago."""
        return self._reserved.never_fit.keys()

    @property
    def reserved(self) -> Collection[str]:
        """The workloads for which room is kept."""
        return self._reserved.known.keys()

    def _against(self, workload: WorkloadInfo) -> list[Placed]:
        """Return the room that a workload must leave to others that have waited for long."""
        if self._order is None or not self._reserved.known:
            return []
        taken = {each[0].key for each in self._taken if each}
        order, nodes = self._order(workload), self._cluster.nodes
        found = self._reserved.against(workload.key, order, without=taken)
        return [each for each in found if each.node.name in nodes]

    def found_for(self, workload: str) -> Mapping[str, Resources] | None:
        """Return the amounts by node that were found for a workload when it was admitted."""
        known, held = self._queues.workloads.get(workload), self._queues.admission(workload)
        if known is None or held is None:
            return None
        return within(self._promised(known), self._asked(known, held.assignments)) or None

    def to_grow(
        self, workload: WorkloadInfo, assignments: Sequence[Assignment], *, attempt: int
    ) -> Steps[Mapping[str, Mapping[str, str] | None]]:
        """Return by pod set the labels of the domain in which nodes are to be asked for.

        Only where its pods require one domain above the host: an autoscaler would spread the nodes.
        None where no node shows a domain yet: the node that comes for one pod does.
        The first attempt, 0, is for the domain with most room, the next ones for the others; after
        these one names none, because a domain without a node is not known here.
        """
        found: dict[str, Mapping[str, str] | None] = {}
        left = self._cluster.left.all()
        for each in self._asked(workload, assignments):
            levels = self._domains.required_levels(each)
            if not levels:
                continue
            shape, rooms = self._shapes.of_pod_set(workload, each).shape, dict[Domain, int]()
            domains = self._domains.nodes(levels).items()
            there = ((domain, node) for domain, nodes in domains for node in nodes)
            for number, (domain, node) in enumerate(there, 1):
                if number % PIECE == 0:
                    yield
                if is_feasible(shape, node):
                    room = slots(shape, left.get(node.name, {}))
                    rooms[domain] = rooms.get(domain, 0) + room
            if not rooms:
                found[each.pod_set.name] = None
                continue
            order = [*sorted(rooms, key=lambda domain: (-rooms[domain], domain)), ()]
            found[each.pod_set.name] = dict(zip(levels, order[attempt % len(order)], strict=False))
        return found

    def lack(
        self,
        workload: WorkloadInfo,
        assignments: Sequence[Assignment],
        *,
        without: Collection[str] = (),
    ) -> Steps[str | None]:
        """Return what these pods lack; None where all fit once `without` are gone."""
        yield from self.prepare()
        key = key_of(workload, assignments, without)
        known = self._lacks.get(key, workload)
        if known is None or not self._counts(known, without):
            asking = self._lack(workload, assignments, without)
            known = yield from self._ask(self._lacks, key, workload, asking=asking)
        return known.answer.text

    def located(
        self, workload: WorkloadInfo, assignments: Sequence[Assignment]
    ) -> tuple[Assignment, ...]:
        """Return the assignments with the domains that the last question found for their pods."""
        known = self._lacks.get(key_of(workload, assignments, ()), workload)
        found = known.answer.domains if known is not None else {}
        return tuple(replace(each, topology=found.get(each.name)) for each in assignments)

    def replacing(
        self, workload: WorkloadInfo, assignments: Sequence[Assignment], lost: Collection[str]
    ) -> Steps[tuple[Assignment, ...] | str]:
        """Return the assignments with other hosts for those that are lost, or what is missing."""
        yield from self.prepare()
        packer = self._packer
        assert packer is not None
        placed, others = Found(), dict[str, DomainAssignment | None]()
        concerned = [
            each
            for each in self._asked(workload, assignments)
            if each.count and each.assignment.topology and are_on(each.assignment.topology, lost)
        ]
        with self._question(), packer.undoing(placed):
            for each in concerned:
                pod = self._shapes.of_pod_set(workload, each)
                some = yield from replacing(
                    self._domains, packer, each, workload=workload, pod=pod, lost=lost
                )
                placed.placed += some.placed
                if some.missing:
                    return some.lack
                others[each.pod_set.name] = some.assignment
        return tuple(
            replace(each, topology=others.get(each.name, each.topology)) for each in assignments
        )

    def gains(
        self, workload: WorkloadInfo, assignments: Sequence[Assignment], *, without: Collection[str]
    ) -> Steps[Mapping[str, int]]:
        """Return for how many of these pods each of `without` gives room, or a part of it."""
        yield from self.prepare()
        key = key_of(workload, assignments, without)
        known = self._gained.get(key, workload)
        if known is None or not self._is_of_this_judgement(known):
            asking = self._gains(workload, assignments, without)
            known = yield from self._ask(self._gained, key, workload, asking=asking)
        return known.answer

    def needed(
        self,
        workload: WorkloadInfo,
        assignments: Sequence[Assignment],
        candidates: Sequence[str],
        *,
        without: Collection[str] = (),
    ) -> Steps[Sequence[str] | None]:
        """Return which of `candidates` have to go as well as `without` so that all pods fit.

        None where not all fit even without all of them. The first ones stay if that is possible.
        A search may take long: where the state has changed since, it is found out anew which of
        its victims are needed still, once in a judgement.
        """
        yield from self.prepare()
        name, pods, gone = key_of(workload, assignments, without)
        key = name, (pods, *candidates), gone
        known = self._needed.get(key, workload)
        if known is None or not self._is_of_this_judgement(known):
            asking = self._search(workload, assignments, candidates, without=without)
            known = yield from self._ask(self._needed, key, workload, asking=asking)
        elif known.answer and known.version != self.version and not known.checked:
            asking = self._search(workload, assignments, known.answer, without=without)
            asked = self._ask(self._needed, key, workload, asking=asking, checked=True)
            known = yield from asked
        return known.answer

    def take(
        self,
        workload: WorkloadInfo,
        assignments: Sequence[Assignment],
        *,
        without: Collection[str] = (),
    ) -> None:
        """Place the pods of an admission, or of one that waits until others have left.

        They go where the last question found room for them, or else where the next question finds
        some.
        """
        before = self.version
        self.version += 1
        self._taken.append((workload, assignments, without))
        self._found.pop(workload.key, None)
        if not without:
            self._reserved.drop(workload.key)
        packer = self._packer
        if packer is None or self._rest is not None:
            return
        known = self._lacks.get(key_of(workload, assignments, without), workload)
        if known is None or not self._is_placed(packer, known, before, without=without):
            self._rest = self._keep_taken(packer, len(self._taken) - 1)

    def let_go(self, workload: str) -> None:
        """Remove the pods of a workload, if any were placed."""
        assert not self.asking, "nothing may be given back while a question is being answered"
        again = [
            number for number, each in enumerate(self._taken) if each and each[0].key == workload
        ]
        if not again:
            return
        for number in again:
            self._taken[number] = None  # the others keep their numbers: they may be looked at later
        self.version += 1
        if self._packer is not None:
            self._packer.give_back(self._placed.pop(workload, ()))

    def _is_placed(
        self, packer: Packer, known: Answer[RoomLack], version: int, *, without: Collection[str]
    ) -> bool:
        """Place pods as an answer says, and return whether that was possible."""
        lack, key = known.answer, known.workload.key
        if lack.text is not None or without or self._promised(known.workload):
            return False
        if known.version == version and not lack.beside:
            packer.redo(lack.found)
        elif not packer.place(lack.found.placed):
            return False
        self._placed.setdefault(key, []).extend(lack.found.placed)
        self._found[key] = _by_node(lack.found.placed)
        return True

    def _asked(
        self, workload: WorkloadInfo, assignments: Sequence[Assignment]
    ) -> list[PodSetCount]:
        return asked(workload, assignments, self._done(workload))

    def _done(self, workload: WorkloadInfo) -> Mapping[str, int]:
        """Return the pods that will not start again, though they may have quota."""
        if workload.owner is None:
            return {}
        job = self._queues.job_of(workload.owner.uid, workload.meta.namespace)
        return (job.done if job is not None else None) or self._ended(workload, workload.owner.uid)

    def _ended(self, workload: WorkloadInfo, uid: str) -> Mapping[str, int]:
        """Return the pods of a Job that have succeeded, as its status will say a second later."""
        job, there = self._cluster.job(uid), self._cluster.finished(pod_group_key(workload))
        if job is None or not there or len(workload.pod_sets) != 1:
            return {}
        succeeded = sum(p.controller == uid and p.phase == "Succeeded" for p in there.values())
        return {workload.pod_sets[0].name: max(0, succeeded - job.more)}

    # -- what is there

    def _drop_rest(self) -> None:
        if self._rest is not None:
            self._rest.close()
            self._rest = None

    def _start(self) -> Packer:
        """Return a packer that has read nothing yet; what was taken and has no quota is placed."""
        self._drop_rest()

        def is_shown(workload: WorkloadInfo) -> bool:
            held = self._queues.admission(workload.key)
            return held is not None and not held.reserved_only

        self._taken = [each for each in self._taken if each and (each[2] or not is_shown(each[0]))]
        self._placed.clear()
        self._keeps.clear()
        self._short.clear()
        cluster, of_pod = self._cluster, self._shapes.of_pod
        conflicts = Conflicts(lambda node: map(of_pod, cluster.shunning(node)))
        left = RoomLeft(self._free, conflicts)
        packer = Packer(Candidates(self._feasible, self._cluster.left), left)
        self._packer, self._rest = packer, self._looks(packer)
        return packer

    def _looks(self, packer: Packer) -> Generator[None, None, None]:
        groups, workloads = set[str](), self._queues.workloads
        for number, key in enumerate([*self._queues.holders()], 1):
            if key in workloads:
                groups.add(pod_group_key(workloads[key]))
            if number % PIECE == 0:
                yield
        self._groups = groups
        yield
        for number, node in enumerate([*self._cluster.nodes.values()]):
            packer.look_at(node)
            if number % PIECE == 0:
                yield
        yield from self._place_admitted(packer)
        yield from self._place_beside(packer)
        yield from self._keep_taken(packer)

    def _keep_taken(self, packer: Packer, first: int = 0) -> Generator[None, None, None]:
        """Place the pods of what was taken, from one of them on to the last."""
        number = first
        while number < len(self._taken):
            taken, number = self._taken[number], number + 1
            if taken is None:
                continue
            workload, assignments, without = taken
            with self._question():
                back = yield from self._given_back(without, deleted=bool(without))
                with packer.without(back), packer.beside(self._against(workload)):
                    counts = self._asked(workload, assignments)
                    found = yield from self._keep(packer, workload, counts)
            if found is not None and not found.missing and not without:
                self._found.setdefault(workload.key, _by_node(found.placed))
        self._rest = None

    def _free(self, node: NodeInfo) -> Resources:
        """Return what no pod takes and no other group claims: an admitted one claims for its pods.

        Granted room is that of admitted workloads, whose pods are placed one by one.
        """
        cluster = self._cluster
        left = dict(cluster.left.all().get(node.name, {}))
        for group, claim in cluster.claims_on(node.name).items():
            if group not in self._groups:
                subtract(left, claim.amounts[node.name])
        return left

    def _place_admitted(self, packer: Packer) -> Generator[None, None, None]:
        queues = self._queues
        lacking: list[WorkloadInfo] = []
        for key in [*queues.holders()]:
            held = queues.admission(key)
            if held is not None:
                self._keeps[key] = held
                if self._awaited.without_node(queues.workloads[key], held)[0]:
                    lacking.append(queues.workloads[key])
            yield
        # A workload without promised nodes does not take those that are promised.
        lacking.sort(key=lambda each: (not self._promised(each), *_since(each)))
        for workload in lacking:
            if workload.key in self._keeps:
                yield from self._place_again(packer, workload.key)
                yield

    def _keep(
        self,
        packer: Packer,
        workload: WorkloadInfo,
        counts: Sequence[PodSetCount],
        *,
        begun: bool = False,
    ) -> Steps[Found | None]:
        """Place pods; only some of them where the others may find room one day."""
        wanted = self._wanted(workload, counts)
        if not wanted:
            return None
        promised = {name: dict(amounts) for name, amounts in self._promised(workload).items()}
        for pod in members(workload, queues=self._queues, cluster=self._cluster) if begun else ():
            if pod.node in promised:  # it has its part of the room already
                subtract(promised[pod.node], pod.shape.requests)
        with self._question():
            found, _, _ = yield from self._fill(packer, workload, counts, first=promised)
            fits = not found.missing or begun or (yield from self._could_fit(wanted))
            if not fits:
                packer.undo(found)
            elif found.placed:
                self._placed.setdefault(workload.key, []).extend(found.placed)
            if found.missing and self._queues.admission(workload.key) is not None:
                placeable = fits and not any(self._domains.concerns(x.assignment) for x in counts)
                self._short[workload.key] = found.missing if placeable else ()
        return found

    def _promised(self, workload: WorkloadInfo) -> Promised:
        """Return the room that a workload was admitted for: `serve` keeps it for its pods."""
        found = self._found.get(workload.key)
        if found is not None:
            return found
        grant = self._cluster.grants.get(pod_group_key(workload))  # of the time before a restart
        return grant.amounts if grant is not None else {}

    def _could_fit(self, wanted: Sequence[Wanted]) -> Steps[bool]:
        """Return whether all pods would fit on empty nodes."""
        key = tuple(wanted)
        if key not in self._ever:
            if self._empty is None:
                left = RoomLeft(lambda n: dict(n.allocatable), Conflicts())
                self._empty = Packer(Candidates(self._feasible, self._cluster.whole), left)
            empty = self._empty
            found = yield from empty.fill(wanted)
            empty.undo(found)
            self._ever[key] = not found.missing
        return self._ever[key]

    def _place_beside(self, packer: Packer) -> Generator[None, None, None]:
        """Place gangs that are not the queue's and are about to be planned."""
        cluster = self._cluster
        beside = (key for key in cluster.queue if key not in self._groups)
        for group in [*islice(beside, _BESIDE)]:
            yield
            pod_group = cluster.pod_group(group)
            if pod_group is None:
                continue
            missing = cluster.quorum(pod_group) - cluster.tally(group).committed
            pods = candidates(None, group, view=cluster)[:missing]
            if pods and len(pods) == missing:
                yield from self._place_whole(packer, Counter(map(self._shapes.of_pod, pods)))

    def _place_whole(self, packer: Packer, wanted: Mapping[PodShape, int]) -> Steps[None]:
        """Place all of these pods, or none."""
        with self._question():
            found = yield from packer.fill(wanted.items())
            if found.missing:
                packer.undo(found)

    # -- asking

    @contextmanager
    def _question(self) -> Iterator[None]:
        """Mark that nothing else may be asked, taken or read until this question is answered."""
        self.asking = True
        try:
            yield
        finally:
            self.asking = False

    def _ask(
        self,
        answers: Answers[T],
        key: Key,
        workload: WorkloadInfo,
        *,
        asking: Steps[T],
        checked: bool = False,
    ) -> Steps[Answer[T]]:
        """Find out an answer, and remember it as one to what was there at the beginning."""
        version, judgement = self.version, self._judgement
        answer = yield from asking
        found = Answer(workload, version, judgement, answer, checked)
        answers.keep(key, found)
        yield
        return found

    def _is_of_this_judgement(self, known: Answer[Any]) -> bool:
        return known.version == self.version or known.judgement == self._judgement

    def _counts(self, known: Answer[RoomLack], without: Collection[str]) -> bool:
        """Return whether an answer counts still.

        One of the same judgement does. Pods that may be placed at once must have their room still,
        whatever has changed; others are an opinion about a moment ago.
        """
        if known.version == self.version or not self._is_of_this_judgement(known):
            return known.version == self.version
        if known.answer.text is not None or without:
            return True
        if self._packer is None:
            return False
        with self._packer.beside(self._against(known.workload)):
            return self._packer.still_fits(known.answer.found.placed)

    def _lack(
        self, workload: WorkloadInfo, assignments: Sequence[Assignment], without: Collection[str]
    ) -> Steps[RoomLack]:
        packer = self._packer
        assert packer is not None
        with self._question():
            counts = self._asked(workload, assignments)
            back = yield from self._given_back(without, deleted=bool(without))
            beside = self._against(workload)
            with packer.without(back):
                ahead = yield from self._filling_up(packer, without)
                with packer.undoing(ahead), packer.beside(beside):
                    found, domains, text = yield from self._tried(packer, workload, counts)
        return RoomLack(text or None, found, beside=bool(beside), domains=domains)

    def _tried(
        self, packer: Packer, workload: WorkloadInfo, counts: Sequence[PodSetCount]
    ) -> Steps[tuple[Found, Mapping[str, DomainAssignment], str]]:
        """Place pods as `_fill` does, say what they lack, and take them back."""
        found, domains, text = yield from self._fill(packer, workload, counts)
        with packer.undoing(found):
            text = text or (yield from self._sentence(found, packer))
        return found, domains, text

    def _filling_up(self, packer: Packer, without: Collection[str]) -> Steps[Found]:
        """Place admitted pods that lack room: they take what others leave before any new ones.

        Otherwise a workload would have victims for room that it does not get, without end.
        """
        short = [x for key, lack in self._short.items() if key not in without for x in lack]
        return (yield from packer.fill(short)) if without and short else Found()

    def _fill(
        self,
        packer: Packer,
        workload: WorkloadInfo,
        counts: Sequence[PodSetCount],
        *,
        first: Promised = _NOWHERE,
    ) -> Steps[tuple[Found, Mapping[str, DomainAssignment], str]]:
        """Place pods: those that go to domains before the others.

        Return the domains by pod set, and what they lack, in words.
        """
        concerned = [
            each for each in counts if each.count and self._domains.concerns(each.assignment)
        ]
        if not concerned:
            found = yield from packer.fill(self._wanted(workload, counts), first=first)
            return found, {}, ""
        others = [each for each in counts if each not in concerned]
        placed, domains, lack = Found(), dict[str, DomainAssignment](), ""
        try:
            for each in concerned:
                pod = self._shapes.of_pod_set(workload, each)
                some = yield from self._domains.placing(
                    packer, workload, each, pod=pod, first=first
                )
                placed.placed += some.placed
                lack = lack or some.lack
                if some.missing:
                    placed.missing.append((pod, some.missing))
                if some.assignment is not None:
                    domains[each.pod_set.name] = some.assignment
            found = yield from packer.fill(self._wanted(workload, others), first=first)
        except BaseException:  # the pieces end early
            packer.undo(placed)
            raise
        found.placed[:0] = placed.placed
        found.missing[:0] = placed.missing
        return found, domains, lack

    def _gains(
        self, workload: WorkloadInfo, assignments: Sequence[Assignment], without: Collection[str]
    ) -> Steps[Mapping[str, int]]:
        packer, used, gains = self._packer, Counter[str](), dict[str, int]()
        assert packer is not None
        with self._question():
            back = yield from self._given_back(without, deleted=bool(without))
            counts = self._asked(workload, assignments)
            with packer.without(back), packer.beside(self._against(workload)):
                found, _, _ = yield from self._fill(packer, workload, counts)
                packer.undo(found)
            for each in found.placed:
                used[each.node.name] += each.count
            for key in without:
                its = yield from self._given_back([key])
                gains[key] = sum(used[name] for name in {each.node.name for each in its})
        return gains

    def _search(
        self,
        workload: WorkloadInfo,
        assignments: Sequence[Assignment],
        candidates: Sequence[str],
        *,
        without: Collection[str],
    ) -> Steps[tuple[str, ...] | None]:
        packer = self._packer
        assert packer is not None
        with self._question():
            wanted = self._wanted(workload, self._asked(workload, assignments))
            gone: dict[str, list[Placed]] = {}
            for each in (yield from self._given_back(without, deleted=True)):
                gone.setdefault(each.node.name, []).append(each)
            units: list[Unit] = []
            read = PIECE
            for key in candidates:
                if read >= PIECE:
                    read = 0
                    yield
                known = self._queues.workloads.get(key)
                on_nodes = self._held.on_nodes(known) if known is not None else ()
                units.append([*on_nodes, *self._placed.get(key, ())])
                read += 1 + sum(each.count for each in on_nodes)
                for each in units[-1]:
                    gone.setdefault(each.node.name, []).append(each)
            apart = packer.apart_from(gone)
            apart.put(self._against(workload))
            found = yield from fewest_to_leave(apart, wanted, units)
        return None if found is None else tuple(candidates[number] for number in found)

    def _given_back(
        self, workloads: Collection[str], *, deleted: bool = False
    ) -> Steps[list[Placed]]:
        """Return what is free on nodes when these are gone, equal pods of a node together.

        With `deleted`, when all others are gone, too, that are being deleted: a victim may have
        quota again while the pods end that it had before.

        All their pods are read in one go: a pod that ends in a pause still counts on its node until
        that is looked at again. Only what they are is found out in pieces.
        """
        placed = [each for key in workloads for each in self._placed.get(key, ())]
        pods = self._pods_given_back(workloads, deleted=deleted)
        nodes = {each.node.name: each.node for each in placed}
        counts: Counter[tuple[str, PodShape]] = Counter()
        for each in placed:
            counts[each.node.name, each.pod] += each.count
        for number, (node, pod) in enumerate(pods, 1):
            nodes.setdefault(node.name, node)
            counts[node.name, self._shapes.of_pod(pod)] += 1
            if number % PIECE == 0:
                yield
        return [Placed(nodes[name], like, count) for (name, like), count in counts.items()]

    def _pods_given_back(
        self, workloads: Collection[str], *, deleted: bool
    ) -> list[tuple[NodeInfo, PodInfo]]:
        queues, cluster = self._queues, self._cluster
        pods: list[PodInfo] = []
        for key in workloads:
            workload = queues.workloads.get(key)
            if workload is not None:
                pods += members(workload, queues=queues, cluster=cluster)
            else:
                pods += ending(key, cluster)
        if deleted:
            known = {pod.uid for pod in pods}
            pods += [pod for pod in cluster.ending if pod.uid not in known]
        there = cluster.nodes
        return [
            (there[pod.node], pod) for pod in pods if pod.node is not None and pod.node in there
        ]

    def _wanted(self, workload: WorkloadInfo, counts: Sequence[PodSetCount]) -> list[Wanted]:
        return [
            (self._shapes.of_pod_set(workload, each), each.count) for each in counts if each.count
        ]

    def _sentence(self, found: Found, packer: Packer) -> Steps[str]:
        if not found.missing:
            return ""
        wanted = found.count + sum(count for _, count in found.missing)
        text = f"room for {found.count} of {wanted}"
        there = len(self._cluster.nodes)
        usable = yield from self._feasible.usable(like.shape for like, _ in found.missing)
        if not usable:
            return f"{text}: they may use none of {there} nodes"
        on = f"{usable} node" if usable == 1 else f"{usable} nodes"
        short = yield from packer.short(found.missing)
        if not short:
            return f"{text}: none of {on} has all that one more needs"
        lacks = ", ".join(f"{show(name, n)} {name}" for name, n in sorted(short.items()))
        return f"{text}: {lacks} short on {on}"


def _by_node(placed: Sequence[Placed]) -> Mapping[str, Resources]:
    rooms: dict[str, Resources] = {}
    for each in placed:
        add(rooms.setdefault(each.node.name, {}), each.amounts)
    return rooms


def _since(workload: WorkloadInfo) -> tuple[float, str]:
    reserved = workload.condition(WorkloadCondition.QUOTA_RESERVED)
    known = reserved is not None and reserved.status == "True"
    return (reserved.transition if reserved is not None and known else float("inf"), workload.key)
