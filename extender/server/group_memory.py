"""What becomes of a verdict about a group: how long it counts, and what the state is told of it."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from cachetools import LRUCache

from extender.api.wellknown import Reason
from extender.gang import keep, plan
from extender.gang.feasibility import is_feasible
from extender.gang.fit import Fit, Offer
from extender.gang.options import Options
from extender.gang.recent import MAX_GROUPS, Denied, HadNoRoom, Permitted, Versions, versions_of
from extender.gang.verdicts import Refuse, about
from extender.runtime.budget import advance
from extender.runtime.clock import Clock
from extender.server.planner import Planner
from extender.state import events as ev
from extender.state.cluster import Cluster
from extender.state.pod_groups import PodGroupInfo
from extender.state.pods import PodInfo, Shape
from extender.steps import Steps

_OTHERS_FIRST = frozenset((Reason.SCHEDULE_TIMEOUT, Reason.MEMBER_UNSCHEDULABLE))
"""Failures after which a group goes behind others: it had room, and could not start on it. One that
found no room keeps its place."""
PLAN_SECONDS: Final = 0.015
"""How long one call may plan for the group that is asked for; the rest of it goes on later."""
KEPT_AT_ONCE: Final = 250
"""For how many pods room is kept in one step."""
ROUNDS: Final = 5
"""How often a long plan is mended where others took its room meanwhile."""


class GroupMemory:
    """The permitted and the denied groups, and the room that is kept."""

    def __init__(self, cluster: Cluster, *, options: Options, clock: Clock) -> None:
        self.options = options
        self.clock = clock
        self.planner = Planner(clock)
        self.schedulers: set[str] = set()
        """Names of the schedulers that ask us."""
        self._cluster = cluster
        self._snapshot = cluster.snapshot()
        self._denied = Denied(options.denied, clock.monotonic)
        self._had_no_room = HadNoRoom()
        self._last_failure: LRUCache[str, tuple[str, Refuse]] = LRUCache(MAX_GROUPS)
        """By group: the UID of the PodGroup that failed, and why."""
        self._permitted = Permitted(clock.monotonic)
        self._fits_empty: LRUCache[str, int] = LRUCache(MAX_GROUPS)
        """By group: the version of the nodes that would take it if they were empty."""
        self._changes = 0
        self._changed: LRUCache[str, int] = LRUCache(MAX_GROUPS)
        """By group: the number of its last change; a plan that began before it says nothing."""

    def denied(self, group: str) -> Refuse | None:
        """Return the failure because of which a group is not looked at now."""
        return self._denied.get(group, snapshot=self._snapshot)

    def offered(self, group: str, shape: Shape, nodes: Collection[str]) -> None:
        """Take note of the nodes that kube-scheduler has found for a member of a group."""
        self._denied.offered(group, shape, nodes)

    def failed_within_window(self, group: str) -> Refuse | None:
        """Return the failure within the window, whatever has changed since."""
        return self._denied.recent(group)

    def failed(
        self,
        group: str,
        refusal: Refuse,
        *,
        shape: Shape | None = None,
        since: Versions | None = None,
    ) -> None:
        """Take note that the whole group failed, when a pod of that shape was tried.

        `since` are the versions at the begin of the plan, where that took more than one step.
        """
        versions = since or versions_of(self._snapshot)
        self._permitted.discard(group)
        self._last_failure[group] = self._uid(group), replace(refusal, offered=frozenset())
        if refusal.lack is not None and not refusal.offered:
            self._had_no_room.add(group, refusal, versions=versions)
        if refusal.reason is Reason.NEVER_FITS:
            # Other nodes would help it, and time would not: there is no use in a window.
            self.pass_over(group, refusal, since=versions)
            return
        self._denied.add(group, refusal, versions=versions, shape=shape)
        if refusal.reason in _OTHERS_FIRST and not self.options.strict_order:
            self._cluster.apply(ev.GroupFailed(group, self.clock.wall()))

    def last_failure(self, group: str) -> Refuse | None:
        """Return why a group failed last, if it is still the same group and has not started."""
        uid, refusal = self._last_failure.get(group, ("", None))
        return refusal if uid == self._uid(group) else None

    def forgive(self, group: str) -> None:
        """Let a group be looked at again: it is another one now."""
        self._denied.discard(group)
        self._had_no_room.discard(group)
        self._fits_empty.pop(group, None)
        self._changes += 1
        self._changed[group] = self._changes
        self.planner.end_rest(group)

    def succeeded(self, group: str) -> None:
        """Take note that a group started."""
        self.forgive(group)
        self._last_failure.pop(group, None)

    def pass_over(self, group: str, refusal: Refuse, *, since: Versions | None = None) -> None:
        """Take note that a group had no room when one behind it was tried, or its gate watched.

        `since` as in `failed`.
        """
        self._had_no_room.add(group, refusal, versions=since or versions_of(self._snapshot))

    def plan(self, pod: PodInfo, pod_group: PodGroupInfo, offer: Offer) -> Fit | Refuse:
        """Return where a pod and its siblings go, or why they cannot.

        Where that takes long, a refusal says so, and the plan is made between other work.
        """
        group, snapshot = pod_group.key, self._snapshot
        if self.planner.is_busy(group):
            return _is_being_planned(group)
        known = self._known(pod, group, offer)
        if known is not None:
            return known
        if self.planner.is_resting(group):
            text = f"{about(group)}no plan was found in time; another one is made later"
            return Refuse(Reason.PLANNING, text)
        permitted, since = self.is_permitted(pod_group), versions_of(snapshot)
        change = self._change_of(group)
        steps = plan.making(pod, pod_group, snapshot=snapshot, offer=offer, permitted=permitted)
        answer = advance(steps, self.clock, seconds=PLAN_SECONDS)
        if answer is None:
            rest = self._finish(group, steps, since=since, change=change, shape=pod.shape)
            self.planner.go_on(group, rest)
            return _is_being_planned(group)
        return self._kept_later(group, answer.value) or answer.value

    def plan_ahead(
        self,
        pod_group: PodGroupInfo,
        *,
        schedulers: Collection[str],
        seconds: float = PLAN_SECONDS,
    ) -> float:
        """Keep room for a group before its own turn, if there is some: `plan.making_ahead`.

        Where so many seconds are too few, the plan goes on between other work. Return how many were
        spent in vain.
        """
        group, began = pod_group.key, self.clock.monotonic()
        if self.planner.is_busy(group):
            return 0.0
        since, change = versions_of(self._snapshot), self._change_of(group)
        steps = plan.making_ahead(pod_group, snapshot=self._snapshot, schedulers=schedulers)
        answer = advance(steps, self.clock, seconds=seconds)
        spent = self.clock.monotonic() - began
        if answer is None:
            self.planner.go_on(group, self._finish(group, steps, since=since, change=change))
            return spent
        found = answer.value
        if isinstance(found, Fit):
            if self._kept_later(group, found) is None:
                self.reserve(group, found.placements)
            return 0.0
        if found is not None:
            self.pass_over(group, found)
        return spent

    def is_planned(self, group: str) -> bool:
        """Return whether a plan of a group is being made."""
        return self.planner.is_busy(group)

    def plans_before(self, pod_group: PodGroupInfo) -> bool:
        """Return whether a plan of a group that goes before another one is being made."""
        found = map(self._snapshot.pod_group, self.planner.planned)
        own = self._snapshot.turn(pod_group)
        return any(each is not None and self._snapshot.turn(each) < own for each in found)

    def _known(self, pod: PodInfo, group: str, offer: Offer) -> Refuse | None:
        """Return the last refusal where another plan would come to the same.

        Nodes that kube-scheduler has found and that our reading would pass over are news.
        """
        last, snapshot = self.last_failure(group), self._snapshot
        if last is None or last.lack is None or pod.shape not in last.lack.shapes:
            return None
        if self.planner.is_resting(group):
            return last
        nodes = (snapshot.nodes.get(name) for name in offer.nodes)
        if not all(node is not None and is_feasible(pod.shape, node) for node in nodes):
            return None
        stands = self._had_no_room.get(group, snapshot=snapshot)
        return replace(last, lack=stands.lack) if stands is not None else None

    def _kept_later(self, group: str, found: Fit | Refuse) -> Refuse | None:
        """Keep the room of a large plan in several steps; return what is answered until then."""
        if isinstance(found, Refuse) or len(found.placements) <= KEPT_AT_ONCE:
            return None
        self.planner.go_on(group, self._keep(group, found))
        return _is_being_planned(group)

    def _finish(
        self,
        group: str,
        steps: Steps[Fit | Refuse | None] | Steps[Fit | Refuse],
        *,
        since: Versions,
        change: int,
        shape: Shape | None = None,
    ) -> Steps[bool]:
        """Go on with a plan, and do what is to be done about its answer.

        A refusal of a group that has changed meanwhile is dropped: the group is planned once more.
        """
        found = yield from steps
        if isinstance(found, Fit):
            return (yield from self._keep(group, found))
        if self._change_of(group) != change:
            return True
        if found is not None and shape is not None:
            self.failed(group, found, shape=shape, since=since)
        elif found is not None:
            self.pass_over(group, found, since=since)
        return False

    def _keep(self, group: str, found: Fit) -> Steps[bool]:
        """Keep the room of a plan, part by part, and mend it where others were quicker."""
        self.planner.count_anew(group)
        kept, good = set[str](), False
        try:
            good = yield from self._keep_all(group, found, kept)
        finally:  # also where it is given up half-way
            if not good:
                # What is left would wait for its siblings' time-out.
                planned = [uid for uid in kept if self._snapshot.planned_node(uid) is not None]
                self._cluster.apply(ev.Unreserved(planned))
        return good

    def _keep_all(self, group: str, found: Fit, kept: set[str]) -> Steps[bool]:
        """Return whether all that the group needs is kept; add the pods to `kept`."""
        snapshot = self._snapshot
        for _ in range(ROUNDS):
            yield from self._keep_parts(group, found, kept)
            pod_group = snapshot.pod_group(group)
            pods = plan.candidates(None, group, snapshot=snapshot)
            tally = snapshot.tally(group)
            if pod_group is None:
                break
            if tally.committed >= snapshot.quorum(pod_group):
                return True
            again = (
                (yield from plan.making(pods[0], pod_group, snapshot=snapshot)) if pods else None
            )
            if not isinstance(again, Fit):
                break
            found = again
        return False

    def _keep_parts(self, group: str, found: Fit, kept: set[str]) -> Steps[None]:
        snapshot = self._snapshot
        every = sorted(found.placements.items(), key=lambda each: each[1])
        known = ((snapshot.pods.get(uid), node) for uid, node in every)
        there = iter([(pod, node) for pod, node in known if pod is not None])
        while part := list(islice(there, KEPT_AT_ONCE)):
            good = keep.good(part, group, snapshot=snapshot)
            if good:
                kept.update(good)
                self.reserve(group, good)
            yield

    def had_no_room(self, pod_group: PodGroupInfo) -> bool:
        """Return whether planning a group is not worth another look yet."""
        group, snapshot = pod_group.key, self._snapshot
        if self.planner.is_busy(group) or self.planner.is_resting(group):
            return True
        return bool(self.denied(group) or self._had_no_room.get(group, snapshot=snapshot))

    def never_fits(self, group: str) -> Refuse | None:
        """Return the refusal of a group that no node is large enough for, as far as is known."""
        answer = self._had_no_room.get(group, snapshot=self._snapshot)
        return answer if answer and answer.reason is Reason.NEVER_FITS else None

    def is_oversized(self, pod_group: PodGroupInfo) -> bool:
        """Return whether no node is large enough for a group; looks where it is not known.

        What takes long is worked out between other work, and is not so until then.
        """
        if self.never_fits(pod_group.key) is not None:
            return True
        group, version = pod_group.key, self._snapshot.nodes_version
        if self._fits_empty.get(group) == version:
            return False
        if self.planner.is_busy(group, "empty"):
            return False
        steps = self._look_at_empty(pod_group, version)
        answer = advance(steps, self.clock, seconds=PLAN_SECONDS)
        if answer is None:
            self.planner.go_on(group, steps, kind="empty")
        return answer is not None and answer.value

    def _look_at_empty(self, pod_group: PodGroupInfo, version: int) -> Steps[bool]:
        group, since = pod_group.key, versions_of(self._snapshot)
        change = self._change_of(group)
        refusal = yield from plan.never_fitting(pod_group, snapshot=self._snapshot)
        if self._change_of(group) != change:
            return False
        if refusal is None:
            self._fits_empty[group] = version
            return False
        self.pass_over(group, refusal, since=since)
        return True

    def is_permitted(self, pod_group: PodGroupInfo) -> bool:
        """Return whether the group's minResources were there within its schedule time-out."""
        return self._permitted.has(pod_group)

    def reserve(self, group: str, placements: Mapping[str, str]) -> None:
        """Keep room for members: the group is permitted."""
        self._cluster.apply(ev.Planned(placements))
        pod_group = self._snapshot.pod_group(group)
        if pod_group is not None:
            self._permitted.add(pod_group, self.options.timeout(pod_group.schedule_timeout))

    def _change_of(self, group: str) -> int:
        return self._changed.get(group, 0)

    def _uid(self, group: str) -> str:
        pod_group = self._snapshot.pod_group(group)
        return pod_group.uid if pod_group is not None else ""


def _is_being_planned(group: str) -> Refuse:
    return Refuse(Reason.PLANNING, f"{about(group)}its plan is being made")
