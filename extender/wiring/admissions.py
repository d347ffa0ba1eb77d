"""The watches that say which jobs are queued, and for how many pods each is admitted.

If one is missing, pods of jobs wait and other pods do not. Nothing waits for a kind that the API
server does not have.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from extender.api.core_v1 import ObjectMeta
from extender.api.selectors import matches_selector
from extender.jobs import registry
from extender.jobs.kinds.batch_job import BatchJob
from extender.kube.client import KubeClient
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
from extender.kube.reflector import Feed, Reflector
from extender.state.cluster import events
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import AdmittedPods, JobInfo
from extender.state.cluster.store import Cluster
from extender.wiring.reflectors import cluster_feed, watcher


def admissions(client: KubeClient, cluster: Cluster, namespace: str) -> Iterator[Reflector[Any]]:
    """Yield the reflectors; `namespace` is that of the reconciler."""
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
            if each.compose is None and each.name != BatchJob.integration:
                path = objects(each.group, each.version, each.plural)
                yield self._jobs(f"{each.group}/{each.kind}", path)
        clusters = objects("ray.io", "v1", "rayclusters")
        yield self._jobs("ray.io/RayCluster", clusters, has_quota=True)
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

    def _jobs(self, kind: str, path: str, *, has_quota: bool = False) -> Reflector[JobInfo]:
        return Reflector(
            f"jobs of {kind}",
            watcher(self._client, path, optional=True),
            partial(read_job, kind=kind, has_quota=has_quota),
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
