"""Snapshots made of objects, as dicts."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Raw

from gang_tools.snapshot.file import Snapshot

NOW = 1e9
NODES, PODS, JOBS = "/api/v1/nodes", "/api/v1/pods", "/apis/batch/v1/jobs"
NAMESPACES, LIMIT_RANGES = "/api/v1/namespaces", "/api/v1/limitranges"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
POD_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
QUEUES = "/apis/kueue.x-k8s.io/v1beta2"
EMPTY = (
    *(NODES, PODS, JOBS, NAMESPACES, LIMIT_RANGES, RUNTIME_CLASSES),
    *(f"{QUEUES}/{each}" for each in ("resourceflavors", "topologies", "cohorts")),
    *(f"{QUEUES}/{each}" for each in ("clusterqueues", "localqueues", "workloads")),
)


def snapshot_of(lists: dict[str, list[dict[str, Any]]], **fields: Any) -> Snapshot:
    """Return a snapshot of lists by path. The other lists of a cluster with queues are empty."""
    whole: dict[str, list[dict[str, Any]]] = {**{path: [] for path in EMPTY}, **lists}
    raw = {
        path: Raw(msgspec.json.encode({"metadata": {}, "items": items}))
        for path, items in whole.items()
    }
    return Snapshot(datetime.fromtimestamp(NOW, UTC), raw, **fields)
