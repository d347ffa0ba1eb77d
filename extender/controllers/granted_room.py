"""Withdraws room that is granted to a PodGroup and that no admitted Workload needs any more."""

from collections.abc import Iterable
from typing import Protocol

import structlog

from extender.jobs.gang import made_for
from extender.kube.errors import NotFoundError
from extender.room.promises import why_over
from extender.runtime.clock import Clock
from extender.state.pod_groups import PodGroupInfo
from extender.state.queues.snapshot import QueueSnapshot
from extender.state.snapshot import Snapshot

_log = structlog.get_logger(__name__)


class GrantWriter(Protocol):
    """Writes the status of PodGroups; raises ApiError."""

    async def drop_grant(self, namespace: str, name: str, *, api_group: str) -> None:
        """Have no room kept for a PodGroup any more."""
        ...


class GrantKeeper:
    """Looks at one PodGroup at a time; it decides from what is stored, so it keeps no memory.

    Its caches must be full: a Workload that is not known backs nothing.
    """

    def __init__(
        self, cluster: Snapshot, queues: QueueSnapshot, writer: GrantWriter, *, clock: Clock
    ) -> None:
        self._cluster, self._queues = cluster, queues
        self._writer = writer
        self._clock = clock

    async def reconcile(self, group: str) -> float | None:
        """End what is over; return the seconds until the next grant ends. Raises ApiError."""
        now, pauses = self._clock.wall(), []
        for pod_group in self._cluster.stored_grants(group):
            reason = why_over(pod_group, cluster=self._cluster, queues=self._queues, now=now)
            if reason is None and pod_group.grant is not None:
                pauses.append(pod_group.grant.until - now)
            elif reason is not None:
                await self._withdraw(pod_group, reason)
        return min(pauses, default=None)

    async def _withdraw(self, pod_group: PodGroupInfo, reason: str) -> None:
        try:
            await self._writer.drop_grant(
                pod_group.namespace, pod_group.name, api_group=pod_group.api_group
            )
        except NotFoundError:
            return
        _log.info("granted room withdrawn", group=pod_group.key, reason=reason)

    def granted(self, groups: Iterable[str]) -> Iterable[str]:
        """Return those of some groups whose PodGroup has a grant stored."""
        return [group for group in groups if self._cluster.stored_grants(group)]

    def backed_by(self, workloads: Iterable[str]) -> Iterable[str]:
        """Return the groups made for Workloads (`namespace/name`) that have a grant stored."""
        return self.granted(map(made_for, workloads))
