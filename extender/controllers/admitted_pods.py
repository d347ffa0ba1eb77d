"""Serves pods of admitted workloads: ends grants of room, and opens the gates of topologies."""

from collections.abc import Callable, Iterable
from itertools import chain, islice

import structlog
from cachetools import TTLCache

from extender.api.reasons import JobReason
from extender.api.wellknown import POD_GROUP_LABEL
from extender.jobs.workload import made_for
from extender.kube.errors import NotFoundError
from extender.kube.pods import PodRef, TopologyGateWriter
from extender.kube.queues import JobWriter
from extender.kube.recorder import Event, ObjectRef
from extender.room import pods
from extender.room.pods import OTHER_GROUP, backing_of, why_over
from extender.runtime.clock import Clock
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.view import ClusterView
from extender.state.queue.view import QueueView
from extender.state.topology import Domain

_log = structlog.get_logger(__name__)


class GrantKeeper:
    """Checks one PodGroup at a time, from stored state only.

    The caches must be complete: an unknown Workload backs no grant.
    """

    def __init__(
        self,
        cluster: ClusterView,
        queues: QueueView,
        writer: JobWriter,
        *,
        clock: Clock,
        record: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._cluster, self._queues = cluster, queues
        self._writer = writer
        self._clock = clock
        self._record = record

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
        backing = backing_of(pod_group, self._queues) if reason == OTHER_GROUP else None
        job = backing.owner if backing is not None else None
        if job is not None:
            note = (
                f"Its pods have another PodGroup than {pod_group.name}, which the queue made: no "
                "room is kept for them. Let its operator make no PodGroup, or name that PodGroup "
                f"in the label {POD_GROUP_LABEL} of the pod templates"
            )
            about = ObjectRef(job.api_version, job.kind, pod_group.namespace, job.name, job.uid)
            reason = JobReason.OTHER_POD_GROUP
            self._record(Event(about, reason, note, reason, warning=True, occasion=note))

    def granted(self, groups: Iterable[str]) -> Iterable[str]:
        """Return those of the groups whose PodGroup has a stored grant.

        The groups that the queue made for the pods of these ones count too.
        """
        known = dict.fromkeys(groups)
        pods = chain.from_iterable(islice(self._cluster.members(group), 1) for group in known)
        made = [made_for(pod.workload) for pod in pods if pod.workload]
        return [
            each for each in dict.fromkeys((*known, *made)) if self._cluster.stored_grants(each)
        ]

    def backed_by(self, workloads: Iterable[str]) -> Iterable[str]:
        """Return the groups made for Workloads (`namespace/name`) that have a stored grant."""
        return self.granted(map(made_for, workloads))


class TopologyGates:
    """Looks at one workload at a time."""

    def __init__(
        self, queues: QueueView, cluster: ClusterView, writer: TopologyGateWriter, *, clock: Clock
    ) -> None:
        self._queues, self._cluster, self._writer = queues, cluster, writer
        self._given: TTLCache[str, Domain] = TTLCache(100_000, 60.0, clock.monotonic)
        """The domains that were written, by UID of the pod, until the watch has shown them."""

    async def reconcile(self, key: str) -> None:
        """Let the gated pods of a workload go to their domains. Raises ApiError."""
        workload = self._queues.workloads.get(key)
        if workload is None:
            return
        for each in pods.due(workload, cluster=self._cluster, given=self._given):
            self._given[each.pod.uid] = each.domain
            pod = PodRef(each.pod.namespace, each.pod.name, each.pod.uid)
            try:
                await self._writer.open(pod, each.selector)
            except BaseException:
                self._given.pop(each.pod.uid, None)
                raise
            _log.debug("pod goes to its domain", pod=each.pod.key, workload=key)
