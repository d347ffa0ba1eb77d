"""Keeps the status of each PodGroup in line with its pods, and acts on partial gangs.

What a group passes on its way is written a second late, so that what comes meanwhile is one write,
and one Event; the counts of a running group five seconds late. How it ends, and what is done about
it, is written at once.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

import structlog

from extender.api.reasons import Reason
from extender.api.wellknown import ConditionType
from extender.controllers.timing import LATE, LOOK_AGAIN, SETTLE, WATCH_LAG
from extender.gang import budgets
from extender.gang.phase import Watched
from extender.gang.release import AwaitedNodes, awaited, movable
from extender.gang.restart import parted
from extender.gang.status import (
    Maker,
    Notice,
    Report,
    Waiting,
    changes,
    decide,
    deciding_pending,
    maker_of,
    may_wait,
    only_counts,
    ours,
    waiting_of,
    why_no_more_pods,
)
from extender.gang.verdicts import GangOptions, OnPartial, Pending
from extender.kube.errors import ApiError
from extender.kube.pod_groups import PodGroupWriter, about
from extender.kube.pods import PodRef
from extender.kube.recorder import Event
from extender.runtime.clock import Clock, in_turns
from extender.state.cluster.records import PodGroupInfo, PodGroupStatusInfo, PodInfo
from extender.state.cluster.store import Cluster

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _KnownGroup:
    """The memory of one PodGroup; times are by the monotonic clock."""

    uid: str
    written: PodGroupStatusInfo
    """The last status that we wrote or found."""
    at: float
    """The time of that."""
    decided: PodGroupStatusInfo
    """The status that is to be written."""
    since: float | None = None
    """The time when it began to differ."""
    is_whole: bool = True
    """False if the API server has no place for a part of it, so that the watch never shows it."""
    reported: set[str] = field(default_factory=set)
    bound: tuple[frozenset[str] | None, float] = (None, 0.0)
    """The members with a node, and since when they are these."""
    waiting: Waiting | None = None
    awaited: tuple[AwaitedNodes, float] | None = None
    """The domain where it waits for nodes, and since when."""
    maker: tuple[Maker | None, str | None] = (None, None)
    """The object that makes the pods of an incomplete gang, and in which order."""


class PodGroupController:
    """Reconciles one group at a time; a written status counts before the watch shows it."""

    def __init__(
        self,
        cluster: Cluster,
        writer: PodGroupWriter,
        *,
        record: Callable[[Event], None],
        clock: Clock,
        options: GangOptions,
        on_partial: OnPartial,
    ) -> None:
        self._view = cluster.view()
        self._writer = writer
        self._record = record
        self._clock = clock
        self._options = options
        self._on_partial = on_partial
        self._known: dict[str, _KnownGroup] = {}

    def phases(self) -> Counter[str]:
        """Return how many groups are in each phase."""
        return Counter(known.decided.phase for known in self._known.values())

    def waiting(self) -> Iterable[Waiting]:
        """Return how each group waits that does."""
        return [known.waiting for known in self._known.values() if known.waiting is not None]

    async def reconcile(self, group: str) -> float | None:
        """Bring one group up to date; return in how many seconds to look again.

        Raises ApiError when something could not be written.
        """
        for job in [*self._view.resumable(group)]:
            if job.resumes is not None and await self._writer.resume(job.uid, job.resumes):
                _log.info("job resumed", job=job.resumes.job_set or job.resumes.job, group=group)
        why = await self._why(group)
        ordered = await self._starts_in_order(group, why)
        pod_group = self._view.pod_group(group)
        if pod_group is None:
            self._known.pop(group, None)
            return None
        known = self._known_of(pod_group)
        before = known.written
        # For how long the set of members with a node has not changed.
        now, bound = self._clock.monotonic(), frozenset(self._view.tally(group).bound)
        since = known.bound[1] if known.bound[0] == bound else now
        known.bound = bound, since
        if why is not None and ordered is not None:
            guess = why_no_more_pods(self._view.members(group))
            why = replace(why, message=why.message.removesuffix(guess) + ordered)
        found = decide(
            pod_group,
            view=self._view,
            stored=known.decided,
            now=self._clock.wall(),
            options=self._options,
            watched=Watched(
                *(self._on_partial, now - since, self._options.on_partial_overrides, why),
                in_order=bool(ordered),
                gives_up=self._given_up(pod_group),
            ),
        )
        known.waiting = waiting_of(found.status, self._view.members(group))
        await self._evict(pod_group, found.evict)
        pause = await self._write(pod_group, found.status)
        await self._evict(pod_group, found.move)  # who chooses the next domain reads the status
        told = changes(before, found.status) if pause is None else ()
        self._report(pod_group, (*told, *self._lacking(known), *found.notices))
        await self._write_readiness(found)
        if pause is None and known.is_whole and ours(pod_group.status) != found.status:
            pause = WATCH_LAG
        looks = pause, found.look_again, await self._keep_budget(pod_group, found.status)
        return min((each for each in looks if each is not None), default=None)

    async def _keep_budget(
        self, pod_group: PodGroupInfo, status: PodGroupStatusInfo
    ) -> float | None:
        """Bring a group's disruption budget up to date; return in how many seconds to look."""
        step = budgets.decide(
            pod_group,
            status,
            view=self._view,
            now=self._clock.wall(),
            enabled=self._options.protects,
        )
        if step.delete is not None:
            await self._writer.delete_budget(step.delete)
        if step.apply is not None:
            await self._writer.apply_budget(pod_group, step.apply)
        return step.look_again

    async def _why(self, group: str) -> Pending | None:
        """Return what a group without room waits for: this searches all nodes."""
        pod_group, tally = self._view.pod_group(group), self._view.tally(group)
        if pod_group is None or tally.committed >= self._view.quorum(pod_group):
            return None
        steps = deciding_pending(group, view=self._view, options=self._options)
        return await in_turns(steps, self._clock)

    async def _starts_in_order(self, group: str, why: Pending | None) -> str | None:
        """Return why the missing pods of a gang never come, as the end of a sentence.

        It is empty where nothing like that is so, and None where it is not known. What makes the
        pods is read once.
        """
        lacks = why is not None and why.reason is Reason.NOT_ENOUGH_PODS
        maker = maker_of(self._view.members(group)) if lacks else None
        pod_group = self._view.pod_group(group)
        if maker is None or pod_group is None:
            return None
        known = self._known_of(pod_group)
        if known.maker[0] != maker:
            known.maker = maker, await self._writer.order_of(maker.path, maker.field)
        said = known.maker[1]
        return None if said is None else maker.remedy * (said == maker.in_order)

    async def _write(self, pod_group: PodGroupInfo, status: PodGroupStatusInfo) -> float | None:
        """Write a status that differs; return in how many seconds, where it is to wait."""
        known, now = self._known_of(pod_group), self._clock.monotonic()
        known.decided = status
        lost = (  # another writer has overwritten what we wrote a while ago
            known.is_whole
            and ours(pod_group.status) != known.written
            and now >= known.at + WATCH_LAG
        )
        if not lost and status == known.written:
            known.since = None
            return None
        if not lost and may_wait(known.written, status):
            known.since = now if known.since is None else known.since
            pause = SETTLE if only_counts(known.written, status) else LOOK_AGAIN
            if (left := known.since + pause - now) > 0:
                return left
        known.is_whole = await self._writer.apply_status(pod_group, status)
        _log.debug("status written", group=pod_group.key, phase=status.phase)
        known.written, known.at, known.since = status, self._clock.monotonic(), None
        return None

    def _known_of(self, pod_group: PodGroupInfo) -> _KnownGroup:
        known = self._known.get(pod_group.key)
        if known is None or known.uid != pod_group.uid:
            found, now = ours(pod_group.status), self._clock.monotonic()
            known = _KnownGroup(pod_group.uid, found, now, found)
            self._known[pod_group.key] = known
        return known

    def _report(self, pod_group: PodGroupInfo, notices: Iterable[Notice]) -> None:
        reported = self._known_of(pod_group).reported
        for notice in notices:
            if notice.key and notice.key in reported:
                continue
            reported.add(notice.key)
            said = about(pod_group), notice.reason, notice.note or notice.reason, notice.action
            occasion = notice.key or str(self._clock.wall())
            self._record(Event(*said, warning=notice.warning, occasion=occasion))

    def _lacking(self, known: _KnownGroup) -> Iterable[Notice]:
        """Yield an Event about pods that are missing for long; at first they are on their way."""
        waits, said = known.waiting, known.decided.condition(ConditionType.SCHEDULED)
        lacks = waits is not None and waits.reason == Reason.NOT_ENOUGH_PODS
        if waits and said and lacks and self._clock.wall() - waits.since >= LATE:
            yield Notice(said.reason, said.message, "Scheduling", key=f"lacks {waits.since}")

    async def _write_readiness(self, found: Report) -> None:
        readiness = found.readiness
        for pod in readiness.pods if readiness else ():
            assert readiness is not None
            await self._writer.set_gang_ready(
                _ref(pod),
                ready=readiness.ready,
                reason=readiness.reason,
                message=readiness.message,
                at=self._clock.wall(),
            )

    def _given_up(self, pod_group: PodGroupInfo) -> str | None:
        """Return the domain in which no node has come for a group for too long."""
        now, where = self._clock.monotonic(), awaited(pod_group, view=self._view)
        known = self._known_of(pod_group)
        before, known.awaited = known.awaited, None
        if where is None:
            return None
        since = before[1] if before is not None and where == before[0] else now
        over = where.split or (where.others and now - since >= self._options.domain_timeout)
        over = over and bool(movable(pod_group, view=self._view))
        known.awaited = where, now if over else since
        return where.domain if over else None

    async def _evict(self, pod_group: PodGroupInfo, pods: Collection[PodInfo]) -> None:
        refused: ApiError | None = None
        if pods and (budget := budgets.budget_of(pod_group, self._view)) is not None:
            await self._writer.delete_budget(budget)
        singles, jobs = parted(pods, self._view)
        for job in jobs:
            for pod in job.pods:
                await self._writer.evict(_ref(pod), dry_run=True)  # a budget may refuse it
            if await self._writer.suspend(job.key, job.uid, job.jobs):
                _log.info("job suspended", job=job.key, group=pod_group.key)
            else:
                singles += job.pods
        for pod in singles:
            try:
                await self._writer.evict(_ref(pod))
                _log.info("evicted", pod=pod.key, group=pod.group)
            except ApiError as error:
                refused = error  # a disruption budget may allow the eviction of others
        if refused is not None:
            raise refused


def _ref(pod: PodInfo) -> PodRef:
    return PodRef(pod.namespace, pod.name, pod.uid)
