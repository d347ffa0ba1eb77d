"""The reflectors that feed the state of the cluster, in either process.

`admissions` are those by which `serve` knows which jobs are queued, and for how many pods each is
admitted. If one is missing, pods of jobs wait and other pods do not. Nothing waits for a kind that
the API server does not have.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from prometheus_client import CollectorRegistry

from extender.api.core_v1 import ObjectMeta, matches_selector
from extender.api.wellknown import GROUP_NATIVE, NATIVE_VERSIONS, POD_GROUP_GROUPS
from extender.config.gang import Gang
from extender.jobs import registry
from extender.jobs.kinds.batch_job import BatchJob
from extender.kube.claims import DECODERS
from extender.kube.client import KubeClient
from extender.kube.decode import Decoder
from extender.kube.decode_queues import (
    MANAGED_JOBS,
    NOT_MANAGED,
    ManagedJobs,
    read_job,
    read_managed_jobs,
    read_namespace,
    read_workload,
)
from extender.kube.queues import collection, config_maps, objects
from extender.kube.reflector import Feed, Identity, ObjectsSetAside, Reflector
from extender.kube.watch import Watcher
from extender.runtime.faults import FAULTS, Backoff
from extender.state.cluster import events
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import (
    BATCH_JOB,
    AdmittedPods,
    BudgetInfo,
    ClaimInfo,
    JobInfo,
    NodeInfo,
    PodGroupInfo,
    PodInfo,
)
from extender.state.cluster.store import Cluster
from extender.telemetry.metrics import ComputedMetrics, objects_set_aside

NATIVE_GROUPS: Final = f"podgroups.{GROUP_NATIVE}"
ALL_PODS: Final = ""
LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""The pods that kube-scheduler watches: finished pods hold nothing, and show up as deleted."""

R = TypeVar("R", bound=events.Record)


def empty_cluster(gang: Gang) -> Cluster:
    """Return a state that has seen nothing yet. Raises SettingsError."""
    cluster, ours = Cluster(growing=gang.growing), gang.natives()
    if ours is not None:
        cluster.apply(events.NativesDecided(ours, fixed=True))
    return cluster


def backoff(base: float, cap: float) -> Backoff:
    """Return pauses from `base` to `cap` seconds, spread so that no two clients move in step."""
    return Backoff(base, cap, jitter=lambda: random.uniform(0.5, 1.0))  # noqa: S311


def watcher(
    client: KubeClient,
    path: str | Sequence[str],
    *,
    fields: str = "",
    labels: str = "",
    optional: bool = False,
) -> Watcher:
    """Return a watch of all objects at a path, or of those that the selectors select.

    An `optional` one waits where the API server does not have the path.
    """
    return Watcher(
        client,
        path,
        sleep=asyncio.sleep,
        backoff=backoff(0.1, 5.0),
        selectors={"fieldSelector": fields, "labelSelector": labels},
        optional=optional,
    )


def cluster_feed(
    cluster: Cluster,
    kind: type[R],
    known: Callable[[Identity], R | None] = lambda _: None,
    *,
    part: str = "",
) -> Feed[R]:
    """Return what brings objects of one type into the cluster's state, or those of a `part`."""
    of = cast("type[events.Record]", kind)
    return Feed(
        lambda found, _: cluster.replace(events.ObjectsListed(of, found, part)),
        lambda found: cluster.apply(events.ObjectApplied(found)),
        cluster.delete,
        known,
    )


def claim_reflectors(client: KubeClient, cluster: Cluster) -> Iterator[Reflector[Any]]:
    """Yield a reflector for each kind that pods claim; only gangs with claims wait for it."""
    for path, (prefix, decode) in DECODERS.items():
        feed: Feed[Any] = cluster_feed(cluster, ClaimInfo, part=prefix)
        kind = path.rpartition("/")[2]
        reflector = Reflector[Any](kind, watcher(client, path, optional=True), decode, feed=feed)
        reflector.needed = False
        yield reflector


