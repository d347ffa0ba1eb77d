"""Makes the plans of groups, and keeps their room.

A plan that takes longer than one call of filter may is finished by `Planner` between other work.
`UnaskedPlans` plans groups before kube-scheduler asks for one of their members, and `DryRounds`
holds back the planned members of a gang that claims volumes or devices.
"""

import asyncio
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice

import structlog
from cachetools import LRUCache

from extender.api.reasons import TOO_LARGE, Reason
from extender.fit.candidates import Feasibility
from extender.gang import gates, hold
from extender.gang.filter import (
    beside_volumes,
    classes_of,
    lacking_claims,
    match_volumes,
    may_be_deallocated,
)
from extender.gang.fit import Fit, Offer, candidates
from extender.gang.verdicts import FilterVerdict, OneNode, Refuse, about
from extender.kube.claims import ClaimWriter
from extender.kube.errors import ApiError
from extender.permit.group_memory import GroupMemory, Since
from extender.permit.timing import (
    BACK_OFF_SECONDS,
    CHECK_SECONDS,
    LATE_SECONDS,
    LOOK_SECONDS,
    PLAN_SECONDS,
    REMEMBERED,
    REST,
    SLICE_PODS,
    TRIES,
)
from extender.runtime.clock import SLICE_SECONDS, Clock, advance, in_turns
from extender.runtime.controller import WorkQueue
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as ev
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import NodeInfo, PodGroupInfo, PodInfo, VolumeInfo
from extender.state.cluster.store import Cluster
from extender.steps import Steps

_log = structlog.get_logger(__name__)


