"""What feeds the state, in either process."""

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry

from extender.api.wellknown import POD_GROUP_GROUPS
from extender.kube.client import KubeClient
from extender.kube.decode import Decoder
from extender.kube.identity import Identity
from extender.kube.reflector import Reflector
from extender.kube.set_aside import SetAside
from extender.kube.watch import Watcher
from extender.runtime.backoff import Backoff
from extender.runtime.faults import FAULTS
from extender.state import events as ev
from extender.state.cluster import Cluster
from extender.state.jobs import JobInfo
from extender.state.nodes import NodeInfo
from extender.state.pod_groups import PodGroupInfo
from extender.state.pods import PodInfo
from extender.telemetry.faults import AsideCollector

ALL_PODS: Final = ""
LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""What kube-scheduler itself watches: finished pods hold nothing, and show up as deleted."""

T = TypeVar("T")


def backoff(base: float, cap: float) -> Backoff:
    """Return pauses from `base` to `cap` seconds, spread so that nobody moves in step."""
    return Backoff(base, cap, jitter=lambda: random.uniform(0.5, 1.0))  # noqa: S311


def reflectors(
    client: KubeClient, cluster: Cluster, decoder: Decoder, *, pods: str
) -> list[Reflector[Any]]:
    """Return what feeds the cluster: pods, nodes, Jobs, and PodGroups of both API groups.

    `pods` is the field selector for pods.
    """
    seen = cluster.snapshot()

    def pod(raw: bytes) -> PodInfo:
        """Return the pod as it is held already, where nothing about it is new: it takes memory."""
        found = decoder.pod(raw)
        held = seen.pods.get(found.uid)
        return held if held == found else found

    def replace(event: Callable[[Sequence[T]], ev.Listed]) -> Callable[..., Iterator[ev.Change]]:
        return lambda found: cluster.replace(event(found))

    def watcher(path: str, selector: str = "") -> Watcher:
        return Watcher(
            client,
            path,
            sleep=asyncio.sleep,
            backoff=backoff(0.1, 5.0),
            selectors={"fieldSelector": selector},
        )

    members = Reflector[PodInfo](
        "pods",
        watcher("/api/v1/pods", pods),
        pod,
        listed=replace(ev.PodsListed),
        applied=lambda pod: _tell(cluster, ev.PodApplied(pod)),
        deleted=lambda pod: _tell(cluster, ev.PodDeleted(pod.uid)),
    )
    members.on_list = lambda: _tell(cluster, ev.PodsListing())
    nodes = Reflector[NodeInfo](
        "nodes",
        watcher("/api/v1/nodes"),
        decoder.node,
        listed=replace(ev.NodesListed),
        applied=lambda node: _tell(cluster, ev.NodeApplied(node)),
        deleted=lambda node: _tell(cluster, ev.NodeDeleted(node.name)),
    )

    def known_group(api_group: str, which: Identity) -> PodGroupInfo | None:
        found = seen.pod_group_of(api_group, which.key)
        return found if found is not None and found.uid == which.uid else None

    def pod_groups(api_group: str) -> Reflector[PodGroupInfo]:
        reflector = Reflector[PodGroupInfo](
            f"podgroups.{api_group}",
            watcher(f"/apis/{api_group}/v1alpha1/podgroups"),
            lambda raw: decoder.pod_group(raw, api_group=api_group),
            listed=replace(partial(ev.PodGroupsListed, api_group)),
            applied=lambda found: _tell(cluster, ev.PodGroupApplied(found)),
            deleted=lambda found: _tell(cluster, ev.PodGroupDeleted(api_group, found.key)),
        )
        reflector.known = partial(known_group, api_group)
        return reflector

    jobs = Reflector[JobInfo](
        "jobs",
        watcher("/apis/batch/v1/jobs"),
        decoder.job,
        listed=replace(ev.JobsListed),
        applied=lambda job: _tell(cluster, ev.JobApplied(job)),
        deleted=lambda job: _tell(cluster, ev.JobDeleted(job.uid)),
    )
    members.known = lambda which: seen.pods.get(which.uid)
    nodes.known = lambda which: seen.nodes.get(which.name)
    jobs.known = lambda which: seen.job(which.uid)
    return [members, nodes, jobs, *map(pod_groups, POD_GROUP_GROUPS)]


def set_aside(
    cluster: Cluster,
    reflectors: Iterable[Reflector[Any]],
    aside: SetAside,
    *,
    registry: CollectorRegistry,
) -> None:
    """Have objects that cannot be read put aside, and errors of listeners counted."""
    cluster.on_fault = partial(FAULTS.report, "cluster")
    for reflector in reflectors:
        reflector.aside = aside
    registry.register(AsideCollector(aside.counts))


def _tell(cluster: Cluster, event: ev.Event) -> None:
    cluster.apply(event)
