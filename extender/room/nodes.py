"""Room on nodes for workloads, by the same order that gangs are planned in.

What counts as taken: pods with a node, and those that a claim keeps room for; the pods of admitted
workloads that have no node yet; gangs beside the queue that could start now; and whatever was
admitted since the cycle began.
"""

from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import Final

from extender.gang import plan
from extender.jobs.gang import group_of
from extender.resources.quantity import Resources, add, show, subtract
from extender.room.answers import Answer, Answers, Gains, key_of
from extender.room.awaited import Awaited
from extender.room.kinds import Kinds
from extender.room.members import ending, members
from extender.room.occupied import Like, Occupied
from extender.room.packing import Found, Packing, Placed, Wanted
from extender.room.places import Places
from extender.room.promises import within
from extender.room.unplaced import Some, asked
from extender.state.nodes import NodeInfo
from extender.state.queues.records import Admission, Assignment, WorkloadInfo
from extender.state.queues.snapshot import QueueSnapshot
from extender.state.snapshot import Snapshot
from extender.steps import Steps, at_once

_NODES_AT_ONCE: Final = 500
_HOLDERS_AT_ONCE: Final = 20
_PODS_AT_ONCE: Final = 1000
_BESIDE: Final = 32
"""How many gangs that are not the queue's are planned, at most."""

_Taken = tuple[WorkloadInfo, Sequence[Assignment], Collection[str]]
"""A workload that was given room, its flavors, and the workloads that leave for it."""


