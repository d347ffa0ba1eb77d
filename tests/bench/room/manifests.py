"""The objects of a load. All Jobs are in one namespace; what fills the nodes is in another."""

from collections.abc import Iterator

from extender.resources.quantity import CPU, MEMORY
from tests.bench.queue.manifests import FLAVOR, NAMESPACE, local_queue, of_queue
from tests.bench.room.load import SHARED, JobClass, Load
from tests.harness import objects
from tests.harness.objects import Object

BESIDE = "default"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_PLENTY = "1Ti"  # of memory: the load is in CPU
_FOR_EVER = "24h"


def nodes(load: Load) -> Iterator[Object]:
    """Yield the nodes, those of all classes mixed evenly: what fills one node after the other
    must not meet the empty ones first, or last, because of the load."""
    every = [
        (number / each.count, number, each) for each in load.nodes for number in range(each.count)
    ]
    for _, number, each in sorted(every, key=lambda one: one[0]):
        yield objects.node(f"{each.class_name}-{number}", _cpu(each.cpu), _PLENTY)


def fillers(load: Load) -> Iterator[Object]:
    """Yield pods that are on the nodes for good."""
    for each in load.nodes:
        for number in range(each.count if each.used else 0):
            node = f"{each.class_name}-{number}"
            yield objects.pod(f"on-{node}", _cpu(each.used), namespace=BESIDE, node_name=node)


def queues(load: Load) -> list[Object]:
    """Return the namespace of the Jobs, and their queues."""
    found: list[Object] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        of_queue("ResourceFlavor", FLAVOR, {}),
    ]
    for name, quota in load.quotas.items():
        found += [of_queue("ClusterQueue", name, _spec(quota, load)), local_queue(name)]
    return found


def _spec(quota: int, load: Load) -> Object:
    resources = [
        {"name": CPU, "nominalQuota": _cpu(quota)},
        {"name": MEMORY, "nominalQuota": _PLENTY},
    ]
    group = {
        "coveredResources": [CPU, MEMORY],
        "flavors": [{"name": FLAVOR, "resources": resources}],
    }
    return {
        "namespaceSelector": {},
        "queueingStrategy": load.queueing_strategy,
        "resourceGroups": [group],
    }


def job(kind: JobClass, number: int) -> Object:
    """Return a suspended Job of a class. Its pods do not end by themselves."""
    return objects.job(
        f"{kind.class_name}-{number:05}",
        kind.pods,
        namespace=NAMESPACE,
        cpu=_cpu(kind.cpu),
        indexed=True,
        suspend=True,
        queue=SHARED if kind.quota is None else kind.class_name,
        run_for=_FOR_EVER,
    )


def class_of(job: str) -> str:
    """Return the class of a Job by its name."""
    return job.rpartition("-")[0]


def _cpu(milli: int) -> str:
    return f"{milli}m"
