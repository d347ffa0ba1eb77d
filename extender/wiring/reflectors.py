"""The reflectors that feed the state, in either process."""

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from prometheus_client import CollectorRegistry

from extender.api.wellknown import GROUP_NATIVE, NATIVE_VERSIONS, POD_GROUP_GROUPS
from extender.config import Gang
from extender.kube.claims import DECODERS
from extender.kube.client import KubeClient
from extender.kube.decode import Decoder
from extender.kube.reflector import Feed, Identity, ObjectsSetAside, Reflector
from extender.kube.watch import Watcher
from extender.runtime.faults import FAULTS, Backoff
from extender.state.cluster import events
from extender.state.cluster.records import (
    BATCH_JOB,
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
    cluster, ours = Cluster(), gang.natives()
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
    budgets: bool = False,
) -> list[Reflector[Any]]:
    """Return the reflectors of the cluster: pods, nodes, Jobs, PodGroups of ours and native ones.

    `pods` is the field selector for pods. With `budgets` there are the PodDisruptionBudgets too.
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
        *(members, nodes, jobs),
        *([disruptions] if budgets else []),
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
