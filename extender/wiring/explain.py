"""`gang-extender explain`: it reads the API once, and decides as the reconciler would.

It sends the reconciler no request, so that it also works where no reconciler runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar, cast

import msgspec

from extender.api.explanations import Explanation
from extender.api.reasons import Unadmitted
from extender.api.wellknown import POD_GROUP_GROUPS, QUEUE_LABEL, WorkloadCondition
from extender.explain.facts import Facts
from extender.explain.workload import explain
from extender.jobs import registry
from extender.jobs.actions import ReportRefusal
from extender.jobs.kinds.pod_group import group_name_of
from extender.jobs.registry import Integration
from extender.jobs.workload import refusal
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder
from extender.kube.errors import NotFoundError
from extender.kube.lists import Reader, everything
from extender.kube.queues import objects
from extender.queueing.options import AdmissionOptions
from extender.queueing.pending import PendingQueues
from extender.queueing.quota import QuotaTree
from extender.queueing.room import AdmissionRules, requires_room
from extender.room.nodes import NodeRoom
from extender.snapshot.file import ObjectSource
from extender.state.cluster import events as cluster_events
from extender.state.cluster.store import Cluster
from extender.state.queue import events as ev
from extender.state.queue.events import Record
from extender.state.queue.records import (
    ClusterQueueInfo,
    CohortInfo,
    FlavorInfo,
    LimitRangeInfo,
    LocalQueueInfo,
    NamespaceInfo,
    OwnerRef,
    RuntimeClassInfo,
    TopologyInfo,
    WorkloadInfo,
)
from extender.state.queue.store import Queues
from extender.state.queue.view import QueueView
from extender.wiring.queue_sources import path_of

R = TypeVar("R", bound=Record)

OTHER_SETTINGS: Final = (
    "The reconciler wrote WaitingForRoom, so it asks for room; the settings of this command do "
    "not. Give it the reconciler's file with --config."
)


@dataclass(frozen=True, slots=True)
class ExplainTarget:
    """The job or Workload to explain."""

    namespace: str
    name: str
    is_job: bool
    kind: str | None = None
    """Of the job, as `Job` or `batch/job`; None: whichever there is."""


class NothingToExplainError(Exception):
    """There is no such object, or no queue admits it."""


class AmbiguousError(Exception):
    """Several jobs have the name."""


async def explained(
    asked: ExplainTarget, source: ObjectSource, options: AdmissionOptions, *, decoder: Decoder
) -> Explanation:
    """Return why a workload, or that of a job, is where it is.

    `options` are the reconciler's, and `decoder` has the resources that kube-scheduler ignores.

    Raises NothingToExplainError, AmbiguousError and ApiError.
    """
    client, of_queues = source.reader, QueueDecoder(decoder)
    queues, cluster = Queues(of_queues.completed), Cluster()
    await _read_queues(client, queues, of_queues)
    view = queues.view()
    key = f"{asked.namespace}/{asked.name}"
    if asked.is_job:
        key = workload_of(asked, view) or await _absent(client, asked, decoder)
    queues_there = view.cluster_queues.values()
    by_room = any(requires_room(q, options, view.flavors) for q in queues_there)
    if by_room:
        await _read_nodes(client, cluster, decoder)
    await _read_pods(client, cluster, decoder, namespace="" if by_room else asked.namespace)
    found = explain(key, _facts(view, cluster, options, now=source.clock.wall()))
    if found is None:
        raise NothingToExplainError(f"there is no Workload {key}")
    if asks_for_less(view.workloads[key], view, options):
        return found.model_copy(update={"notes": [*found.notes, OTHER_SETTINGS]})
    return found


def asks_for_less(workload: WorkloadInfo, view: QueueView, options: AdmissionOptions) -> bool:
    """Return whether the reconciler asks for room where these options do not."""
    written = workload.condition(WorkloadCondition.QUOTA_RESERVED)
    name = view.cluster_queue_of(workload)
    queue = view.cluster_queues.get(name) if name else None
    return (
        written is not None
        and written.reason == Unadmitted.WAITING_FOR_ROOM
        and queue is not None
        and not requires_room(queue, options, view.flavors)
    )


def _facts(view: QueueView, cluster: Cluster, options: AdmissionOptions, *, now: float) -> Facts:
    pending = PendingQueues(options)
    for key in view.workloads:
        pending.update(key, view, now)
    seen = cluster.view()
    rules = AdmissionRules(options, NodeRoom(view, seen), view.flavors)
    return Facts(view, pending, QuotaTree(view), rules, seen, now)


async def _read_queues(client: Reader, queues: Queues, decoder: QueueDecoder) -> None:
    async def read(plural: str, kind: type[R], decode: Callable[[bytes], R]) -> None:
        found = await everything(client, path_of(plural), decode)
        queues.apply(ev.Listed(cast("type[Record]", kind), found))

    try:
        await read("namespaces", NamespaceInfo, decoder.namespace)
        await read("limitranges", LimitRangeInfo, decoder.limit_range)
        await read("runtimeclasses", RuntimeClassInfo, decoder.runtime_class)
        await read("resourceflavors", FlavorInfo, decoder.flavor)
        await read("topologies", TopologyInfo, decoder.topology)
        await read("cohorts", CohortInfo, decoder.cohort)
        await read("clusterqueues", ClusterQueueInfo, decoder.cluster_queue)
        await read("localqueues", LocalQueueInfo, decoder.local_queue)
        await read("workloads", WorkloadInfo, decoder.workload)
    except NotFoundError as error:
        raise NothingToExplainError(f"the cluster has no queues: {error}") from error


async def _read_nodes(client: Reader, cluster: Cluster, decoder: Decoder) -> None:
    path = objects("", "v1", "nodes")
    cluster.apply(cluster_events.NodesListed(await everything(client, path, decoder.node)))


async def _read_pods(client: Reader, cluster: Cluster, decoder: Decoder, *, namespace: str) -> None:
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


def workload_of(asked: ExplainTarget, view: QueueView) -> str | None:
    """Return the workload of a job: one that has not ended before those that have."""
    found = [w for w in view.workloads.values() if _asked_for(asked, w)]
    kinds = sorted({each.kind for w in found for each in _asked_for(asked, w)})
    if len(kinds) > 1:
        raise AmbiguousError(f"there are several jobs {asked.name}, say --kind: {', '.join(kinds)}")
    found.sort(key=lambda w: (w.finished, -w.meta.created, w.meta.name))
    return found[0].key if found else None


def _asked_for(asked: ExplainTarget, workload: WorkloadInfo) -> list[OwnerRef]:
    """Return those owners of a workload that may be meant."""
    if workload.meta.namespace != asked.namespace:
        return []
    return [
        owner
        for owner in workload.owners
        if owner.name == asked.name
        and is_kind(asked.kind, owner.kind, f"{owner.api_version.rpartition('/')[0]}/{owner.kind}")
    ]


def is_kind(wanted: str | None, *names: str) -> bool:
    """Return whether one of the names of a kind is the wanted one; None is any."""
    return wanted is None or wanted.lower() in {name.lower() for name in names}


def unqueued(what: str, namespace: str, integration: str, *, has_queue: bool) -> str:
    """Return why a job that exists has no Workload, and where to look."""
    if not has_queue:
        return (
            f"{what} has no label {QUEUE_LABEL}, so no queue admits it. If its pods wait for their "
            f"gang: kubectl describe pg -n {namespace}"
        )
    return (
        f"{what} has no Workload yet. Look at its Events; if there are none, check that "
        f"gang-extender reconcile runs and that {integration} is among queue.integrations"
    )


async def _refused(
    client: Reader, kind: Integration, raw: bytes, *, namespace: str
) -> ReportRefusal | None:
    """Return why a job gets no Workload; the pods of a group are one job."""
    if kind.read is None:
        return refusal(kind.wrap(msgspec.json.decode(raw)))
    found = [kind.read(raw)]
    group = group_name_of(found[0].object)
    if group:
        pods = await everything(client, objects("", "v1", "pods", namespace=namespace), kind.read)
        found = [each for each in pods if group_name_of(each.object) == group]
    job = kind.wrap_all(found)
    return None if job.skip() else refusal(job)


async def _absent(client: Reader, asked: ExplainTarget, decoder: Decoder) -> str:
    """Raise NothingToExplainError with the reason why a job has no Workload."""
    reader = QueueDecoder(decoder)
    for each in registry.builtin().values():
        if not is_kind(asked.kind, each.kind, each.name, f"{each.group}/{each.kind}"):
            continue
        path = objects(each.group, each.version, each.plural, namespace=asked.namespace)
        try:
            raw = await client.request("GET", f"{path}/{asked.name}")
        except NotFoundError:
            continue
        what = f"{each.kind} {asked.namespace}/{asked.name}"
        has_queue = bool(reader.job(raw, kind=each.name).queue_name)
        refused = (
            await _refused(client, each, raw, namespace=asked.namespace) if has_queue else None
        )
        if refused is not None:
            raise NothingToExplainError(f"{what} has no Workload: {refused.message}")
        raise NothingToExplainError(unqueued(what, asked.namespace, each.name, has_queue=has_queue))
    kind = asked.kind or "job"
    raise NothingToExplainError(
        f"there is no {kind} {asked.namespace}/{asked.name} of a built-in kind, and no Workload of "
        "a job of that name"
    )