class Plans:
    """The plans of groups, and the room that is kept for them."""

    def __init__(self, cluster: Cluster, verdicts: GroupMemory) -> None:
        self.verdicts = verdicts
        self.clock = verdicts.clock
        self.planner = Planner(self.clock, verdicts.rest)
        self.schedulers: set[str] = set()
        """Names of the schedulers that ask us."""
        self._cluster = cluster
        self._view = cluster.view()
        self._feasible = Feasibility(self._view)

    def plan(self, pod: PodInfo, pod_group: PodGroupInfo, offer: Offer) -> Fit | Refuse:
        """Return where a member that is tried and its siblings go, or why they cannot.

        A plan that takes long is finished between other work, and a refusal says so meanwhile.
        """
        group, verdicts = pod_group.key, self.verdicts
        refusal = self._refusal_without_plan(pod, group, offer)
        if refusal is not None:
            return refusal
        permitted = verdicts.is_permitted(group)
        steps = gates.plan_gang(pod, pod_group, view=self._view, offer=offer, permitted=permitted)
        verdicts.starts.planning(group)
        since = verdicts.since(group)
        answer = advance(steps, self.clock, seconds=PLAN_SECONDS)
        if answer is None:
            self.planner.go_on(group, self._finish(group, steps, since=since, asked=True))
            return _is_being_planned(group)
        return self._kept_later(group, answer.value) or answer.value

    def _refusal_without_plan(self, pod: PodInfo, group: str, offer: Offer) -> Refuse | None:
        """Return the refusal of a member for which no plan is made now; None if one is due."""
        verdicts = self.verdicts
        if self.planner.is_busy(group):
            return _is_being_planned(group)
        stands = self.standing(pod, group, offer.nodes)
        if stands is not None or not verdicts.rest_left(group):
            return stands
        # This is not a failure: the last one may not hold with room that came since, and the end of
        # the rest has to wake the pod. `PodFilter` still answers in the words of the last failure.
        text = f"{about(group)}no plan was found in time; another one is made later"
        return Refuse(Reason.PLANNING, text)

    def standing(self, pod: PodInfo, group: str, sent: Sequence[str]) -> Refuse | None:
        """Return the refusal of a group if another plan would repeat it, in the words of the last.

        It would not if kube-scheduler found nodes that our own rules exclude.
        """
        stands = self.verdicts.no_room(group)
        if stands is None:
            return None
        if stands.reason in TOO_LARGE:
            return replace(stands, again=True)
        last = self.verdicts.last_failure(group)
        if last is None or last.lack is None or pod.shape not in last.lack.shapes:
            return None
        if not self._feasible.of(pod.shape).allows_all(sent, self._view.nodes):
            return None
        return replace(last, lack=stands.lack, again=True)

    def plan_ahead(
        self,
        pod_group: PodGroupInfo,
        *,
        schedulers: Collection[str],
        seconds: float = PLAN_SECONDS,
    ) -> float:
        """Keep room for a group before its own turn, if there is some: `gates.plan_unasked`.

        A plan that needs more than `seconds` goes on between other work. Return the seconds that
        were spent in vain.
        """
        group, began = pod_group.key, self.clock.monotonic()
        if self.planner.is_busy(group):
            return 0.0
        self.verdicts.starts.planning(group)
        since = self.verdicts.since(group)
        # In strict order the groups behind one that never fits have to know that it does not.
        explains = self.verdicts.options.strict_order
        steps = gates.plan_unasked(
            pod_group, view=self._view, schedulers=schedulers, explains=explains
        )
        answer = advance(steps, self.clock, seconds=seconds)
        spent = self.clock.monotonic() - began
        if answer is None:
            self.planner.go_on(group, self._finish(group, steps, since=since))
            return spent
        found = answer.value
        if isinstance(found, Fit):
            if self._kept_later(group, found) is None:
                self.reserve(group, found.placements)
            return 0.0
        if found is not None:
            self.verdicts.found_no_room(group, found)
        return spent

    def plans_before(self, pod_group: PodGroupInfo) -> bool:
        """Return whether a plan of a group that goes before this one is being made."""
        found = map(self._view.pod_group, self.planner.planned)
        own = self._view.turn(pod_group)
        return any(each is not None and self._view.turn(each) < own for each in found)

    def had_no_room(self, pod_group: PodGroupInfo) -> bool:
        """Return whether planning a group is not worth another look yet."""
        group = pod_group.key
        verdicts = self.verdicts
        known = verdicts.has_no_room(group) or verdicts.denied(group) is not None
        return known or self.planner.is_busy(group)

    def never_starts(self, pod_group: PodGroupInfo) -> bool:
        """Return whether a group never fits or has no pods of ours, so that it holds up none."""
        members = self._view.members(pod_group.key)
        ours = any(pod.scheduler in self.schedulers for pod in members)
        return not ours or self.verdicts.never_fits(pod_group.key) is not None

    def reserve(self, group: str, placements: Mapping[str, str]) -> None:
        """Keep room for members, and remember that their group has its minResources."""
        self.verdicts.starts.planned(group, len(placements))
        self._cluster.apply(ev.Planned(placements))
        pod_group = self._view.pod_group(group)
        if pod_group is not None:
            self.verdicts.note_min_resources(pod_group)

    def _kept_later(self, group: str, found: Fit | Refuse) -> Refuse | None:
        """Keep the room of a large plan in several steps; return the answer until then."""
        if isinstance(found, Refuse) or len(found.placements) <= SLICE_PODS:
            return None
        self.planner.go_on(group, self._keep(group, found))
        return _is_being_planned(group)

    def _finish(
        self,
        group: str,
        steps: Steps[Fit | Refuse | None] | Steps[Fit | Refuse],
        *,
        since: Since,
        asked: bool = False,
    ) -> Steps[bool]:
        """Finish a plan, then keep its room or remember its refusal.

        A refusal of a group that has changed meanwhile is dropped: the group is planned once more.
        """
        found = yield from steps
        if isinstance(found, Fit):
            return (yield from self._keep(group, found))
        if not self.verdicts.is_as_it_was(group, since):
            return True
        if found is not None and asked:
            self.verdicts.failed(group, found, since=since)
        elif found is not None:
            self.verdicts.found_no_room(group, found, since=since)
        return False

    def _keep(self, group: str, found: Fit) -> Steps[bool]:
        """Keep the room of a plan, part by part, and mend it if others took some of it first."""
        self.planner.count_anew(group)
        view, kept, good = self._view, set[str](), False
        try:
            for _ in range(TRIES):
                yield from self._keep_parts(group, found, kept)
                pod_group, pods = view.pod_group(group), candidates(None, group, view=view)
                good = pod_group is not None and (
                    view.tally(group).committed >= view.quorum(pod_group)
                )
                if good or pod_group is None or not pods:
                    break
                again = yield from gates.plan_gang(pods[0], pod_group, view=view)
                if isinstance(again, Refuse):
                    break
                found = again
        finally:  # also if it is given up half-way
            if not good:
                # The rest would keep its room until the gang's time-out.
                planned = [uid for uid in kept if view.planned_node(uid) is not None]
                self._cluster.apply(ev.Unreserved(planned))
        return good

    def _keep_parts(self, group: str, found: Fit, kept: set[str]) -> Steps[None]:
        view = self._view
        every = sorted(found.placements.items(), key=lambda each: each[1])
        known = ((view.pods.get(uid), node) for uid, node in every)
        there = iter([(pod, node) for pod, node in known if pod is not None])
        while part := list(islice(there, SLICE_PODS)):
            good = gates.still_valid(part, group, view=view)
            if good:
                kept.update(good)
                self.reserve(group, good)
            yield


