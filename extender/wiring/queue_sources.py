"""The sources of the queue's state: watches, lists, and reads of single jobs."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote

import structlog

from extender.jobs.kinds.batch_job import BatchJob
from extender.jobs.registry import Integration
from extender.kube.client import KubeClient
from extender.kube.decode_queues import QueueDecoder, admitted_pods_of
from extender.kube.errors import ApiError, NotFoundError
from extender.kube.queues import JobWriter, Owners, collection, objects
from extender.kube.reflector import Feed, Reflector
from extender.kube.watch import everything
from extender.runtime.clock import Pacer
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as cluster_events
from extender.state.cluster.records import AdmittedPods
from extender.state.cluster.store import Cluster
from extender.state.queue import events
from extender.state.queue.events import Record
from extender.state.queue.records import (
    ClusterQueueInfo,
    CohortInfo,
    FlavorInfo,
    JobObject,
    LimitRangeInfo,
    LocalQueueInfo,
    NamespaceInfo,
    OwnerRef,
    PriorityClassInfo,
    RuntimeClassInfo,
    TopologyInfo,
    WorkloadInfo,
    WorkloadPriorityClassInfo,
)
from extender.state.queue.store import Queues
from extender.wiring.reflectors import backoff, watcher

R = TypeVar("R", bound=Record)

_log = structlog.get_logger(__name__)

_PATHS: Final = {
    "namespaces": "/api/v1/namespaces",
    "limitranges": "/api/v1/limitranges",
    "priorityclasses": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "runtimeclasses": "/apis/node.k8s.io/v1/runtimeclasses",
}
"""The paths of kinds that are not the queue's own."""


def path_of(plural: str) -> str:
    """Return the path of all objects of a kind that the queue's state has as records."""
    return _PATHS.get(plural) or collection(plural, "")


