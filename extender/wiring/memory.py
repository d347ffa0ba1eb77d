"""The memory of a process that no object of the API server has, as plain values for a reader.

Lists that may be long are iterators over copies, so that they can be written with pauses while the
state goes on.
"""

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Literal

from extender.config.settings import Settings
from extender.gang.verdicts import Remembered
from extender.queueing.pending import Preemptors
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.reservations import OF_PODS, Claim, Reservation, VictimsRoom
from extender.state.cluster.view import ClusterView
from extender.state.queue.view import QueueView

ProcessName = Literal["extender", "reconciler"]
Values = dict[str, Any]


def header(
    process: ProcessName,
    settings: Settings,
    *,
    now: float,
    watches: Mapping[str, Mapping[str, object]],
    unready: str,
    leads: bool = True,
) -> Values:
    """Return what a process says of itself at `now`, in seconds since the epoch.

    It has the settings that decisions depend on.
    """
    return {
        "process": process,
        "version": version("gang-extender"),
        "host": socket.gethostname(),
        "time": _time(now),
        "unready": unready,
        "leads": leads,
        "watches": watches,
        "settings": settings.model_dump(mode="json", by_alias=True, include={"gang", "queue"}),
    }


def cluster_memory(view: ClusterView) -> Values:
    """Return reserved room, refused pods, and bound pods that kube-scheduler may not have seen."""
    reserved = [*view.reserved]
    unseen = [(node, [*pods.values()]) for node, pods in view.unseen.nodes.items()]
    return {
        "pods": (_of_pod(each, view) for each in reserved if each.kind in OF_PODS),
        "room": (_of_group(each) for each in reserved if each.kind not in OF_PODS),
        "refused": (
            {"pod": each.pod.key, "reason": each.reason} for each in [*view.refused.values()]
        ),
        "unseen": ({"pod": pod.key, "node": node} for node, pods in unseen for pod in pods),
        "allUnseen": view.unseen.everywhere,
    }


def _of_pod(reservation: Reservation, view: ClusterView) -> Values:
    """Return room of a pod: a held bind, a plan, or a Binding that is on its way."""
    pod = view.pods.get(reservation.owner)
    return {
        "pod": pod.key if pod is not None else reservation.owner,
        "group": pod.group if pod is not None else None,
        "kind": reservation.kind,
        "node": reservation.node,
    }


def _of_group(reservation: Reservation) -> Values:
    """Return room that is kept for a group; amounts as `resources.quantity` counts them."""
    found: Values = {
        "group": reservation.owner,
        "kind": reservation.kind,
        "priority": reservation.priority,
        "nodes": {node: dict(amounts) for node, amounts in reservation.amounts.items()},
        "until": _time(reservation.until),
    }
    if isinstance(reservation, Claim):
        found["barred"] = sorted(reservation.barred)
        found["fitsSince"] = _time(reservation.fits_since)
    elif isinstance(reservation, VictimsRoom):
        found["victims"] = sorted(reservation.victims)
    return found


def group_memory(
    view: ClusterView,
    remembered: Callable[[str], Remembered],
    never_starts: Callable[[PodGroupInfo], bool],
) -> Iterator[Values]:
    """Yield what the extender remembers of each group: verdicts, and when they end."""
    for group in view.known_groups():
        known, pod_group = remembered(group), view.pod_group(group)
        yield {
            "group": group,
            "deniedFor": known.denied.message if known.denied is not None else None,
            "deniedUntil": _time(known.denied_until),
            "lastFailure": known.last_failure.message if known.last_failure is not None else None,
            "permitted": known.permitted,
            "isBeingPlanned": known.is_being_planned,
            "restsUntil": _time(known.rests_until),
            "startsBy": _time(known.starts_by),
            "neverStarts": pod_group is not None and never_starts(pod_group),
        }


def queue_memory(
    view: QueueView,
    preemptors: Preemptors,
    *,
    blocking: Iterable[str],
    reasons: Iterable[tuple[str, tuple[str, str]]],
    kept: Iterable[tuple[str, tuple[int, int]]],
) -> Values:
    """Return what the reconciler that leads remembers of workloads that wait."""
    return {
        "preemptors": [
            {"workload": key, "victims": sorted(preemptors.victims(key))} for key in preemptors
        ],
        "blocking": [*blocking],
        "reasons": (
            {"workload": key, "reason": reason, "message": message}
            for key, (reason, message) in reasons
        ),
        "kept": [{"workload": key, "pods": pods, "nodes": nodes} for key, (pods, nodes) in kept],
        "assumed": [key for key in view.workloads if view.is_assumed(key)],
    }


def queue_objects(view: QueueView) -> Mapping[str, list[str]]:
    """Return the names of the objects that the process has read and decides the queue by."""
    return {
        "clusterQueues": [*view.cluster_queues],
        "cohorts": [*view.cohorts],
        "limitRanges": [*view.limit_ranges],
        "localQueues": [*view.local_queues],
        "resourceFlavors": [*view.flavors],
        "runtimeClasses": [*view.runtime_classes],
        "topologies": [*view.topologies],
    }


def _time(at: float | None) -> str | None:
    return datetime.fromtimestamp(at, UTC).isoformat() if at is not None else None
