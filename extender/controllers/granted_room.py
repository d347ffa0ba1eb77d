"""Withdraws room granted to a PodGroup that no admitted Workload needs any more."""

from collections.abc import Iterable

import structlog

from extender.jobs.gang import made_for
from extender.kube.errors import NotFoundError
from extender.kube.queues import JobWriter
from extender.room.promises import why_over
from extender.runtime.clock import Clock
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue.view import QueueView

_log = structlog.get_logger(__name__)


class GrantKeeper:
    """Checks one PodGroup at a time, from stored state only.

    The caches must be complete: an unknown Workload backs no grant.
    """

    def __init__(
        self, cluster: ClusterView, queues: QueueView, writer: JobWriter, *, clock: Clock
    ) -> None:
        self._cluster, self._queues = cluster, queues
        self._writer = writer
        self._clock = clock

    async def reconcile(self, group: str) -> float | None:
        """Withdraw ended grants; return the seconds until the next one ends. Raises ApiError."""
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
        """Return the groups whose PodGroup has a stored grant."""
        return [group for group in groups if self._cluster.stored_grants(group)]

    def backed_by(self, workloads: Iterable[str]) -> Iterable[str]:
        """Return the groups made for Workloads (`namespace/name`) that have a stored grant."""
        return self.granted(map(made_for, workloads))
