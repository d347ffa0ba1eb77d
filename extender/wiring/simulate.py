"""`gang-extender simulate --from-cluster`: reads the state of a cluster once."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from extender.api.wellknown import POD_GROUP_GROUPS
from extender.config import Settings
from extender.jobs import registry
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.errors import ForbiddenError, NotFoundError
from extender.kube.lists import Reader, everything
from extender.kube.queues import objects
from extender.simulate.expected import expected
from extender.simulate.taking_over import Believed, world_of_state
from extender.simulate.world import World
from extender.snapshot.file import ObjectSource
from extender.state.cluster import events as ce
from extender.state.cluster.records import JobInfo, PodInfo
from extender.state.cluster.store import Cluster
from extender.state.queue import events as qe
from extender.state.queue.events import Record
from extender.state.queue.store import Queues
from extender.wiring.queue_sources import path_of

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_JOB: Final = "batch/job"


async def world_of_cluster(
    source: ObjectSource, settings: Settings, *, assumed: float | None
) -> World:
    """Return a world that starts from the state of a cluster, or of a snapshot.

    Pods that do not say how long they run, run for `assumed` seconds. Raises ApiError.
    """
    gang = settings.gang
    read = _ClusterReading(source.reader, Decoder(gang.ignored(), placement=gang.placement))
    await read.queues_there()
    await read.nodes_and_pods()
    await read.jobs_there()
    return world_of_state(
        Believed(
            read.cluster.view(),
            read.queues.view(),
            source.clock.wall(),
            gang.options(),
            settings.queue.options(),
            makes_groups=settings.queue.pod_groups == "Auto",
            runs=read.runs,
            assumed=assumed,
        )
    )


class _ClusterReading:
    """One list of each kind; kinds that the cluster does not have are left out."""

    def __init__(self, client: Reader, decoder: Decoder) -> None:
        self._client, self._decoder = client, decoder
        self._of_queues = QueueDecoder(decoder)
        self.cluster, self.queues = Cluster(), Queues(self._of_queues.completed)
        self.runs: dict[str, float] = {}
        """For how many seconds pods run in all, by their UID or that of their Job."""

    async def queues_there(self) -> None:
        """Read queues and workloads. Raises ApiError."""
        of = self._of_queues
        kinds: dict[str, Callable[[bytes], Record]] = {
            "namespaces": of.namespace,
            "limitranges": of.limit_range,
            "runtimeclasses": of.runtime_class,
            "priorityclasses": of.priority_class,
            "workloadpriorityclasses": of.workload_priority_class,
            "resourceflavors": of.flavor,
            "topologies": of.topology,
            "cohorts": of.cohort,
            "clusterqueues": of.cluster_queue,
            "localqueues": of.local_queue,
            "workloads": of.workload,
        }
        for plural, decode in kinds.items():
            with suppress(NotFoundError, *((ForbiddenError,) if "priority" in plural else ())):
                for found in await everything(self._client, path_of(plural), decode):
                    self.queues.apply(qe.Applied(found))

    async def nodes_and_pods(self) -> None:
        """Read nodes, pods and PodGroups. Raises ApiError."""
        client, decoder, cluster = self._client, self._decoder, self.cluster
        nodes = await everything(client, objects("", "v1", "nodes"), decoder.node)
        cluster.apply(ce.NodesListed(nodes))
        pods = await everything(client, objects("", "v1", "pods"), self._pod)
        cluster.apply(ce.PodsListed([pod for pod in pods if not pod.finished]))
        for group in POD_GROUP_GROUPS:
            decode = partial(decoder.pod_group, api_group=group)
            with suppress(NotFoundError):
                found = await everything(client, objects(group, "v1alpha1", "podgroups"), decode)
                cluster.apply(ce.PodGroupsListed(group, found))

    async def jobs_there(self) -> None:
        """Read jobs of all kinds. Raises ApiError."""
        jobs = await everything(self._client, objects("batch", "v1", "jobs"), self._batch_job)
        self.cluster.apply(ce.BatchJobsListed(jobs))
        for each in registry.builtin().values():
            if each.compose is not None:
                continue  # pods, which were read
            path = objects(each.group, each.version, each.plural)
            decode = partial(self._of_queues.job, kind=each.name, done=each.done)
            # The roles of users list no job of another kind; its workload says most of it.
            with suppress(NotFoundError, ForbiddenError):
                for job in await everything(self._client, path, decode):
                    self.queues.apply(qe.JobApplied(job))

    def _pod(self, raw: bytes) -> PodInfo:
        pod = self._decoder.pod(raw)
        self._note(pod.uid, _decode(raw))
        return pod

    def _batch_job(self, raw: bytes) -> JobInfo:
        job, source = self._decoder.job(raw), _decode(raw)
        self._note(job.uid, source, source.get("spec", {}).get("template", {}))
        return job

    def _note(self, uid: str, *parts: dict[str, Any]) -> None:
        runs = expected(parts[0], parts[1:])
        if runs is not None:
            self.runs[uid] = runs
