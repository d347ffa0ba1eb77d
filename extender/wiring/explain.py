"""What `gang-extender explain` does: reads the API once, and judges as the reconciler would.

Nothing of the reconciler is asked, so that it also helps where that does not run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, cast

from extender.api.visibility_v1beta2 import Explanation
from extender.api.wellknown import POD_GROUP_GROUPS, QUEUE_LABEL
from extender.explain.explanation import explain
from extender.explain.view import View
from extender.jobs import registry
from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.errors import NotFoundError
from extender.kube.lists import everything
from extender.kube.queues import collection, objects
from extender.queueing.options import Options
from extender.queueing.pending import PendingQueues
from extender.queueing.quota import QuotaTree
from extender.queueing.room import requires_room
from extender.room.nodes import NodeRoom
from extender.runtime.clock import SystemClock
from extender.state import events as cluster_events
from extender.state.cluster import Cluster
from extender.state.queues import events as ev
from extender.state.queues.events import Record
from extender.state.queues.records import (
    ClusterQueueInfo,
    CohortInfo,
    FlavorInfo,
    LimitRangeInfo,
    LocalQueueInfo,
    NamespaceInfo,
    OwnerRef,
    RuntimeClassInfo,
    WorkloadInfo,
)
from extender.state.queues.snapshot import QueueSnapshot
from extender.state.queues.store import Queues

R = TypeVar("R", bound=Record)

_ELSEWHERE: Final = {
    "namespaces": "/api/v1/namespaces",
    "limitranges": "/api/v1/limitranges",
    "runtimeclasses": "/apis/node.k8s.io/v1/runtimeclasses",
}
"""Paths of what is not among the queue's own kinds."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be explained."""

    namespace: str
    name: str
    is_job: bool
    kind: str | None = None
    """Of the job, as `Job` or `batch/job`; None: whichever there is."""


class NothingToExplainError(Exception):
    """There is no such object, or nothing queues it."""


class AmbiguousError(Exception):
    """Several jobs have the name."""


async def explained(
    asked: Asked, kubeconfig: Path | None, options: Options, *, decoder: Decoder
) -> Explanation:
    """Return why a workload, or that of a job, is where it is.

    `options` are the reconciler's, and `decoder` knows the resources that kube-scheduler ignores.

    Raises NothingToExplainError, AmbiguousError, ApiError and ConfigurationError.
    """
    async with KubeClient(await keyring(kubeconfig)) as client:
        of_queues = QueueDecoder(decoder)
        queues, cluster = Queues(of_queues.completed), Cluster()
        await _read_queues(client, queues, of_queues)
        snapshot = queues.snapshot()
        key = f"{asked.namespace}/{asked.name}"
        if asked.is_job:
            key = _workload_of(asked, snapshot) or await _absent(client, asked, decoder)
        by_room = any(requires_room(q, options) for q in snapshot.cluster_queues.values())
        if by_room:
            await _read_nodes(client, cluster, decoder)
        await _read_pods(client, cluster, decoder, namespace="" if by_room else asked.namespace)
        found = explain(key, _view(snapshot, cluster, options))
        if found is None:
            raise NothingToExplainError(f"there is no Workload {key}")
        return found


def _view(snapshot: QueueSnapshot, cluster: Cluster, options: Options) -> View:
    now = SystemClock().wall()
    pending = PendingQueues(options)
    for key in snapshot.workloads:
        pending.update(key, snapshot, now)
    seen = cluster.snapshot()
    room = NodeRoom(snapshot, seen)
    return View(snapshot, pending, QuotaTree(snapshot), options, seen, now, room=room)


async def _read_queues(client: KubeClient, queues: Queues, decoder: QueueDecoder) -> None:
    async def read(plural: str, kind: type[R], decode: Callable[[bytes], R]) -> None:
        path = _ELSEWHERE.get(plural) or collection(plural, "")
        queues.apply(ev.Listed(cast("type[Record]", kind), await everything(client, path, decode)))

    try:
        await read("namespaces", NamespaceInfo, decoder.namespace)
        await read("limitranges", LimitRangeInfo, decoder.limit_range)
        await read("runtimeclasses", RuntimeClassInfo, decoder.runtime_class)
        await read("resourceflavors", FlavorInfo, decoder.flavor)
        await read("cohorts", CohortInfo, decoder.cohort)
        await read("clusterqueues", ClusterQueueInfo, decoder.cluster_queue)
        await read("localqueues", LocalQueueInfo, decoder.local_queue)
        await read("workloads", WorkloadInfo, decoder.workload)
    except NotFoundError as error:
        raise NothingToExplainError(f"the cluster has no queues: {error}") from error


async def _read_nodes(client: KubeClient, cluster: Cluster, decoder: Decoder) -> None:
    path = objects("", "v1", "nodes")
    cluster.apply(cluster_events.NodesListed(await everything(client, path, decoder.node)))


async def _read_pods(
    client: KubeClient, cluster: Cluster, decoder: Decoder, *, namespace: str
) -> None:
    path = objects("", "v1", "pods", namespace=namespace)
    pods = await everything(client, path, decoder.pod)
    cluster.apply(cluster_events.PodsListed(pods))
    for group in POD_GROUP_GROUPS:
        path = objects(group, "v1alpha1", "podgroups", namespace=namespace)
        decode = partial(decoder.pod_group, api_group=group)
        try:
            found = await everything(client, path, decode)
        except NotFoundError:
            continue
        cluster.apply(cluster_events.PodGroupsListed(group, found))


def _workload_of(asked: Asked, snapshot: QueueSnapshot) -> str | None:
    """Return the workload of a job: one that has not ended before those that have."""
    found = [w for w in snapshot.workloads.values() if _asked_for(asked, w)]
    kinds = sorted({each.kind for w in found for each in _asked_for(asked, w)})
    if len(kinds) > 1:
        raise AmbiguousError(f"there are several jobs {asked.name}, say --kind: {', '.join(kinds)}")
    found.sort(key=lambda w: (w.finished, -w.meta.created, w.meta.name))
    return found[0].key if found else None


def _asked_for(asked: Asked, workload: WorkloadInfo) -> list[OwnerRef]:
    """Return those owners of a workload that may be meant."""
    if workload.meta.namespace != asked.namespace:
        return []
    return [
        owner
        for owner in workload.owners
        if owner.name == asked.name
        and _is_kind(asked.kind, owner.kind, f"{owner.api_version.rpartition('/')[0]}/{owner.kind}")
    ]


def _is_kind(wanted: str | None, *names: str) -> bool:
    return wanted is None or wanted.lower() in {name.lower() for name in names}


async def _absent(client: KubeClient, asked: Asked, decoder: Decoder) -> str:
    """Say why a job has no workload; always raises NothingToExplainError."""
    reader = QueueDecoder(decoder)
    for each in registry.builtin().values():
        if not _is_kind(asked.kind, each.kind, each.name, f"{each.group}/{each.kind}"):
            continue
        path = objects(each.group, each.version, each.plural, namespace=asked.namespace)
        try:
            raw = await client.request("GET", f"{path}/{asked.name}")
        except NotFoundError:
            continue
        job, what = reader.job(raw, kind=each.name), f"{each.kind} {asked.namespace}/{asked.name}"
        if not job.queue_name:
            text = f"{what} has no label {QUEUE_LABEL}: nothing queues it"
        else:
            text = f"{what} has no Workload yet: is the reconciler running?"
        raise NothingToExplainError(text)
    kind = asked.kind or "job"
    raise NothingToExplainError(f"there is no {kind} {asked.namespace}/{asked.name}")
