"""What runs while things fail: gangs of plain pods, and Jobs of a queue with quota."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from tests.harness import objects
from tests.harness.client import Api, ApiError
from tests.harness.objects import Object

API = "kueue.x-k8s.io/v1beta2"
QUEUES = ("quota", "room")
"""Names of the two LocalQueues and ClusterQueues: one asks for quota, one for room as well."""
_PODS = 110


@dataclass(frozen=True, slots=True)
class Load:
    """How much there is of everything; amounts of CPU in thousandths of a core."""

    gangs: int = 30
    jobs: int = 200
    nodes: int = 6
    node_cpu: int = 8000
    quota: int = 6000
    """Of each ClusterQueue."""
    namespace: str = "chaos"
    seed: int = 0
    together: bool = True
    """Whether equal members are bound together (`gang.bindTogether`)."""

    def cluster(self) -> Iterator[Object]:
        """Yield what the load needs before it begins."""
        meta = {"name": self.namespace}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
        for number in range(self.nodes):
            yield objects.node(f"chaos-{number}", f"{self.node_cpu}m", pods=_PODS)
        yield _kueue("ResourceFlavor", "chaos", {})
        for name in QUEUES:
            annotations = {"scheduling.x-k8s.io/require-room": "true"} if name == "room" else {}
            resources = [
                {"name": "cpu", "nominalQuota": f"{self.quota}m"},
                {"name": "memory", "nominalQuota": "1Ti"},
            ]
            yield _kueue(
                "ClusterQueue",
                name,
                {
                    "namespaceSelector": {},
                    "resourceGroups": [
                        {
                            "coveredResources": ["cpu", "memory"],
                            "flavors": [{"name": "chaos", "resources": resources}],
                        }
                    ],
                },
                annotations=annotations,
            )
            yield _kueue("LocalQueue", name, {"clusterQueue": name}, namespace=self.namespace)

    def items(self) -> list[list[Object]]:
        """Return gangs and Jobs in the order in which they are to be created."""
        chosen = random.Random(self.seed)
        items = [self.gang(number, chosen) for number in range(self.gangs)]
        items += [self.job(number, chosen) for number in range(self.jobs)]
        chosen.shuffle(items)
        return items

    def gang(self, number: int, chosen: random.Random) -> list[Object]:
        """Return a PodGroup and its pods, which all have to run."""
        name, size = f"gang-{number}", chosen.randint(3, 12)
        pods = [
            objects.pod(
                f"{name}-{member}",
                f"{chosen.choice((500, 1000))}m",
                namespace=self.namespace,
                group=name,
                run_for=f"{chosen.randint(1000, 6000)}ms",
            )
            for member in range(size)
        ]
        return [objects.pod_group(name, size, namespace=self.namespace, timeout=30), *pods]

    def job(self, number: int, chosen: random.Random) -> list[Object]:
        """Return a suspended Job of a queue."""
        pods = chosen.randint(1, 4)
        return [
            objects.job(
                f"job-{number}",
                pods,
                namespace=self.namespace,
                cpu=f"{chosen.choice((250, 500, 1000))}m",
                queue=chosen.choice(QUEUES),
                suspend=True,
                indexed=chosen.random() < 0.5,
                run_for=f"{chosen.randint(500, 5000)}ms",
                backoffLimit=20,
            )
        ]


def create(api: Api, item: Object) -> None:
    """Create an object whatever happens to the API server meanwhile.

    An answer that was lost may have been a yes: an object that is there already is the wanted one.
    """

    def created() -> bool:
        try:
            api.create(item)
        except ApiError as error:
            if error.status != httpx.codes.CONFLICT:
                raise
        return True

    api.wait_for(f"{item['kind']} {item['metadata']['name']} is created", created, timeout=120)


def _kueue(kind: str, name: str, spec: Object, **metadata: object) -> Object:
    meta = {"name": name, **{key: value for key, value in metadata.items() if value}}
    return {"apiVersion": API, "kind": kind, "metadata": meta, "spec": spec}