def _is_being_planned(group: str) -> Refuse:
    return Refuse(Reason.PLANNING, f"{about(group)}its plan is being made")


# --- plans that take longer than one call of filter may -----------------------------------

Work = Generator[None, None, bool]
"""The rest of a plan; its steps return whether it was of use."""


class Planner:
    """The plans that one call had no time for, by group; a listener hears when one has ended."""

    def __init__(self, clock: Clock, rest: Callable[[str, float], None]) -> None:
        """Call `rest` with a group and seconds to make no plan after one that came to nothing."""
        self._clock = clock
        self._rest = rest
        self._jobs: dict[str, Work] = {}
        self._spent: dict[str, float] = {}
        self._has_jobs = asyncio.Event()
        self._listener: Callable[[str, float], None] = lambda _group, _seconds: None

    def on_end(self, listener: Callable[[str, float], None]) -> None:
        """Call `listener` with a group whose plan ended, and the seconds until a look at it."""
        self._listener = listener

    def go_on(self, group: str, work: Work) -> None:
        """Queue the rest of a plan, unless one is queued for the group."""
        self._jobs.setdefault(group, work)
        self._has_jobs.set()

    def count_anew(self, group: str) -> None:
        """Give the plan of a group its full time once more: room for it was found."""
        self._spent.pop(group, None)

    def is_busy(self, group: str) -> bool:
        """Return whether the plan of a group is being made."""
        return group in self._jobs

    @property
    def planned(self) -> Iterator[str]:
        """Return the groups whose plans are being made."""
        return iter(self._jobs)

    async def run(self) -> None:
        """Work until cancelled; half of the time is left to other tasks."""
        while True:
            await self._has_jobs.wait()
            await asyncio.sleep(self.work())

    def work(self) -> float:
        """Run a slice of the oldest plan, which must exist; return the seconds it took."""
        group, began = next(iter(self._jobs)), self._clock.monotonic()
        try:
            answer = advance(self._jobs[group], self._clock, seconds=SLICE_SECONDS)
            useful = answer.value if answer is not None else None
        except Exception as error:  # noqa: BLE001 - it harms its group alone
            FAULTS.report("planner", error, key=group)
            useful = False
        seconds = self._clock.monotonic() - began
        self._spent[group] = self._spent.get(group, 0.0) + seconds
        if useful is None and self._spent[group] > CHECK_SECONDS:
            self._jobs[group].close()
            useful = False
        if useful is not None:
            self._end(group, useful=useful)
        return seconds

    def _end(self, group: str, *, useful: bool) -> None:
        del self._jobs[group]
        spent = self._spent.pop(group)
        rest = 0.0 if useful else spent * REST
        if not self._jobs:
            self._has_jobs.clear()
        if rest:
            self._rest(group, rest)
        self._listener(group, 0.0)
        if rest:
            self._listener(group, rest)