def reflectors(
    client: KubeClient,
    cluster: Cluster,
    decoder: Decoder,
    *,
    pods: str,
) -> list[Reflector[Any]]:
    """Return the reflectors of the cluster: pods, nodes, Jobs, budgets, PodGroups of all APIs.

    `pods` is the field selector for pods.
    """
    seen = cluster.view()

    def pod(raw: bytes) -> PodInfo:
        """Return the pod as it is held already, where nothing about it is new: it takes memory."""
        found = decoder.pod(raw)
        held = seen.pods.get(found.uid)
        return held if held == found else found

    def known_group(api_group: str, which: Identity) -> PodGroupInfo | None:
        found = seen.pod_group_of(api_group, which.key)
        return found if found is not None and found.uid == which.uid else None

    def pod_groups(group: str) -> Reflector[PodGroupInfo]:
        return Reflector(
            f"podgroups.{group}",
            watcher(client, f"/apis/{group}/v1alpha1/podgroups"),
            partial(decoder.pod_group, api_group=group),
            feed=cluster_feed(cluster, PodGroupInfo, partial(known_group, group), part=group),
        )

    def native_groups() -> Reflector[PodGroupInfo]:
        """Follow native PodGroups if the API server has them, perhaps after an upgrade.

        Nothing else waits for them: their API is in the making, and off by default.
        """
        paths = [f"/apis/{GROUP_NATIVE}/{version}/podgroups" for version in NATIVE_VERSIONS]
        watch, was_absent = watcher(client, paths, optional=True), False
        feed = cluster_feed(
            cluster, PodGroupInfo, partial(known_group, GROUP_NATIVE), part=GROUP_NATIVE
        )

        def listed(found: Sequence[PodGroupInfo], version: int) -> Iterator[object]:
            # No gang can be started without its PodGroup, so where these cannot be read their pods
            # pass as if there was no extender. When they can be read the question is open again.
            nonlocal was_absent
            if watch.is_absent != was_absent:
                was_absent = watch.is_absent
                ours = False if was_absent else None
                cluster.apply(events.NativesDecided(ours=ours))
            return feed.listed(found, version)

        reflector = Reflector(
            NATIVE_GROUPS, watch, decoder.native_pod_group, feed=replace(feed, listed=listed)
        )
        reflector.needed = False
        return reflector

    of_pods = cluster_feed(cluster, PodInfo, lambda which: seen.pods.get(which.uid))
    of_nodes = cluster_feed(cluster, NodeInfo, lambda which: seen.nodes.get(which.name))
    of_jobs = cluster_feed(cluster, JobInfo, lambda which: seen.job(which.uid), part=BATCH_JOB)
    of_budgets = cluster_feed(
        cluster, BudgetInfo, lambda which: seen.budget(which.namespace, which.name)
    )
    members = Reflector("pods", watcher(client, "/api/v1/pods", fields=pods), pod, feed=of_pods)
    members.on_list = lambda: cluster.apply(events.PodsListing())
    nodes = Reflector("nodes", watcher(client, "/api/v1/nodes"), decoder.node, feed=of_nodes)
    jobs = Reflector("jobs", watcher(client, "/apis/batch/v1/jobs"), decoder.job, feed=of_jobs)
    disruptions = Reflector(
        "poddisruptionbudgets",
        watcher(client, "/apis/policy/v1/poddisruptionbudgets"),
        decoder.budget,
        feed=of_budgets,
    )
    groups = map(pod_groups, POD_GROUP_GROUPS)
    return [
        *(members, nodes, jobs, disruptions),
        *groups,
        native_groups(),
    ]


def set_aside(
    cluster: Cluster,
    reflectors: Iterable[Reflector[Any]],
    aside: ObjectsSetAside,
    *,
    registry: CollectorRegistry,
) -> None:
    """Set objects aside that cannot be read, and count errors of listeners."""
    cluster.on_fault = partial(FAULTS.report, "cluster")
    for reflector in reflectors:
        reflector.aside = aside
    registry.register(ComputedMetrics(lambda: objects_set_aside(aside.counts)))


