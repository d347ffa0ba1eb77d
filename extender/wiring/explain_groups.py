"""`gang-extender explain podgroup` and `pod`: one list of each kind, and the extender's decisions.

It sends the extender no request, so that it also works where none runs. What is in the extender's
memory alone it cannot know: plans are made anew for the groups that go first, and claims decided as
the extender decides them.
"""

from contextlib import suppress
from functools import partial

from extender.api.explanations import GroupExplanation, PodOutlook
from extender.api.wellknown import GROUP_NATIVE, NATIVE_VERSIONS, POD_GROUP_GROUPS
from extender.explain.facts import GroupFacts
from extender.explain.gang import explain_group, explain_pod
from extender.gang import plan
from extender.gang.fit import Fit
from extender.gang.options import GangOptions
from extender.kube import admitted_pods
from extender.kube.decode import Decoder
from extender.kube.errors import ForbiddenError, NotFoundError
from extender.kube.lists import Reader, everything
from extender.kube.queues import collection, objects
from extender.permit.aging import Aging
from extender.runtime.clock import Clock, SystemClock
from extender.snapshot.file import ObjectSource
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView
from extender.steps import at_once
from extender.wiring.explain import NothingToExplainError


async def explained_group(
    key: str, source: ObjectSource, options: GangOptions, *, decoder: Decoder
) -> GroupExplanation:
    """Return why a group, `namespace/name`, is where it is; `options` are the extender's.

    Raises NothingToExplainError and ApiError.
    """
    cluster, _ = await _read(source.reader, decoder)
    facts = facts_of(cluster, key, options, clock=source.clock)
    found = at_once(explain_group(key, facts))
    if found is None:
        raise NothingToExplainError(no_group(key, cluster.view()))
    return found


async def explained_pod(
    key: str, source: ObjectSource, options: GangOptions, *, decoder: Decoder
) -> PodOutlook:
    """Return why a pod, `namespace/name`, is where it is, as far as gangs have to do with it.

    Raises NothingToExplainError and ApiError.
    """
    cluster, pods = await _read(source.reader, decoder)
    pod = next((each for each in pods if each.key == key), None)
    if pod is None:
        raise NothingToExplainError(f"there is no Pod {key}")
    facts = facts_of(cluster, pod.group, options, clock=source.clock)
    return at_once(explain_pod(pod, facts))


def no_group(key: str, view: ClusterView) -> str:
    """Return that there is no such group, and those of its namespace."""
    namespace = key.partition("/")[0]
    known = {*view.pod_groups, *view.groups}
    names = sorted(each.partition("/")[2] for each in known if each.startswith(f"{namespace}/"))
    there = f"; there are {', '.join(names[:10])}" if names else "; that namespace has none"
    return f"there is no PodGroup {key}, and no pod names it{there}"


async def _read(client: Reader, decoder: Decoder) -> tuple[Cluster, list[PodInfo]]:
    """Return the cluster as the API server has it, and all pods, ended ones too."""
    cluster = Cluster()
    nodes = await everything(client, objects("", "v1", "nodes"), decoder.node)
    jobs = await everything(client, objects("batch", "v1", "jobs"), decoder.job)
    pods = await everything(client, objects("", "v1", "pods"), decoder.pod)
    for event in (ev.NodesListed(nodes), ev.BatchJobsListed(jobs), ev.PodsListed(pods)):
        cluster.apply(event)
    for group in POD_GROUP_GROUPS:
        decode = partial(decoder.pod_group, api_group=group)
        path = objects(group, "v1alpha1", "podgroups")
        with suppress(NotFoundError):
            found = await everything(client, path, decode)
            cluster.apply(ev.PodGroupsListed(group, found))
    with suppress(NotFoundError):
        path = collection("workloads", "")
        admitted = await everything(client, path, admitted_pods.read)
        cluster.apply(ev.WorkloadsListed(admitted))
    await _read_natives(client, cluster, decoder)
    there = cluster.view().pods
    return cluster, [there.get(pod.uid, pod) for pod in pods]


async def _read_natives(client: Reader, cluster: Cluster, decoder: Decoder) -> None:
    """Take native PodGroups in; without a condition of kube-scheduler's they count as ours."""
    for version in NATIVE_VERSIONS:
        path = objects(GROUP_NATIVE, version, "podgroups")
        with suppress(NotFoundError, ForbiddenError):
            found = await everything(client, path, decoder.native_pod_group)
            cluster.apply(ev.PodGroupsListed(GROUP_NATIVE, found))
            break
    if cluster.view().natives_are_ours is None:
        cluster.apply(ev.NativesDecided(ours=True))


def facts_of(
    cluster: Cluster, group: str | None, options: GangOptions, *, clock: Clock | None = None
) -> GroupFacts:
    """Return what is known, with the room that the extender keeps for others by its decisions.

    Without a clock the time is that of the machine.
    """
    view, clock = cluster.view(), clock or SystemClock()
    for key in view.pod_groups:
        pod_group = view.pod_group(key)
        if pod_group is not None and pod_group.nomination is not None:
            cluster.apply(ev.Nominated(key, pod_group.nomination))
    at_once(Aging(cluster, options=options, clock=clock).looking())
    pod_group = view.pod_group(group or "")
    if pod_group is not None and pod_group.key in view.queue:
        _plan_ahead(pod_group, cluster)
    return GroupFacts(view, options, clock.wall(), never_starts=partial(_never_starts, view=view))


def _plan_ahead(pod_group: PodGroupInfo, cluster: Cluster) -> None:
    """Keep room for the groups that go first, as the extender does before it plans this one."""
    view = cluster.view()
    schedulers = {pod.scheduler for pod in view.members(pod_group.key)}

    def is_last(other: PodGroupInfo) -> bool:
        return view.quorum(other) - view.tally(other.key).committed <= 1

    for other in plan.groups_ahead(pod_group, view=view, skip=is_last):
        found = at_once(plan.plan_unasked(other, view=view, schedulers=schedulers))
        if isinstance(found, Fit):
            cluster.apply(ev.Planned(found.placements))


def _never_starts(pod_group: PodGroupInfo, *, view: ClusterView) -> bool:
    return at_once(plan.never_fits(pod_group, view=view)) is not None
