"""The work that goes on beside requests: conditions, claims to nodes, and pods that never came.

`NodeClaims` runs in both processes, the rest in `serve`. `remembered` is what explanations show of
the memory of `serve`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

import structlog
from cachetools import LRUCache

from extender.gang import aging, status
from extender.gang.verdicts import GangOptions, Remembered
from extender.kube.errors import ApiError
from extender.kube.pod_groups import PreemptorWriter
from extender.permit.group_memory import GroupMemory
from extender.permit.hold import WaitingPods
from extender.permit.plans import Plans
from extender.permit.timing import (
    BACK_OFF_SECONDS,
    CHECK_SECONDS,
    LAG_SECONDS,
    LATE_SECONDS,
    MOMENT_SECONDS,
    REMEMBERED,
)
from extender.runtime.clock import Clock, in_turns
from extender.runtime.controller import WorkQueue
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as ev
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import LONGEST_SECONDS, ConditionInfo, PodGroupInfo
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView
from extender.steps import PIECE, FairShare, Steps

_log = structlog.get_logger(__name__)


class ConditionReporter:
    """Writes the condition of a group a moment after a change, and repeats while it waits."""

    def __init__(
        self,
        cluster: Cluster,
        write: Callable[[PodGroupInfo, ConditionInfo], Awaitable[None]],
        verdicts: GroupMemory,
        *,
        clock: Clock,
    ) -> None:
        self._view = cluster.view()
        self._write = write
        self._verdicts = verdicts
        self._clock = clock
        self._queue: WorkQueue[str] = WorkQueue()
        self._asked: LRUCache[str, None] = LRUCache(REMEMBERED)
        """The groups that kube-scheduler has asked this extender about, not another one."""
        cluster.subscribe(self.on_change)

    def on_change(self, change: ClusterChange) -> None:
        """Queue the groups that a change touched."""
        for group in change.groups:
            self._queue.add_after(group, CHECK_SECONDS)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            group = await self._queue.get()
            try:
                await self._report(group)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this group's alone
                if isinstance(error, ApiError):
                    _log.warning("condition not written", group=group, error=str(error))
                else:
                    FAULTS.report("permit-reporter", error, key=group)
                self._queue.add_after(group, BACK_OFF_SECONDS)
                await asyncio.sleep(MOMENT_SECONDS)

    async def _report(self, group: str) -> None:
        denied = self._verdicts.last_failure(group)
        if denied is not None or self._view.tally(group).waiting:
            self._asked[group] = None
        condition = status.permitted_condition(
            group,
            view=self._view,
            denied=denied,
            now=self._clock.wall(),
            asked=group in self._asked,
        )
        if self._view.tally(group).waiting:
            self._queue.add_after(group, BACK_OFF_SECONDS)
        pod_group = self._view.pod_group(group)
        if condition is not None and pod_group is not None:
            await self._write(pod_group, condition)
            await asyncio.sleep(MOMENT_SECONDS)


def remembered(group: str, plans: Plans, waiting: WaitingPods, *, stale: str | None) -> Remembered:
    """Return what this process remembers of a group, with times in seconds since the epoch.

    `stale` is a kind whose watch is stale.
    """
    verdicts, now = plans.verdicts, plans.clock.wall()
    denied, rest, left = verdicts.denied(group), verdicts.rest_left(group), waiting.time_left(group)
    return Remembered(
        denied=denied,
        denied_until=now + verdicts.denied_left(group) if denied is not None else None,
        last_failure=verdicts.last_failure(group),
        permitted=verdicts.is_permitted(group),
        is_being_planned=plans.planner.is_busy(group),
        rests_until=now + rest if rest else None,
        starts_by=now + left if left is not None else None,
        stale=stale,
    )


class NodeClaims:
    """Looks every other second at groups that have waited long, and claims nodes for them."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        options: GangOptions,
        clock: Clock,
        schedulers: Collection[str] | None = None,
    ) -> None:
        self._cluster = cluster
        self.writer: Callable[[], PreemptorWriter | None] = lambda: None
        """Writes the claimed nodes, if a kube-scheduler asks this process: others may differ."""
        self._written: dict[str, tuple[object, ...]] = {}
        self._view = cluster.view()
        self._options = options
        self._clock = clock
        self._schedulers = schedulers
        self._entered: dict[str, float] | None = None
        self._share = FairShare(aging.MOST)

    async def run(self) -> None:
        """Work until cancelled, for a short while at once."""
        while True:
            before = set(self._view.claims)
            try:
                await in_turns(self.looking(), self._clock)
                claimed = {key for key, each in self._view.claims.items() if each.amounts}
                for key in claimed - before:
                    _log.info("room claimed", group=key, nodes=len(self._view.claims[key].amounts))
                await self.publish()
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("node-claims", error)
            await asyncio.sleep(LATE_SECONDS)

    def looking(self) -> Steps[None]:
        """Make the claims that are due now, and end the others, in steps: it may take long."""
        self._end_grants()
        claims = yield from aging.deciding(
            self._share,
            view=self._view,
            now=self._clock.wall(),
            options=self._options,
            entered=self._when_entered(),
            schedulers=self._schedulers,
        )
        # A group may have got its room since its claim was decided.
        self._cluster.apply(ev.Claimed([each for each in claims if each.owner in self._view.queue]))

    async def publish(self) -> None:
        """Name on PodGroups of our schedulers the nodes that autoscalers are to count as taken."""
        if (writer := self.writer()) is None:
            return
        view, options, entered = self._view, self._options, self._entered or {}
        wanted = aging.published(view, self._clock.wall(), options=options, entered=entered)
        before, self._written = self._written, {}  # without those that are seen
        for pod_group in await in_turns(_named_otherwise(view, wanted), self._clock):
            key, names = pod_group.key, wanted.get(pod_group.key, ())
            schedulers = {each.scheduler for each in view.members(key)}
            if not names and not schedulers.issubset(self._schedulers or ()):
                continue  # another extender keeps them
            change = (pod_group.uid, pod_group.kept_nodes, names)
            try:
                if before.get(key) != change:
                    await writer.apply_kept(pod_group, names)
                self._written[key] = change
            except ApiError as error:
                _log.warning("kept nodes not written", group=key, error=str(error))

    def _end_grants(self) -> None:
        now, grants = self._clock.wall(), self._view.grants
        # A tenant that writes a grant itself cannot keep room for longer than this.
        latest = now + LONGEST_SECONDS
        ended = [g for g, each in grants.items() if not now < (each.until or 0.0) <= latest]
        if ended:
            _log.info("granted room was not used in time", groups=len(ended), first=ended[0])
            self._cluster.apply(ev.GrantsEnded(ended))

    def _when_entered(self) -> Mapping[str, float]:
        """Return when each group first came into the queue; 0 if it was there from the start.

        A group that leaves the queue with a plan and comes back has waited all the while.
        """
        now = 0.0 if self._entered is None else self._clock.wall()
        there = self._view.groups
        known = {group: at for group, at in (self._entered or {}).items() if group in there}
        self._entered = dict.fromkeys(self._view.queue, now) | known
        return self._entered


