"""The objects that a stand-in for the API server shows, made when they are asked for.

A hundred thousand pods of a few kilobytes are not held: a pod is its number and its variant, by
which it differs from how it began.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.harness import objects

Object = dict[str, Any]

NAMESPACE: Final = "bench"
PODS: Final = "/api/v1/pods"
NODES: Final = "/api/v1/nodes"
NAMESPACES: Final = "/api/v1/namespaces"
POD_GROUPS: Final = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
QUEUE_API: Final = "/apis/kueue.x-k8s.io/v1beta2"
GROUP_SIZE: Final = 100
_CREATED: Final = "2026-01-01T00:00:00Z"
_OPEN_NODES: Final = 50
"""Nodes that are not full; fewer than kube-scheduler makes samples of."""


@dataclass(slots=True)
class Collection:
    """The objects of one resource; `make` returns one by number and variant."""

    make: Callable[[int, int], Object]
    count: int
    variants: dict[int, int] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)
    stored: dict[int, Object] = field(default_factory=dict)
    """Those that were written, whole."""
    gone: set[int] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)
    """By `namespace/name`, of those that were looked for."""

    def object(self, number: int) -> Object:
        """Return an object as it is now."""
        made = self.stored.get(number) or self.make(number, self.variants.get(number, 0))
        metadata = {
            "uid": f"{made['metadata']['name']}-{number:08d}-aaaa-bbbb-cccc",
            "creationTimestamp": _CREATED,
            "generation": 1 + self.variants.get(number, 0),
            **made["metadata"],
            "resourceVersion": str(self.versions.get(number, 1)),
        }
        return {**made, "metadata": metadata}

    def find(self, namespace: str, name: str) -> int | None:
        """Return the number of an object."""
        if not self.numbers:
            for number in range(self.count):
                meta = self.make(number, 0)["metadata"]
                self.numbers[f"{meta.get('namespace', '')}/{meta['name']}"] = number
        return self.numbers.get(f"{namespace}/{name}")

    def raw(self, numbers: Iterable[int]) -> list[bytes]:
        """Return objects as JSON."""
        return [json.dumps(self.object(n)).encode() for n in numbers if n not in self.gone]


def pod(
    number: int, *, node: str | None, group: str | None, cpu: str, ready: bool = True
) -> Object:
    """Return a pod of a few kilobytes, as a kubelet reports it where it has a node."""
    name = f"{group or 'plain'}-{number}"
    made = objects.pod(name, cpu, namespace=NAMESPACE, group=group, node_name=node, priority=0)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": group or "job", "uid": group or "job"}
    made["metadata"] |= {
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        "managedFields": [_MANAGED],
    }
    made["spec"] |= {
        "schedulerName": "default-scheduler",
        "volumes": [{"name": "kube-api-access", "projected": {"sources": _SOURCES}}],
        "tolerations": [
            {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "tolerationSeconds": 300}
            for why in ("not-ready", "unreachable")
        ],
    }
    status = "True" if ready and node else "False"
    made["status"] = {"phase": "Pending"} if node is None else {
        "phase": "Running",
        "podIP": "10.1.2.3",
        "conditions": [
            {"type": kind, "status": status, "lastTransitionTime": _CREATED}
            for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
        ],
        "containerStatuses": [{"name": "main", "ready": ready, "image": "x" * 80}],
    }  # fmt: skip
    return made


_MANAGED: Final = {
    "manager": "kubelet",
    "operation": "Update",
    "time": _CREATED,
    "fieldsV1": {f"f:field-{number}": {".": {}, "f:name": {}} for number in range(30)},
}
_SOURCES: Final = [
    {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
]


def node(number: int, variant: int) -> Object:
    """Return a node; an odd variant is not ready, and each has another label."""
    made = objects.node(f"node-{number}", "4", labels={"variant": str(variant // 2), "zone": "z"})
    ready = "False" if variant % 2 else "True"
    made["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    return made


def cluster(pods: int, nodes: int) -> dict[str, Collection]:
    """Return nodes that are full of pods, half of them members of gangs that run."""
    members = pods // 2

    def one(number: int, variant: int) -> Object:
        group = f"group-{number // GROUP_SIZE}" if number < members else None
        where, ready = f"node-{number % nodes}", variant % 2 == 0
        cpu = "100m" if number % nodes < _OPEN_NODES else "200m"
        return pod(number, node=where, group=group, cpu=cpu, ready=ready)

    def group(number: int, variant: int) -> Object:
        del variant
        return objects.pod_group(f"group-{number}", GROUP_SIZE, namespace=NAMESPACE)

    return {
        PODS: Collection(one, pods),
        NODES: Collection(node, nodes),
        POD_GROUPS: Collection(group, members // GROUP_SIZE),
    }


def waiting(pods: int, nodes: int) -> dict[str, Collection]:
    """Return the same, and gangs that wait: twenty of a hundred pods and one of `nodes` pods."""
    made = cluster(pods, nodes)
    running, groups = made[PODS], made[POD_GROUPS]
    gangs = [*[GROUP_SIZE] * 20, nodes]
    of = [gang for gang, size in enumerate(gangs) for _ in range(size)]

    def one(number: int, variant: int) -> Object:
        if number < pods:
            return running.make(number, variant)
        gang = of[number - pods]
        return pod(number, node=None, group=f"waits-{gang}", cpu="1500m")

    def group(number: int, variant: int) -> Object:
        if number < groups.count:
            return groups.make(number, variant)
        gang = number - groups.count
        return objects.pod_group(f"waits-{gang}", gangs[gang], namespace=NAMESPACE)

    return {
        **made,
        PODS: Collection(one, pods + len(of)),
        POD_GROUPS: Collection(group, groups.count + len(gangs)),
    }


def queues(count: int, heads: int) -> dict[str, Collection]:
    """Return ClusterQueues in cohorts of eight, with workloads of which none fits."""

    def cluster_queue(number: int, variant: int) -> Object:
        quota = {"name": "cpu", "nominalQuota": str(1 + variant)}
        return {
            "metadata": {"name": f"cq-{number}", "finalizers": ["kueue.x-k8s.io/resource-in-use"]},
            "spec": {
                "cohortName": f"cohort-{number // 8}",
                "namespaceSelector": {},
                "queueingStrategy": "BestEffortFIFO",
                "resourceGroups": [{
                    "coveredResources": ["cpu"],
                    "flavors": [{"name": "default", "resources": [quota]}],
                }],
                "preemption": {
                    "reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"
                },
            },
        }  # fmt: skip

    def local_queue(number: int, variant: int) -> Object:
        del variant
        metadata = {"name": f"cq-{number}", "namespace": NAMESPACE}
        return {"metadata": metadata, "spec": {"clusterQueue": f"cq-{number}"}}

    def workload(number: int, variant: int) -> Object:
        request = {"cpu": f"{20_000 + 10 * (number % heads) + variant}m"}
        spec = {"containers": [{"name": "main", "image": "x", "resources": {"requests": request}}]}
        return {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": f"workload-{number}", "namespace": NAMESPACE},
            "spec": {
                "queueName": f"cq-{number // heads}",
                "active": True,
                "priority": 0,
                "podSets": [{"name": "main", "count": 1, "template": {"spec": spec}}],
            },
        }

    return {
        NAMESPACES: Collection(lambda *_: {"metadata": {"name": NAMESPACE}}, 1),
        f"{QUEUE_API}/resourceflavors": Collection(
            lambda *_: {
                "metadata": {
                    "name": "default", "finalizers": ["kueue.x-k8s.io/resource-in-use"]
                },
                "spec": {},
            },
            1,
        ),
        f"{QUEUE_API}/clusterqueues": Collection(cluster_queue, count),
        f"{QUEUE_API}/localqueues": Collection(local_queue, count),
        f"{QUEUE_API}/workloads": Collection(workload, count * heads),
    }  # fmt: skip


def page(nodes: int, cluster_queues: int) -> dict[str, Collection]:
    """Return nodes in racks, eight pods for each, and ClusterQueues where five jobs wait each."""

    def one(number: int, variant: int) -> Object:
        made = node(number, variant)
        made["metadata"]["labels"] |= {"zone": f"z{number // 1000}", "rack": f"r{number // 20}"}
        return made

    levels = [{"nodeLabel": label} for label in ("zone", "rack", "kubernetes.io/hostname")]
    topology = {"metadata": {"name": "racks"}, "spec": {"levels": levels}}
    return {
        **cluster(8 * nodes, nodes),
        **queues(cluster_queues, 5),
        NODES: Collection(one, nodes),
        f"{QUEUE_API}/topologies": Collection(lambda *_: topology, 1),
    }


STAGES: Final[dict[str, Callable[[int, int], dict[str, Collection]]]] = {
    "cluster": cluster,
    "waiting": waiting,
    "queues": queues,
    "page": page,
}