class Sources:
    """Keeps the queue's state in step with the API server.

    Jobs are watched by a label where `job_selector` names one; those without it can be asked for.
    """

    def __init__(
        self,
        client: KubeClient,
        queues: Queues,
        decoder: QueueDecoder,
        *,
        cluster: Cluster,
        integrations: Sequence[Integration],
        job_selector: str,
    ) -> None:
        self._client = client
        self._owners = Owners(client)
        self._queues = queues
        self._cluster = cluster
        self._decoder = decoder
        self._integrations = {each.name: each for each in integrations}
        self._job_selector = job_selector
        self._job_reflectors = {each.name: self._jobs(each) for each in integrations}
        self.reflectors: list[Reflector[Any]] = [*self._records(), *self._job_reflectors.values()]
        self.jobs = JobWriter(client, self._decode_job)
        """Reads and writes jobs."""

    def kinds(self) -> set[str]:
        """Return the kinds, as group/Kind, all of whose jobs are known."""
        return {
            f"{each.group}/{each.kind}"
            for each in self._integrations.values()
            if self._job_reflectors[each.name].synced
        }

    async def read(self, owner: OwnerRef, namespace: str) -> JobObject | None:
        """Return a job as it is stored, None where it is gone. Raises ApiError."""
        group = owner.api_version.rpartition("/")[0]
        of = next(
            i for i in self._integrations.values() if (i.group, i.kind) == (group, owner.kind)
        )
        path = objects(of.group, of.version, of.plural, namespace=namespace)
        try:
            found = await self.jobs.read(f"{path}/{owner.name}", kind=of.name)
        except NotFoundError:
            return None
        return found if found.meta.uid == owner.uid else None

    async def exists(self, owner: OwnerRef, namespace: str) -> bool | None:
        """Return whether an object of any kind is there, None where our role may not read it."""
        return await self._owners.exists(owner, namespace)

    def is_watched(self, job: JobObject) -> bool:
        """Return whether the watch shows a job as it is now."""
        return bool(job.queue_name) or not self._job_selector

    async def catch_up(self, pacer: Pacer) -> None:
        """Read all that another leader wrote: a watch may be behind, and not notice for minutes."""
        pauses = backoff(0.2, 5.0)
        while True:
            try:
                return await self._read_all(pacer)
            except ApiError as error:
                _log.warning("could not read what there is", error=str(error))
                await asyncio.sleep(pauses.next())

    async def _read_all(self, pacer: Pacer) -> None:
        path = collection("workloads", "")
        found = await everything(self._client, path, self._decoder.workload, pacer=pacer)
        await pacer.go_through(self._guarded(events.Applied(workload)) for workload in found)
        for each in self._integrations.values():
            path = objects(each.group, each.version, each.plural)
            decode = partial(self._decode_job, kind=each.name)
            selector = f"&labelSelector={quote(self._job_selector)}" if self._job_selector else ""
            with suppress(NotFoundError):  # there may be no such kind
                jobs = await everything(self._client, path, decode, selector=selector, pacer=pacer)
                await pacer.go_through(self._guarded(events.JobApplied(job)) for job in jobs)

    def _guarded(self, event: events.Event) -> bool:
        """Apply an event; return whether the state accepted it."""
        try:
            self._queues.apply(event)
        except Exception as error:  # noqa: BLE001 - a bug, which costs this one object
            FAULTS.report("state", error, key=type(event).__name__)
            return False
        return True

    def _decode_job(self, raw: bytes, kind: str) -> JobObject:
        integration = self._integrations[kind]
        return self._decoder.job(
            raw,
            kind=kind,
            group_of=integration.group_of,
            done=integration.done,
            concerns=integration.concerns,
            read=integration.read,
        )

    def _records(self) -> list[Reflector[Any]]:
        decoder, follow = self._decoder, self._record_reflector
        return [
            follow("resourceflavors", FlavorInfo, decoder.flavor),
            follow("topologies", TopologyInfo, decoder.topology),
            follow("clusterqueues", ClusterQueueInfo, decoder.cluster_queue),
            follow("cohorts", CohortInfo, decoder.cohort),
            follow("localqueues", LocalQueueInfo, decoder.local_queue),
            self._workloads(),
            follow(
                "workloadpriorityclasses",
                WorkloadPriorityClassInfo,
                decoder.workload_priority_class,
            ),
            follow("namespaces", NamespaceInfo, decoder.namespace),
            follow("priorityclasses", PriorityClassInfo, decoder.priority_class),
            follow("limitranges", LimitRangeInfo, decoder.limit_range),
            follow("runtimeclasses", RuntimeClassInfo, decoder.runtime_class),
        ]

    def _workloads(self) -> Reflector[WorkloadInfo]:
        """Return the reflector that says to the cluster's state how many pods are admitted, too."""
        found = self._record_reflector("workloads", WorkloadInfo, self._decoder.workload)
        of_queues, cluster, pods = found.feed, self._cluster, admitted_pods_of

        def listed(workloads: Sequence[WorkloadInfo], version: int) -> Iterator[object]:
            admitted = [*map(pods, workloads)]
            yield from cluster.replace(cluster_events.ObjectsListed(AdmittedPods, admitted))
            yield cluster.apply(cluster_events.AdmissionKnown(in_use=True))
            yield from of_queues.listed(workloads, version)

        def applied(workload: WorkloadInfo) -> None:
            cluster.apply(cluster_events.ObjectApplied(pods(workload)))
            of_queues.applied(workload)

        def deleted(workload: WorkloadInfo) -> None:
            cluster.apply(cluster_events.ObjectDeleted(AdmittedPods, workload.key))
            of_queues.deleted(workload)

        found.feed = Feed(listed, applied, deleted, of_queues.known)
        return found

    def _record_reflector(
        self, kind: str, record: type[R], decode: Callable[[bytes], R]
    ) -> Reflector[R]:
        queues, of = self._queues, cast("type[Record]", record)
        return Reflector[R](
            kind,
            watcher(self._client, path_of(kind), optional=True),
            decode,
            feed=Feed(
                listed=lambda found, version: queues.replace(events.Listed(of, found, version)),
                applied=lambda found: queues.apply(events.Applied(found)),
                deleted=lambda found: queues.apply(events.Deleted(found)),
                known=lambda which: cast("R | None", queues.known(of, which.key, which.uid)),
            ),
        )

    def _jobs(self, integration: Integration) -> Reflector[JobObject]:
        name, queues = integration.name, self._queues
        path = objects(integration.group, integration.version, integration.plural)
        decode = partial(self._decode_job, kind=name)
        optional = name != BatchJob.integration  # every cluster has Jobs
        return Reflector[JobObject](
            f"jobs of {name}",
            watcher(self._client, path, labels=self._job_selector, optional=optional),
            decode,
            feed=Feed(
                listed=lambda found, version: queues.replace(
                    events.JobsListed(name, found, version)
                ),
                applied=lambda found: queues.apply(events.JobApplied(found)),
                deleted=lambda found: queues.apply(events.JobDeleted(found)),
                known=lambda which: queues.view().job_of(which.uid, which.namespace),
            ),
        )
