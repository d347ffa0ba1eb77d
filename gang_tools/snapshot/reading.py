"""Reads the state of a cluster from the API server or a snapshot: each kind is listed once."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from extender.api.wellknown import POD_GROUP_GROUPS
from extender.config.gang import Gang
from extender.kube.decode import Decoder
from extender.kube.decode_queues import RECORDS, QueueDecoder
from extender.kube.errors import ForbiddenError, NotFoundError
from extender.kube.queues import objects
from extender.kube.watch import Reader, everything
from extender.state.cluster import events as cluster_events
from extender.state.cluster.records import BATCH_JOB, JobInfo, NodeInfo, PodGroupInfo, PodInfo
from extender.state.cluster.store import Cluster
from extender.state.queue import events as queue_events
from extender.state.queue.records import (
    AdmissionCheckInfo,
    PriorityClassInfo,
    WorkloadPriorityClassInfo,
)
from extender.state.queue.store import Queues

_UNNEEDED: Final = (PriorityClassInfo, WorkloadPriorityClassInfo, AdmissionCheckInfo)
"""The kinds without which queues can be explained; a user may lack the right to list them."""


class ClusterReader:
    """Fills both states. All methods raise ApiError."""

    def __init__(self, reader: Reader, gang: Gang) -> None:
        self._reader = reader
        self.decoder = decoder = Decoder(gang.ignored(), placement=gang.placement)
        self._of_queues = of = QueueDecoder(decoder)
        self.cluster, self.queues = Cluster(growing=gang.growing), Queues(of.completed)

    async def read_queues(self, *, optional: bool = False) -> None:
        """Read the queues and workloads; `optional` kinds may be missing from the cluster."""
        for path, kind, decode in RECORDS:
            unneeded = kind in _UNNEEDED
            ignored = [NotFoundError] * (optional or unneeded) + [ForbiddenError] * unneeded
            with suppress(*ignored):
                found = await everything(self._reader, path, partial(decode, self._of_queues))
                self.queues.apply(queue_events.Listed(kind, found))

    async def read_nodes(self) -> None:
        """Read the nodes."""
        found = await everything(self._reader, objects("", "v1", "nodes"), self.decoder.node)
        self.cluster.apply(cluster_events.ObjectsListed(NodeInfo, found))

    async def read_batch_jobs(self, decode: Callable[[bytes], JobInfo] | None = None) -> None:
        """Read the batch Jobs."""
        path = objects("batch", "v1", "jobs")
        found = await everything(self._reader, path, decode or self.decoder.job)
        self.cluster.apply(cluster_events.ObjectsListed(JobInfo, found, BATCH_JOB))

    async def read_pods(
        self,
        namespace: str = "",
        decode: Callable[[bytes], PodInfo] | None = None,
        *,
        ended: bool = True,
    ) -> list[PodInfo]:
        """Read the pods and PodGroups of a namespace, or of all, and return the pods.

        Without `ended` the state gets the live pods only.
        """
        path = objects("", "v1", "pods", namespace=namespace)
        pods = await everything(self._reader, path, decode or self.decoder.pod)
        shown = [pod for pod in pods if ended or not pod.finished]
        self.cluster.apply(cluster_events.ObjectsListed(PodInfo, shown))
        for group in POD_GROUP_GROUPS:
            path = objects(group, "v1alpha1", "podgroups", namespace=namespace)
            decode_group = partial(self.decoder.pod_group, api_group=group)
            with suppress(NotFoundError):
                found = await everything(self._reader, path, decode_group)
                self.cluster.apply(cluster_events.ObjectsListed(PodGroupInfo, found, group))
        return pods