def _named_otherwise(
    view: ClusterView, wanted: Mapping[str, tuple[str, ...]]
) -> Steps[list[PodGroupInfo]]:
    """Return the PodGroups whose status names other nodes than those that are wanted."""
    found = list[PodGroupInfo]()
    for number, pod_group in enumerate(map(view.pod_group, view.pod_groups)):
        if pod_group is not None and pod_group.kept_nodes != wanted.get(pod_group.key, ()):
            found.append(pod_group)
        if number % PIECE == 0:
            yield
    return found


class PodsSeenOnlyInRequests:
    """Drops pods that only requests have shown, if our watch does not show them soon.

    A pod in a filter request is added to the state so that its gang can be planned at once. If no
    watch shows it in time it was invented, or is gone, and all that was kept for it is given back.
    """

    def __init__(self, cluster: Cluster, *, clock: Clock) -> None:
        self._cluster = cluster
        self._view = cluster.view()
        self._clock = clock
        self._since: dict[str, float] = {}
        """The time when this component first found each pod, by UID and the monotonic clock."""

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("pods-seen-only-in-requests", error)
            await asyncio.sleep(CHECK_SECONDS)

    def look(self) -> None:
        """Drop the pods that no watch has shown in time."""
        now, before = self._clock.monotonic(), self._since
        self._since = {uid: before.get(uid, now) for uid in self._view.seen}
        over = [uid for uid, since in self._since.items() if now - since >= LAG_SECONDS]
        if over:
            _log.warning("pods of requests never came into the watch", pods=len(over))
            self._cluster.apply(ev.SeenEnded(over))
