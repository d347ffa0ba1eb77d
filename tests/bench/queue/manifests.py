"""The objects of a load. All queues and Workloads are in one namespace."""

from typing import Any

from extender.resources.quantity import CPU
from tests.bench.queue.load import Load, Queue, WorkloadClass
from tests.harness.client import Api, condition

NAMESPACE = "bench"
API_VERSION = "kueue.x-k8s.io/v1beta2"
WORKLOADS = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/workloads"
FLAVOR = "default"
CLASS = "bench.gang-extender/class"
RUNTIME_MS = "bench.gang-extender/runtime-ms"

Object = dict[str, Any]


def of_queue(kind: str, name: str, spec: Object, **metadata: str) -> Object:
    """Return an object of the queue's API."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def local_queue(name: str) -> Object:
    """Return the LocalQueue of the ClusterQueue of that name."""
    return of_queue("LocalQueue", name, {"clusterQueue": name}, namespace=NAMESPACE)


def setting(load: Load) -> list[Object]:
    """Return what is there before the first Workload."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        of_queue("ResourceFlavor", FLAVOR, {}),
        *(_cluster_queue(each) for each in load.queues()),
        *(local_queue(each.name) for each in load.queues()),
    ]


def are_active(api: Api) -> bool:
    """Return whether the controller says of all queues that it serves them."""
    queues = [
        *api.list(f"{API_VERSION}/clusterqueues"),
        *api.list(f"{API_VERSION}/localqueues", NAMESPACE),
    ]
    return all(condition(each, "Active") for each in queues)


def workload(name: str, queue: str, kind: WorkloadClass) -> Object:
    """Return a Workload without an owner: nothing but the benchmark runs it."""
    container = {
        "name": "main",
        "image": "example.invalid/nothing",
        "resources": {"requests": {CPU: _cpu(kind.request)}},
    }
    pod = {"containers": [container], "restartPolicy": "Never"}
    return {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {CLASS: kind.class_name},
            "annotations": {RUNTIME_MS: str(kind.runtime_ms)},
        },
        "spec": {
            "queueName": queue,
            "priority": kind.priority,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": pod}}],
        },
    }


def _cluster_queue(queue: Queue) -> Object:
    settings = queue.settings
    quota = {"name": CPU, "nominalQuota": _cpu(settings.nominal_quota)}
    if settings.borrowing_limit is not None:
        quota["borrowingLimit"] = _cpu(settings.borrowing_limit)
    flavor = {"name": FLAVOR, "resources": [quota]}
    spec = {
        "cohortName": queue.cohort,
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": [CPU], "flavors": [flavor]}],
        "preemption": {
            "reclaimWithinCohort": settings.reclaim_within_cohort,
            "withinClusterQueue": settings.within_cluster_queue,
        },
    }
    return of_queue("ClusterQueue", queue.name, spec)


def _cpu(milli: int) -> str:
    return f"{milli}m" if milli % 1000 else str(milli // 1000)