def admissions(client: KubeClient, cluster: Cluster, namespace: str) -> Iterator[Reflector[Any]]:
    """Yield the reflectors of admission; `namespace` is that of the reconciler."""
    cluster.apply(events.AdmissionKnown(None))
    for each in _Admissions(client, cluster).reflectors(namespace):
        each.needed = False
        yield each


class _Admissions:
    def __init__(self, client: KubeClient, cluster: Cluster) -> None:
        self._client, self._cluster, self._view = client, cluster, cluster.view()
        self._managed = NOT_MANAGED
        self._labels: dict[str, Mapping[str, str]] = {}
        """Labels of namespaces by name."""

    def reflectors(self, namespace: str) -> Iterator[Reflector[Any]]:
        yield self._workloads()
        for each in registry.builtin().values():
            if not each.compose and not each.parts and each.name != BatchJob.integration:
                path = objects(each.group, each.version, each.plural)
                yield self._jobs(f"{each.group}/{each.kind}", path)
        yield self._managed_jobs(namespace)
        yield self._namespaces()

    def _workloads(self) -> Reflector[AdmittedPods]:
        cluster, path = self._cluster, collection("workloads", "")
        watch = watcher(self._client, path, optional=True)
        feed = cluster_feed(
            cluster, AdmittedPods, lambda which: self._view.admitted_pods(which.key)
        )

        def listed(found: Sequence[AdmittedPods], version: int) -> Iterator[object]:
            yield from feed.listed(found, version)
            yield cluster.apply(events.AdmissionKnown(not watch.is_absent))

        taken = replace(feed, listed=listed)
        return Reflector("workloads", watch, read_workload, feed=taken)

    def _jobs(self, kind: str, path: str) -> Reflector[JobInfo]:
        return Reflector(
            f"jobs of {kind}",
            watcher(self._client, path, optional=True),
            partial(read_job, kind=kind),
            feed=cluster_feed(
                self._cluster, JobInfo, lambda which: self._view.job(which.uid), part=kind
            ),
        )

    def _managed_jobs(self, namespace: str) -> Reflector[ManagedJobs]:
        path = config_maps(namespace)
        only = f"metadata.name={MANAGED_JOBS}"
        return Reflector(
            MANAGED_JOBS,
            watcher(self._client, path, fields=only, optional=True),
            read_managed_jobs,
            feed=Feed(
                lambda found, _: iter((self._manage(found[0] if found else NOT_MANAGED),)),
                self._manage,
                lambda _: self._manage(NOT_MANAGED),
                lambda _: self._managed,
            ),
        )

    def _namespaces(self) -> Reflector[ObjectMeta]:
        return Reflector(
            "namespaces",
            watcher(self._client, "/api/v1/namespaces", optional=True),
            read_namespace,
            feed=Feed(
                lambda found, _: iter((self._list(found),)),
                lambda found: self._label(found.name, found.labels or {}),
                lambda found: self._label(found.name, None),
            ),
        )

    def _manage(self, jobs: ManagedJobs) -> ClusterChange:
        self._managed = jobs
        return self._apply()

    def _list(self, found: Sequence[ObjectMeta]) -> ClusterChange:
        self._labels = {each.name: each.labels or {} for each in found}
        return self._apply()

    def _label(self, name: str, labels: Mapping[str, str] | None) -> ClusterChange:
        self._labels.pop(name, None)
        if labels is not None:
            self._labels[name] = labels
        return self._apply()

    def _apply(self) -> ClusterChange:
        """Say where jobs are left alone; in a namespace that is not known yet they are not."""
        kinds, selector = frozenset(self._managed.kinds), self._managed.namespaces
        labels = self._labels.items() if kinds else ()
        left_alone = (name for name, each in labels if not matches_selector(selector, each))
        return self._cluster.apply(events.JobsManaged(kinds, frozenset(left_alone)))