# --- plans before a request --------------------------------------------------------------------
#
# Groups behind our gate are planned as soon as there is room, in the order of their turns; the
# waker then removes the gates. kube-scheduler never tries a group that does not fit, so a group
# that waits for room costs it nothing.
#
# A gang is partial while some members are bound or being bound, but too few. A member may come
# late, or its Binding was lost with the process that wrote it. The room that it needs may still be
# there, and the first other pod that kube-scheduler brings must not take it.


class UnaskedPlans:
    """Plans partial gangs when they change, and the gated groups where gates wait for room."""

    def __init__(self, cluster: Cluster, plans: Plans) -> None:
        self._view = cluster.view()
        self._plans = plans
        self._options = plans.verdicts.options
        self._clock = plans.clock
        self._partial: dict[str, None] = {}
        """The partial gangs that have changed."""
        self._changed = asyncio.Event()
        self._in_vain = 0.0
        cluster.subscribe(self.on_change)

    def on_change(self, change: ClusterChange) -> None:
        """Look at the partial gangs that a change touched, and at the queue, soon."""
        self._partial.update(dict.fromkeys(filter(self._is_partial, change.groups)))
        if self._partial or self._options.gate_until_fit:  # any change may have made room
            self._changed.set()

    def recover(self) -> Iterator[None]:
        """Plan the partial gangs; `run` plans those for which there was no time."""
        until, groups = self._clock.monotonic() + LATE_SECONDS, iter([*self._view.groups])
        for group in groups:
            yield
            if self._clock.monotonic() >= until:
                self._partial.update(dict.fromkeys((group, *groups)))
                self._changed.set()
                return
            self._plan_partial(group)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS if self._options.gate_until_fit else None):
                    await self._changed.wait()
            self._changed.clear()
            self._in_vain = 0.0
            try:
                if await in_turns(self.looking(), self._clock):
                    self._changed.set()
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("unasked-plans", error)
                await asyncio.sleep(LOOK_SECONDS)
            await asyncio.sleep(max(SLICE_SECONDS, self._in_vain * REST))

    def looking(self) -> Steps[bool]:
        """Plan the partial gangs, and the first gated groups; return whether there are more."""
        until = self._clock.monotonic() + SLICE_SECONDS
        while self._partial:
            group = next(iter(self._partial))
            del self._partial[group]
            self._plan_partial(group)
            yield
        for key in [*self._view.queue] if self._options.gate_until_fit else ():
            yield
            pod_group = self._view.pod_group(key)
            if pod_group is None or key not in self._view.queue:
                continue
            if self._view.tally(key).gated_by_us and not self._plans.had_no_room(pod_group):
                if self._clock.monotonic() >= until:
                    return True
                self._plan(pod_group, ())
            is_first = key in self._view.queue and self._plans.verdicts.never_fits(key) is None
            if self._options.strict_order and is_first:
                return False
        return False

    def _is_partial(self, group: str) -> bool:
        tally = self._view.tally(group)
        return group in self._view.queue and bool(tally.bound or tally.binding)

    def _plan_partial(self, group: str) -> None:
        """Keep room for the members that a group lacks, if it is partial and did not just fail.

        Until a scheduler asks us, those of bound members count as asking.
        """
        pod_group = self._view.pod_group(group)
        if pod_group is None or not self._is_partial(group):
            return
        bound = (self._view.pods[uid] for uid in self._view.tally(group).bound)
        schedulers = self._plans.schedulers or {pod.scheduler for pod in bound}
        if not self._plans.had_no_room(pod_group):
            self._plan(pod_group, schedulers)

    def _plan(self, pod_group: PodGroupInfo, schedulers: Collection[str]) -> None:
        try:
            self._in_vain += self._plans.plan_ahead(pod_group, schedulers=schedulers)
        except Exception as error:  # noqa: BLE001 - the groups behind it have their turn
            FAULTS.report("unasked-plans", error, key=pod_group.key)


