"""Keeps the status of each PodGroup in line with its pods, and acts on partial gangs."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from extender.gang import pending, report
from extender.gang.conditions import ours
from extender.gang.options import GangOptions
from extender.gang.partial import OnPartial, Watched
from extender.gang.report import Notice, Report
from extender.gang.verdicts import Pending
from extender.kube.errors import ApiError
from extender.kube.pod_groups import VERSION, PodGroupWriter
from extender.kube.pods import PodRef
from extender.kube.recorder import Event, ObjectRef
from extender.runtime.budget import in_turns
from extender.runtime.clock import Clock
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodGroupInfo, PodGroupStatusInfo, PodInfo
from extender.state.cluster.store import Cluster

_log = structlog.get_logger(__name__)

WATCH_LAG: Final = 10.0
"""Seconds after a write in which the cache may still show the state before it."""


@dataclass(frozen=True, slots=True)
class _WrittenStatus:
    """The last status that we wrote, and when, by the monotonic clock."""

    uid: str
    status: PodGroupStatusInfo
    at: float


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
        self._written: dict[str, _WrittenStatus] = {}
        self._reported: dict[str, tuple[str, frozenset[str]]] = {}
        self._bound: dict[str, tuple[frozenset[str], float]] = {}

    def phases(self) -> Counter[str]:
        """Return how many groups are in each phase, as last written by this process."""
        return Counter(written.status.phase for written in self._written.values())

    async def reconcile(self, group: str) -> float | None:
        """Bring one group up to date; return in how many seconds to look again.

        Raises ApiError when something could not be written.
        """
        why = await self._why(group)
        pod_group = self._view.pod_group(group)
        if pod_group is None:
            self._written.pop(group, None)
            self._reported.pop(group, None)
            self._bound.pop(group, None)
            return None
        stored = self._stored(pod_group)
        found = report.decide(
            pod_group,
            view=self._view,
            stored=stored,
            now=self._clock.wall(),
            options=self._options,
            watched=Watched(
                self._on_partial, self._watched(group), self._options.on_partial_overrides, why
            ),
        )
        await self._evict(found)
        await self._write(pod_group, found.status, changed=found.status != stored)
        self._report(pod_group, found)
        await self._write_readiness(found)
        if ours(pod_group.status) == found.status:
            return found.look_again
        return min(found.look_again or WATCH_LAG, WATCH_LAG)

    async def _why(self, group: str) -> Pending | None:
        """Return what a group without room waits for: this searches all nodes."""
        pod_group, tally = self._view.pod_group(group), self._view.tally(group)
        if pod_group is None or tally.committed >= self._view.quorum(pod_group):
            return None
        steps = pending.deciding(group, view=self._view, options=self._options)
        return await in_turns(steps, self._clock)

    async def _write(
        self, pod_group: PodGroupInfo, status: PodGroupStatusInfo, *, changed: bool
    ) -> None:
        if changed or self._is_lost(pod_group):
            await self._writer.apply_status(pod_group, status)
            _log.debug("status written", group=pod_group.key, phase=status.phase)
        elif pod_group.key in self._written:
            return
        at = self._clock.monotonic()
        self._written[pod_group.key] = _WrittenStatus(pod_group.uid, status, at)

    def _stored(self, pod_group: PodGroupInfo) -> PodGroupStatusInfo:
        written = self._written.get(pod_group.key)
        if written is not None and written.uid == pod_group.uid:
            return written.status
        return ours(pod_group.status)

    def _is_lost(self, pod_group: PodGroupInfo) -> bool:
        """Return whether another writer has overwritten what we wrote a while ago."""
        written = self._written.get(pod_group.key)
        return (
            written is not None
            and written.uid == pod_group.uid
            and ours(pod_group.status) != written.status
            and self._clock.monotonic() >= written.at + WATCH_LAG
        )

    def _report(self, pod_group: PodGroupInfo, found: Report) -> None:
        uid, reported = self._reported.get(pod_group.key, ("", frozenset()))
        if uid != pod_group.uid:
            reported = frozenset()
        for notice in found.notices:
            if notice.key and notice.key in reported:
                continue
            reported |= {notice.key}
            self._record(self._event(pod_group, notice))
        self._reported[pod_group.key] = pod_group.uid, reported

    def _event(self, pod_group: PodGroupInfo, notice: Notice) -> Event:
        about = ObjectRef(
            f"{pod_group.api_group}/{VERSION}",
            "PodGroup",
            pod_group.namespace,
            pod_group.name,
            pod_group.uid,
        )
        return Event(
            about=about,
            reason=notice.reason,
            note=notice.note or notice.reason,
            action=notice.action,
            warning=notice.warning,
            occasion=notice.key or str(self._clock.wall()),
        )

    def _watched(self, group: str) -> float:
        """Return for how many seconds the set of members with a node has not changed."""
        now, bound = self._clock.monotonic(), frozenset(self._view.tally(group).bound)
        before, since = self._bound.get(group, (None, now))
        if before != bound:
            since = now
        self._bound[group] = (bound, since)
        return now - since

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

    async def _evict(self, found: Report) -> None:
        refused: ApiError | None = None
        for pod in found.evict:
            try:
                await self._writer.evict(_ref(pod))
                _log.info("evicted", pod=pod.key, group=pod.group)
            except ApiError as error:
                refused = error  # a disruption budget may allow the eviction of others
        if refused is not None:
            raise refused


def touched(change: ClusterChange) -> frozenset[str]:
    """Return the groups to reconcile after a change."""
    return change.groups | change.statuses


def _ref(pod: PodInfo) -> PodRef:
    return PodRef(pod.namespace, pod.name, pod.uid)
