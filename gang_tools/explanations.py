"""`gang-extender explain`: lists of the API server, or of a snapshot, and our own decisions.

It sends no process a request, so that it also works where none runs. It cannot know what only the
extender's memory has: plans are made anew for the groups that go first, and claims are decided as
the extender decides them.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from extender.api.explanations import Explanation, GroupExplanation, PodOutlook
from extender.api.reasons import Unadmitted
from extender.api.wellknown import GROUP_NATIVE, NATIVE_VERSIONS, QUEUE_LABEL, WorkloadCondition
from extender.config.settings import Settings
from extender.explain.facts import Facts, GroupFacts
from extender.explain.gang import explain_group, explain_pod
from extender.explain.workload import explain
from extender.gang import gates
from extender.gang.fit import Fit
from extender.gang.verdicts import GangOptions
from extender.jobs import registry
from extender.jobs.actions import ReportRefusal
from extender.jobs.fields import text
from extender.jobs.kinds.plain_pods import group_name_of
from extender.jobs.registry import Integration
from extender.jobs.workload import refusal
from extender.kube.decode import Decoder
from extender.kube.decode_queues import QueueDecoder, read_workload
from extender.kube.errors import ForbiddenError, NotFoundError
from extender.kube.queues import collection, objects
from extender.kube.watch import Reader, everything
from extender.permit.background import NodeClaims
from extender.queueing.pending import PendingQueues
from extender.queueing.quota import QuotaTree
from extender.queueing.rules import AdmissionOptions, AdmissionRules, requires_room
from extender.room.nodes import NodeRoom
from extender.runtime.clock import Clock, SystemClock
from extender.state.cluster import events as cluster_events
from extender.state.cluster.records import AdmittedPods, PodGroupInfo, PodInfo
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.view import QueueView
from extender.steps import at_once
from gang_tools.snapshot.file import ObjectSource
from gang_tools.snapshot.reading import ClusterReader

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
    """The kind of the job, such as `Job` or `batch/job`; None: whichever there is."""


class NothingToExplainError(Exception):
    """There is no such object, or no queue admits it."""


class AmbiguousError(Exception):
    """Several jobs have the name."""


async def explained(
    source: ObjectSource, settings: Settings, *, asked: ExplainTarget
) -> Explanation:
    """Return why a workload, or that of a job, is where it is, by the reconciler's settings.

    Raises NothingToExplainError, AmbiguousError and ApiError.
    """
    read, options = ClusterReader(source.reader, settings.gang), settings.queue.options()
    try:
        await read.read_queues()
    except NotFoundError as error:
        raise NothingToExplainError(f"the cluster has no queues: {error}") from error
    view = read.queues.view()
    key = f"{asked.namespace}/{asked.name}"
    if asked.is_job:
        queued = workload_of(asked, view.workloads.values())
        key = queued or await _absent(source.reader, asked, read.decoder)
    queues_there = view.cluster_queues.values()
    by_room = any(requires_room(q, options, view.flavors) for q in queues_there)
    if by_room:
        await read.read_nodes()
    await read.read_pods("" if by_room else asked.namespace)
    pending, now = PendingQueues(options), source.clock.wall()
    for each in view.workloads:
        pending.update(each, view, now)
    seen = read.cluster.view()
    rules = AdmissionRules(options, NodeRoom(view, seen), view.flavors)
    found = explain(key, Facts(view, pending, QuotaTree(view), rules, seen, now))
    if found is None:
        raise NothingToExplainError(f"there is no Workload {key}")
    if asks_for_less(view.workloads[key], view, options):
        return found.model_copy(update={"notes": [*found.notes, OTHER_SETTINGS]})
    return found


def asks_for_less(workload: WorkloadInfo, view: QueueView, options: AdmissionOptions) -> bool:
    """Return whether the reconciler asks for room where these options do not."""
    written = workload.condition(WorkloadCondition.QUOTA_RESERVED)
    queue = view.cluster_queues.get(view.cluster_queue_of(workload) or "")
    return (
        written is not None
        and written.reason == Unadmitted.WAITING_FOR_ROOM
        and queue is not None
        and not requires_room(queue, options, view.flavors)
    )


def workload_of(
    asked: ExplainTarget, workloads: Iterable[WorkloadInfo], *, of_any_kind: bool = False
) -> str | None:
    """Return the key of a job's workload: of one that has not ended before those that have.

    Raises AmbiguousError where there are jobs of several kinds, unless one of them is enough.
    """
    found = dict[str, WorkloadInfo]()
    kinds = set[str]()
    for workload in workloads:
        for owner in workload.owners if workload.meta.namespace == asked.namespace else ():
            group = owner.api_version.rpartition("/")[0]
            names = owner.kind, f"{group}/{owner.kind}"
            if owner.name == asked.name and is_kind(asked.kind, *names):
                found[workload.key] = workload
                kinds.add(owner.kind)
    if len(kinds) > 1 and not of_any_kind:
        named = ", ".join(sorted(kinds))
        raise AmbiguousError(f"there are several jobs {asked.name}, say --kind: {named}")
    return min(found, key=lambda k: (found[k].finished, -found[k].meta.created, k), default=None)


def is_kind(wanted: str | None, *names: str) -> bool:
    """Return whether one of the names of a kind is the wanted one; None means any."""
    return wanted is None or wanted.lower() in {name.lower() for name in names}


async def _refused(
    client: Reader, kind: Integration, raw: bytes, *, namespace: str
) -> ReportRefusal | None:
    """Return why a job gets no Workload; the pods of a group are one job."""
    if kind.read is None:
        job = kind.wrap(msgspec.json.decode(raw))
        if kind.child is not None:
            group, version, plural = kind.child.group, kind.child.version, kind.child.plural
            path = objects(group, version, plural, namespace=namespace)
            with suppress(NotFoundError):
                name = text(job.object, "metadata", "name")
                job.child = msgspec.json.decode(await client.request("GET", f"{path}/{name}"))
        return refusal(job)
    found = [kind.read(raw)]
    group = group_name_of(found[0].object)
    if group:
        pods = await everything(client, objects("", "v1", "pods", namespace=namespace), kind.read)
        found = [each for each in pods if group_name_of(each.object) == group]
    job = kind.wrap_all(found)
    return None if job.skip() else refusal(job)


async def _absent(client: Reader, asked: ExplainTarget, decoder: Decoder) -> str:
    """Raise NothingToExplainError with the reason why a job has no Workload."""
    for each in registry.builtin().values():
        if not is_kind(asked.kind, each.kind, each.name, f"{each.group}/{each.kind}"):
            continue
        path = objects(each.group, each.version, each.plural, namespace=asked.namespace)
        try:
            raw = await client.request("GET", f"{path}/{asked.name}")
        except NotFoundError:
            continue
        what = f"{each.kind} {asked.namespace}/{asked.name}"
        if not QueueDecoder(decoder).job(raw, kind=each.name).queue_name:
            raise NothingToExplainError(
                f"{what} has no label {QUEUE_LABEL}, so no queue admits it. If its pods wait for "
                f"their gang: kubectl describe pg -n {asked.namespace}"
            )
        refused = await _refused(client, each, raw, namespace=asked.namespace)
        if refused is not None:
            raise NothingToExplainError(f"{what} has no Workload: {refused.message}")
        raise NothingToExplainError(
            f"{what} has no Workload yet. Look at its Events; if there are none, check that "
            f"gang-extender reconcile runs and that {each.name} is among queue.integrations"
        )
    kind = asked.kind or "job"
    raise NothingToExplainError(
        f"there is no {kind} {asked.namespace}/{asked.name} of a built-in kind, and no Workload of "
        "a job of that name"
    )


async def explained_group(
    source: ObjectSource, settings: Settings, *, key: str
) -> GroupExplanation:
    """Return why a group, `namespace/name`, is where it is, by the extender's settings.

    Raises NothingToExplainError and ApiError.
    """
    cluster, _ = await _read_all(source.reader, settings)
    facts = facts_of(cluster, key, settings.gang.options(), clock=source.clock)
    found = at_once(explain_group(key, facts))
    if found is None:
        raise NothingToExplainError(no_group(key, cluster.view()))
    return found


async def explained_pod(source: ObjectSource, settings: Settings, *, key: str) -> PodOutlook:
    """Return why a pod, `namespace/name`, is where it is, as far as gangs have to do with it.

    Raises NothingToExplainError and ApiError.
    """
    cluster, pods = await _read_all(source.reader, settings)
    pod = next((each for each in pods if each.key == key), None)
    if pod is None:
        raise NothingToExplainError(f"there is no Pod {key}")
    facts = facts_of(cluster, pod.group, settings.gang.options(), clock=source.clock)
    return at_once(explain_pod(pod, facts))


def no_group(key: str, view: ClusterView) -> str:
    """Return that there is no group of this name, and the groups of its namespace."""
    namespace = key.partition("/")[0]
    known = {*view.pod_groups, *view.groups}
    names = sorted(each.partition("/")[2] for each in known if each.startswith(f"{namespace}/"))
    there = f"; there are {', '.join(names[:10])}" if names else "; that namespace has none"
    return f"there is no PodGroup {key}, and no pod names it{there}"


async def _read_all(client: Reader, settings: Settings) -> tuple[Cluster, list[PodInfo]]:
    """Return the cluster as the API server has it, and all pods, ended ones too."""
    read = ClusterReader(client, settings.gang)
    cluster = read.cluster
    await read.read_nodes()
    await read.read_batch_jobs()
    pods = await read.read_pods()
    with suppress(NotFoundError):
        path = collection("workloads", "")
        admitted = await everything(client, path, read_workload)
        cluster.apply(cluster_events.ObjectsListed(AdmittedPods, admitted))
        cluster.apply(cluster_events.AdmissionKnown(in_use=True))
    for version in NATIVE_VERSIONS:
        path = objects(GROUP_NATIVE, version, "podgroups")
        with suppress(NotFoundError, ForbiddenError):
            found = await everything(client, path, read.decoder.native_pod_group)
            cluster.apply(cluster_events.ObjectsListed(PodGroupInfo, found, GROUP_NATIVE))
            break
    if cluster.view().natives_are_ours is None:  # kube-scheduler has written no condition
        cluster.apply(cluster_events.NativesDecided(ours=True))
    there = cluster.view().pods
    return cluster, [there.get(pod.uid, pod) for pod in pods]


def facts_of(
    cluster: Cluster,
    group: str | None,
    options: GangOptions,
    *,
    clock: Clock | None = None,
    claims: NodeClaims | None = None,
) -> GroupFacts:
    """Return the known state, with the room that the extender would keep for others.

    Without a clock the time is that of the machine, and without `claims` groups have waited for
    as long as they say.
    """
    view, clock = cluster.view(), clock or SystemClock()
    for key in view.pod_groups:
        pod_group = view.pod_group(key)
        if pod_group is not None and pod_group.nomination is not None:
            cluster.apply(cluster_events.Nominated(key, pod_group.nomination))
    at_once((claims or NodeClaims(cluster, options=options, clock=clock)).looking())
    pod_group = view.pod_group(group or "")
    if pod_group is not None and pod_group.key in view.queue:
        # Room is kept for the groups that go first, as the extender does before it plans this one.
        schedulers = {pod.scheduler for pod in view.members(pod_group.key)}

        def is_last(other: PodGroupInfo) -> bool:
            return view.quorum(other) - view.tally(other.key).committed <= 1

        for other in gates.groups_ahead(pod_group, view=view, skip=is_last):
            found = at_once(gates.plan_unasked(other, view=view, schedulers=schedulers))
            if isinstance(found, Fit):
                cluster.apply(cluster_events.Planned(found.placements))

    def never_starts(other: PodGroupInfo) -> bool:
        return at_once(gates.never_fits(other, view=view)) is not None

    return GroupFacts(view, options, clock.wall(), never_starts=never_starts)