class NodeRoom:
    """The nodes of a cluster, read when somebody asks; not to be kept across an `await`.

    What a plan has reserved only `serve` knows: here its gang is one beside the queue.

    Questions are answered in pieces, one question at a time. While one is `asking` nothing else may
    be asked, taken or looked at again.
    """

    def __init__(self, queues: QueueSnapshot, cluster: Snapshot) -> None:
        self._queues, self._cluster = queues, cluster
        self._places, self._kinds = Places(cluster), Kinds(queues, cluster)
        self._groups: set[str] = set()
        """Those of admitted workloads."""
        self._packing: Packing | None = None
        self._empty: Packing | None = None
        self._ever: dict[tuple[Wanted, ...], bool] = {}
        self._placed: dict[str, list[Placed]] = {}
        self._taken: list[_Taken | None] = []
        """What was taken since the cycle began; None where it was let go."""
        self._answers = Answers()
        self._found: dict[str, Mapping[str, Resources]] = {}
        """By admitted workload: what was found for it of which nodes."""
        self._seen = (-1, -1, -1, -1)
        """The versions of the state that was looked at."""
        self._rest: Generator[None, None, None] | None = None
        """What is still to be looked at."""
        self._keeps: dict[str, Admission] = {}
        """The admitted workloads whose pods without a node were placed, and what they had then."""
        self._short: set[str] = set()
        """The admitted workloads of which not all pods have room; they get it first of all."""
        self._awaited = Awaited(queues, cluster, self._done)
        self.version = 0
        self.asking = False
        """Whether pods are placed on trial, so that nothing else may be done."""

    def begin(self) -> None:
        """Look at the nodes anew from now on."""
        self._drop_rest()
        self._packing = self._empty = None
        self._answers.clear()
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
        """Look at the nodes and at what keeps room on them, piece by piece; at all of it once."""
        if self._packing is None:
            self._start()
        worked = False
        while self._packing is not None and self._rest is not None:
            yield from islice(self._rest, 1)
            worked = True
        if worked:
            yield  # what has changed while it was asking can be looked at

    def judge(self) -> None:
        """Begin a judgement: what others were answered counts only while nothing has changed."""
        self._answers.judgement += 1

    def look_again(self) -> bool:
        """Look again at what has changed, and return whether anything has."""
        assert not self.asking, "the nodes may not change while pods are placed on trial"
        versions = self._versions()
        if self._seen == versions:
            return False
        _, _, pods, nodes = before = self._seen
        self._seen = versions
        self.version += 1
        if self._packing is not None and versions != before:
            self._look_at_changes(self._packing, pods=pods, nodes=nodes)
        return True

    def _look_at_changes(self, packing: Packing, *, pods: int, nodes: int) -> None:
        moved = self._cluster.pods_since(pods)
        if moved is None:
            self._start()
            return
        names = {pod.node for pod in moved if pod.node is not None}
        others: Collection[str] = ()
        if nodes != self._cluster.nodes_version:
            others = frozenset(self._cluster.changed_since(nodes))
            names.update(others)
            packing.look_at_places()
            self._empty = None
            self._ever.clear()
        there = [self._cluster.nodes[name] for name in names if name in self._cluster.nodes]
        overdrawn = {node.name for node in there if packing.look_at(node)}
        changed = {pod.workload for pod in moved if pod.workload in self._keeps}
        for key in self._keeps:
            if self._queues.admission(key) is not self._keeps[key]:
                changed.add(key)
        if overdrawn or others:
            changed.update(self._displaced(overdrawn, others))
        changed.update(self._short)
        again = sorted(filter(None, changed))
        for key in again:
            packing.give_back(self._placed.pop(key, ()))
        for key in again:  # once none of them is in the way of another
            at_once(self._place_again(packing, key))

    def _displaced(self, overdrawn: Collection[str], others: Collection[str]) -> Iterator[str]:
        """Yield the admitted workloads that have no room any more where their pods were placed.

        A workload that waits for its victims is placed where these still are, and stays there.
        """

        def is_gone(each: Placed) -> bool:
            name = each.node.name
            gone = name in others and self._places.still(each.node, each.like.shape) is None
            return gone or name in overdrawn

        for key, placed in self._placed.items():
            if self._queues.admission(key) is not None and any(map(is_gone, placed)):
                yield key

    def _place_again(self, packing: Packing, key: str) -> Steps[None]:
        """Give back what is kept for an admitted workload, and keep what it lacks now."""
        packing.give_back(self._placed.pop(key, ()))
        self._keeps.pop(key, None)
        self._short.discard(key)
        held = self._queues.admission(key)
        if held is not None:
            self._keeps[key] = held
            workload = self._queues.workloads[key]
            some, begun = self._awaited.of(workload, held)
            yield from self._keep(packing, workload, some, begun=begun)

    def _versions(self) -> tuple[int, int, int, int]:
        queues, cluster = self._queues, self._cluster
        return queues.version, cluster.version, cluster.pods_version, cluster.nodes_version

    def found_for(self, workload: str) -> Mapping[str, Resources] | None:
        """Return the amounts by node that were found for a workload when it was admitted."""
        known, held = self._queues.workloads.get(workload), self._queues.admission(workload)
        if known is None or held is None:
            return None
        return within(self._promised(known), self._asked(known, held.assignments)) or None

    def lack(
        self,
        workload: WorkloadInfo,
        given: Sequence[Assignment],
        *,
        without: Collection[str] = (),
    ) -> Steps[str | None]:
        """Return what these pods lack; None where all fit once `without` are gone."""
        yield from self.prepare()
        key = key_of(workload, given, without)
        known = self._answers.lack(key, workload)
        if known is None or not self._counts(known, without):
            known = yield from self._answer(workload, given, without)
            self._answers.keep(key, known)
            yield
        return known.text

    def gains(
        self, workload: WorkloadInfo, given: Sequence[Assignment], *, without: Collection[str]
    ) -> Steps[Mapping[str, int]]:
        """Return for how many of these pods each of `without` gives room, or a part of it."""
        yield from self.prepare()
        key = key_of(workload, given, without)
        known = self._answers.gains(key, workload, self.version)
        if known is None:
            version, judgement = self.version, self._answers.judgement
            known = yield from self._gains(workload, given, without)
            self._answers.keep_gains(key, Gains(workload, version, judgement, known))
            yield
        return known

    def take(
        self,
        workload: WorkloadInfo,
        given: Sequence[Assignment],
        *,
        without: Collection[str] = (),
    ) -> None:
        """Count the pods of an admission as placed, or of one that comes when others have left.

        They go where the last question found room for them, or else where there is room at the
        next question.
        """
        before = self.version
        self.version += 1
        self._taken.append((workload, given, without))
        self._found.pop(workload.key, None)
        packing = self._packing
        if packing is None or self._rest is not None:
            return
        known = self._answers.lack(key_of(workload, given, without), workload)
        if known is None or not self._is_placed(packing, known, before, without=without):
            self._rest = self._keep_taken(packing, len(self._taken) - 1)

    def let_go(self, workload: str) -> None:
        """Count the pods of a workload as placed no more; nothing where none were."""
        assert not self.asking, "nothing may be given back while pods are placed on trial"
        again = [
            number for number, each in enumerate(self._taken) if each and each[0].key == workload
        ]
        if not again:
            return
        for number in again:
            self._taken[number] = None  # the others keep their numbers: they may be looked at later
        self.version += 1
        if self._packing is not None:
            self._packing.give_back(self._placed.pop(workload, ()))

    def _is_placed(
        self, packing: Packing, known: Answer, version: int, *, without: Collection[str]
    ) -> bool:
        """Place pods as an answer says, and return whether that was possible."""
        if known.text is not None or without or self._promised(known.workload):
            return False
        if known.version == version:
            packing.redo(known.found)
        elif not packing.place(known.found.placed):
            return False
        key = known.workload.key
        self._placed.setdefault(key, []).extend(known.found.placed)
        self._found[key] = _by_node(known.found.placed)
        return True

    def _asked(self, workload: WorkloadInfo, given: Sequence[Assignment]) -> list[Some]:
        return asked(workload, given, self._done(workload))

    def _done(self, workload: WorkloadInfo) -> Mapping[str, int]:
        """Return the pods that will not start again, though they may have quota."""
        if workload.owner is None:
            return {}
        job = self._queues.job_of(workload.owner.uid, workload.meta.namespace)
        return (job.done if job is not None else None) or self._ended(workload, workload.owner.uid)

    def _ended(self, workload: WorkloadInfo, uid: str) -> Mapping[str, int]:
        """Return the pods of a Job that have succeeded, as it will tell a second later."""
        job, there = self._cluster.job(uid), self._cluster.finished(group_of(workload))
        if job is None or not there or len(workload.pod_sets) != 1:
            return {}
        succeeded = sum(p.controller == uid and p.phase == "Succeeded" for p in there.values())
        return {workload.pod_sets[0].name: max(0, succeeded - job.more)}

    # -- what is there

    def _drop_rest(self) -> None:
        if self._rest is not None:
            self._rest.close()
            self._rest = None

    def _start(self) -> Packing:
        """Begin to look at everything; what was taken is still to be kept, unless it has quota."""
        self._drop_rest()
        has_quota = self._queues.admission
        self._taken = [
            each for each in self._taken if each and (each[2] or not has_quota(each[0].key))
        ]
        self._placed.clear()
        self._keeps.clear()
        self._short.clear()
        packing = Packing(self._places, self._free, Occupied(self._alone))
        self._packing, self._rest = packing, self._looks(packing)
        return packing

    def _looks(self, packing: Packing) -> Generator[None, None, None]:
        self._read_groups()
        yield
        for number, node in enumerate([*self._cluster.nodes.values()]):
            packing.look_at(node)
            if number % _NODES_AT_ONCE == 0:
                yield
        yield from self._place_admitted(packing)
        yield from self._place_beside(packing)
        yield from self._keep_taken(packing)

    def _keep_taken(self, packing: Packing, first: int = 0) -> Generator[None, None, None]:
        """Keep room for what was taken, from one of them on to the last."""
        number = first
        while number < len(self._taken):
            taken = self._taken[number]
            if taken is not None:
                workload, given, without = taken
                found = yield from self._keep_besides(packing, workload, given, without=without)
                if found is not None and not found.missing and not without:
                    self._found.setdefault(workload.key, _by_node(found.placed))
            number += 1
        self._rest = None

    def _read_groups(self) -> None:
        queues = self._queues
        self._groups = {group_of(queues.workloads[key]) for key in queues.holders()}
        # What was found for one that has lost its quota since is everybody's.
        waiting = map(group_of, queues.workloads.values()) if self._cluster.grants else ()
        self._queued = self._groups.union(waiting)

    def _free(self, node: NodeInfo) -> Resources:
        """Return what nobody has or claims; a workload's own claim is its unplaced pods'.

        Granted room is that of admitted workloads, whose pods are placed one by one.
        """
        left, cluster = dict(node.allocatable), self._cluster
        subtract(left, cluster.used(node.name))
        for group, claim in cluster.claims_on(node.name).items():
            if group not in self._groups:
                subtract(left, claim.rooms[node.name])
        return left

    def _alone(self) -> Iterator[tuple[str, Like]]:
        """Yield the pods that do not share their node with all others."""
        for pod in self._cluster.pods.values():
            if pod.node is not None and pod.shape.one_per_node:
                yield pod.node, self._kinds.of_pod(pod)

    def _place_admitted(self, packing: Packing) -> Generator[None, None, None]:
        queues = self._queues
        some: list[WorkloadInfo] = []
        for number, key in enumerate([*queues.holders()]):
            held = queues.admission(key)
            if held is not None:
                self._keeps[key] = held
                if self._awaited.of(queues.workloads[key], held)[0]:
                    some.append(queues.workloads[key])
            if number % _HOLDERS_AT_ONCE == 0:
                yield
        # Who may have other nodes as well does not take those that are promised.
        some.sort(key=lambda each: (not self._promised(each), *_since(each)))
        for workload in some:
            if workload.key in self._keeps:
                yield from self._place_again(packing, workload.key)
                yield

    def _keep(
        self,
        packing: Packing,
        workload: WorkloadInfo,
        some: Sequence[Some],
        *,
        begun: bool = False,
    ) -> Steps[Found | None]:
        """Keep room for pods; for some of them as long as the others may find room one day."""
        wanted = self._wanted(workload, some)
        if not wanted:
            return None
        promised = self._still_promised(workload) if begun else self._promised(workload)
        self.asking = True
        try:
            found = yield from packing.filling(wanted, first=promised)
            if found.placed:
                self._placed.setdefault(workload.key, []).extend(found.placed)
            if found.missing and self._queues.admission(workload.key) is not None:
                self._short.add(workload.key)
            if found.missing and not begun and not (yield from self._could_fit(wanted)):
                packing.undo(found)
                self._forget(workload.key, found)
        finally:
            self.asking = False
        return found

    def _forget(self, key: str, found: Found) -> None:
        """Forget what was placed last for a workload."""
        kept = self._placed.get(key, [])
        del kept[len(kept) - len(found.placed) :]

    def _promised(self, workload: WorkloadInfo) -> Mapping[str, Resources]:
        """Return the room that a workload was admitted for: `serve` keeps it for its pods."""
        found = self._found.get(workload.key)
        if found is not None:
            return found
        grant = self._cluster.grants.get(group_of(workload))  # of the time before a restart
        return grant.rooms if grant is not None else {}

    def _still_promised(self, workload: WorkloadInfo) -> Mapping[str, Resources]:
        """Return what of that room the pods do not have yet which are there."""
        left = {name: dict(amounts) for name, amounts in self._promised(workload).items()}
        for pod in members(workload, queues=self._queues, cluster=self._cluster):
            if pod.node in left:
                subtract(left[pod.node], pod.shape.requests)
        return left

    def _keep_besides(
        self,
        packing: Packing,
        workload: WorkloadInfo,
        given: Sequence[Assignment],
        *,
        without: Collection[str],
    ) -> Steps[Found | None]:
        """Keep room for pods where others are now."""
        self.asking = True
        try:
            back = yield from self._given_back(without)
            with packing.without(back) if back else nullcontext():
                return (yield from self._keep(packing, workload, self._asked(workload, given)))
        finally:
            self.asking = False

    def _could_fit(self, wanted: Sequence[Wanted]) -> Steps[bool]:
        """Return whether all pods would fit on empty nodes."""
        key = tuple(wanted)
        if key not in self._ever:
            if self._empty is None:
                self._empty = Packing(self._places, lambda n: dict(n.allocatable), Occupied())
            empty = self._empty
            found = yield from empty.filling(wanted)
            empty.undo(found)
            self._ever[key] = not found.missing
        return self._ever[key]

    def _place_beside(self, packing: Packing) -> Generator[None, None, None]:
        """Keep room for gangs that are not the queue's and are about to be planned."""
        cluster = self._cluster
        beside = (key for key in cluster.queue if key not in self._groups)
        for group in [*islice(beside, _BESIDE)]:
            yield
            pod_group = cluster.pod_group(group)
            if pod_group is None:
                continue
            missing = cluster.quorum(pod_group) - cluster.tally(group).committed
            pods = plan.candidates(None, group, snapshot=cluster)[:missing]
            if pods and len(pods) == missing:
                yield from self._place_whole(packing, Counter(map(self._kinds.of_pod, pods)))

    def _place_whole(self, packing: Packing, kinds: Mapping[Like, int]) -> Steps[None]:
        """Place all of these pods, or none."""
        self.asking = True
        try:
            found = yield from packing.filling([*kinds.items()])
            if found.missing:
                packing.undo(found)
        finally:
            self.asking = False

    # -- asking

    def _counts(self, known: Answer, without: Collection[str]) -> bool:
        """Return whether an answer counts still.

        One of the same judgement does. Pods that may be placed at once must have their room still,
        whatever has changed; others are an opinion about a moment ago.
        """
        if known.version == self.version:
            return True
        if known.judgement != self._answers.judgement:
            return False
        if known.text is not None or without:
            return True
        return self._packing is not None and self._packing.still_fits(known.found.placed)

    def _answer(
        self, workload: WorkloadInfo, given: Sequence[Assignment], without: Collection[str]
    ) -> Steps[Answer]:
        packing, version, judgement = self._packing, self.version, self._answers.judgement
        assert packing is not None
        self.asking = True
        try:
            wanted = self._wanted(workload, self._asked(workload, given))
            back = yield from self._given_back(without)
            with packing.without(back) if back else nullcontext():
                found = yield from packing.filling(wanted)
                try:
                    text = (yield from self._sentence(found, packing)) if found.missing else None
                finally:
                    packing.undo(found)
        finally:
            self.asking = False
        return Answer(workload, version, judgement, text, found)

    def _gains(
        self, workload: WorkloadInfo, given: Sequence[Assignment], without: Collection[str]
    ) -> Steps[Mapping[str, int]]:
        packing, used, gains = self._packing, Counter[str](), dict[str, int]()
        assert packing is not None
        self.asking = True
        try:
            back = yield from self._given_back(without)
            with packing.without(back):
                found = yield from packing.filling(
                    self._wanted(workload, self._asked(workload, given))
                )
                packing.undo(found)
            for each in found.placed:
                used[each.node.name] += each.count
            for key in without:
                its = yield from self._given_back([key])
                gains[key] = sum(used[name] for name in {each.node.name for each in its})
        finally:
            self.asking = False
        return gains

    def _given_back(self, workloads: Collection[str]) -> Steps[list[Placed]]:
        """Return what is free on nodes when these are gone, equal pods of a node together.

        A pod that ends in a pause is not there any more, but still counts on its node until that is
        looked at again. So there is a pause only after many pods.
        """
        read = 0
        counts: Counter[tuple[str, Like]] = Counter()
        there: dict[str, NodeInfo] = {}
        queues, cluster = self._queues, self._cluster
        for key in workloads:
            workload = queues.workloads.get(key)
            for each in self._placed.get(key, ()) if workload is not None else ():
                there[each.node.name] = each.node
                counts[each.node.name, each.like] += each.count
            pods = (
                members(workload, queues=queues, cluster=cluster)
                if workload is not None
                else ending(key, cluster)
            )
            for pod in pods:
                node = cluster.nodes.get(pod.node or "")
                if node is not None:
                    there.setdefault(node.name, node)
                    counts[node.name, self._kinds.of_pod(pod)] += 1
                    read += 1
            if read >= _PODS_AT_ONCE:
                read = 0
                yield
        return [Placed(there[name], like, count) for (name, like), count in counts.items()]

    def _wanted(self, workload: WorkloadInfo, some: Sequence[Some]) -> list[Wanted]:
        return [(self._kinds.of(workload, each), each.count) for each in some if each.count]

    def _sentence(self, found: Found, packing: Packing) -> Steps[str]:
        wanted = found.count + sum(count for _, count in found.missing)
        text = f"room for {found.count} of {wanted}"
        there = len(self._cluster.nodes)
        places = {self._places.of(like.shape) for like, _ in found.missing}
        usable = len({node.name for place in places for node in place.nodes})
        if not usable:
            return f"{text}: they may use none of {there} nodes"
        on = f"{usable} node" if usable == 1 else f"{usable} nodes"
        short = yield from packing.short(found.missing)
        if not short:
            return f"{text}: none of {on} has all that one more needs"
        lacks = ", ".join(f"{show(name, n)} {name}" for name, n in sorted(short.items()))
        return f"{text}: {lacks} short on {on}"


def _by_node(placed: Sequence[Placed]) -> Mapping[str, Resources]:
    rooms: dict[str, Resources] = {}
    for each in placed:
        amounts = {name: n * each.count for name, n in each.like.shape.requests.items()}
        add(rooms.setdefault(each.node.name, {}), amounts)
    return rooms


def _since(workload: WorkloadInfo) -> tuple[float, str]:
    reserved = workload.condition("QuotaReserved")
    known = reserved is not None and reserved.status == "True"
    return (reserved.transition if reserved is not None and known else float("inf"), workload.key)
