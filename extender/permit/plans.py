"""Makes the plans of groups, and keeps their room.

A plan that takes longer than one call of filter may is finished by `Planner` between other work.
"""

import asyncio
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from extender.api.reasons import Reason
from extender.fit.candidates import Feasibility
from extender.gang import gates
from extender.gang.fit import Fit, Offer, candidates
from extender.gang.verdicts import Refuse, about
from extender.permit.group_memory import GroupMemory, Since
from extender.permit.timing import (
    CHECK_SECONDS,
    PLAN_SECONDS,
    REST,
    SLICE_PODS,
    SLICE_SECONDS,
    TRIES,
)
from extender.runtime.clock import Clock, advance
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.cluster.store import Cluster
from extender.steps import Steps


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
        if stands.reason is Reason.NEVER_FITS:
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
        useful = self._slice(group)
        seconds = self._clock.monotonic() - began
        self._spent[group] = self._spent.get(group, 0.0) + seconds
        if useful is None and self._spent[group] > CHECK_SECONDS:
            self._jobs[group].close()
            useful = False
        if useful is not None:
            self._end(group, useful=useful)
        return seconds

    def _slice(self, group: str) -> bool | None:
        try:
            answer = advance(self._jobs[group], self._clock, seconds=SLICE_SECONDS)
        except Exception as error:  # noqa: BLE001 - it harms its group alone
            FAULTS.report("planner", error, key=group)
            return False
        return answer.value if answer is not None else None

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