# --- gangs that claim volumes or devices -------------------------------------------------------
#
# In a dry round members are refused until kube-scheduler has found nodes for enough of them at the
# same time; then all may pass. If the gang loses its plan first, it begins anew. While a gang
# passes, no other one of the same StorageClass or DeviceClass does: neither waits for what the
# other has.


@dataclass(slots=True)
class _Round:
    found: dict[str, tuple[float, Sequence[NodeInfo]]] = field(default_factory=dict)
    """The nodes that kube-scheduler found for each member, and the time of it, by UID."""
    need: int = 0
    passed: frozenset[str] | None = None
    """The classes of its claims, once its members may pass."""
    volumes: Mapping[str, VolumeInfo] = field(default_factory=dict)
    """The volume that is there for each claim, by its key, where volumes are made by hand."""


class DryRounds:
    """Judges members that claim something, and takes back devices allocated in vain."""

    def __init__(
        self,
        cluster: Cluster,
        writer: ClaimWriter,
        *,
        clock: Clock,
        wake_after: Callable[[str, float], None],
    ) -> None:
        """`wake_after` takes the UID of a pod or a group, and seconds."""
        self._writer = writer
        self._view = cluster.view()
        self._now = clock.monotonic
        self._wake_after = wake_after
        self._rounds: dict[str, _Round] = {}
        self._blocked: dict[str, None] = {}
        """Groups that wait for a class that another group uses, first come first."""
        self._refused: LRUCache[str, None] = LRUCache(REMEMBERED)
        """UIDs of pods whose last answer was a refusal."""
        self._queue: WorkQueue[str] = WorkQueue()
        cluster.subscribe(self.on_change)

    # --- dry rounds --------------------------------------------------------------------------

    def judge(
        self, pod: PodInfo, group: str, verdict: FilterVerdict, *, sent: Sequence[str]
    ) -> FilterVerdict:
        """Return the verdict about a member, or a refusal while its siblings have no nodes."""
        view, pod_group = self._view, self._view.pod_group(group)
        if isinstance(verdict, Refuse) or not view.claiming(group) or pod_group is None:
            return verdict
        dry = self._rounds.get(group) or _Round()
        later = hold.come_later(group, view=view) - dry.found.keys()
        dry.need = view.quorum(pod_group) - view.tally(group).assigned - len(later)
        is_cycle = group == pod.native and view.has_group_cycles
        if dry.passed is not None:
            return beside_volumes(pod, verdict, sent, volumes=dry.volumes, view=view)
        if dry.need <= 0 or is_cycle:
            return verdict
        lacking = lacking_claims(group, view=view)
        if not lacking:
            return verdict
        self._rounds[group] = dry
        if isinstance(verdict, OneNode):
            nodes = [node for node in map(view.nodes.get, sent) if node is not None]
            dry.found[pod.uid] = self._now(), nodes
        refusal = self._refusal(group, dry, classes_of(lacking, view=view))
        if refusal is None:
            self._wake(group)
            return beside_volumes(pod, verdict, sent, volumes=dry.volumes, view=view)
        kept = verdict.reserve if isinstance(verdict, OneNode) and not refusal.deny else {}
        return replace(refusal, reserve=kept)

    def _refusal(self, group: str, dry: _Round, classes: frozenset[str]) -> Refuse | None:
        """Return why the members of a gang may not pass yet; None if they may from now on."""
        in_use = {name for other in self._rounds.values() for name in other.passed or ()}
        used = min(classes & in_use, default=None)
        if used is not None:
            self._blocked[group] = None
            dry.found.clear()  # the other gang may be given what was found
            text = f"{about(group)}another gang is being given what it claims of {used}"
            return Refuse(Reason.CLASS_IN_USE, text)
        good = {uid: nodes for uid, (_, nodes) in [*dry.found.items()] if self._holds(uid, dry)}
        complete = len(good) >= dry.need
        able: Mapping[str, Sequence[NodeInfo] | None] = good if complete else {}
        if not complete and len(good) <= 1:
            # kube-scheduler has not said where the members fit that have no node.
            able = {pod.uid: None for pod in self._view.members(group) if pod.node is None}
        volumes = match_volumes(able, dry.need, view=self._view) if able else {}
        if isinstance(volumes, str):
            text = f"{about(group)}too few free volumes of {volumes} for the pods that it needs"
            return Refuse(Reason.NOT_ENOUGH_VOLUMES, text, deny=True, lost=True)
        if not complete:
            text = (
                f"{about(group)}its claims are written when kube-scheduler has found nodes for "
                f"all {dry.need} pods that it needs"
            )
            return Refuse(Reason.NODES_FOR_ALL_FIRST, text)
        dry.passed, dry.volumes = classes, volumes
        return None

    def _holds(self, uid: str, dry: _Round) -> bool:
        """Return whether a member still has one of the nodes that were found for it.

        A member whose nodes were found too long ago is tried once more.
        """
        at, nodes = dry.found[uid]
        pod = self._view.pods.get(uid)
        lasts = CHECK_SECONDS + dry.need * 2 * SLICE_SECONDS
        if pod is None or pod.node is not None:
            del dry.found[uid]
            return False
        if self._now() < at + lasts and any(self._view.nodes.get(n.name) is n for n in nodes):
            return True
        self._wake_after(uid, 0.0)
        return False

    def _wake(self, group: str) -> None:
        for uid in self._view.refused_of(group):
            self._wake_after(uid, 0.0)

    def on_change(self, change: ClusterChange) -> None:
        """End the rounds of groups that have started or lost their plan; look at claims again."""
        for key in change.claims:
            self._queue.add(key)
        for group in change.groups if self._rounds or self._refused else ():
            waits = self._view.claiming(group)
            if not self._is_over(group):
                continue
            for uid in [uid for uid in waits if uid in self._refused]:
                self.refused(self._view.pods[uid])
            ended = self._rounds.pop(group, None)
            if ended is not None and ended.passed is not None:
                # The groups that waited for a class that this one used are tried again.
                blocked, self._blocked = self._blocked, {}
                for other in blocked:
                    self._wake_after(other, 0.0)
                    self._wake(other)

    def _is_over(self, group: str) -> bool:
        tally, pod_group = self._view.tally(group), self._view.pod_group(group)
        on_their_way = tally.planned or tally.waiting or tally.binding
        has_started = pod_group is None or tally.assigned >= self._view.quorum(pod_group)
        return has_started or not on_their_way

    # --- devices that refused members leave --------------------------------------------------

    def answered(self, pod: PodInfo, *, refused: bool) -> None:
        """Take note whether kube-scheduler may bind a pod that filter was asked about."""
        if refused:
            self.refused(pod)
        else:
            self._refused.pop(pod.uid, None)

    def refused(self, pod: PodInfo) -> None:
        """Take note that kube-scheduler may not bind a pod, and look at what it claims."""
        if pod.claim_keys and pod.group is not None:
            self._refused[pod.uid] = None
            for key in pod.claim_keys:
                self._queue.add(key)

    async def run(self) -> None:
        """Take devices back until cancelled."""
        while True:
            key = await self._queue.get()
            claim = self._view.claim(key)
            if claim is None or not may_be_deallocated(
                claim, view=self._view, refused=self._refused
            ):
                continue
            try:
                await self._writer.deallocate(claim)
                _log.info("devices were taken back", claim=key)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this claim's alone
                if isinstance(error, ApiError):
                    _log.warning("devices were not taken back", claim=key, error=str(error))
                else:
                    FAULTS.report("dry-rounds", error, key=key)
                self._queue.add_after(key, BACK_OFF_SECONDS)
