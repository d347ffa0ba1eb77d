"""The load that the page shows in tests: three teams that share GPUs, and gangs beside queues."""

from typing import Any, Final

from extender.api.wellknown import EXPECTED_RUN
from tests.cluster.queues import API, WORKLOADS
from tests.harness import objects
from tests.harness.client import Api, Object

GPU: Final = "nvidia.com/gpu"
RACK: Final = "example.com/rack"
ZONE: Final = "topology.kubernetes.io/zone"
TEAMS: Final = ("vision", "language", "robotics")
_ROOM: Final = {"scheduling.x-k8s.io/require-room": "true"}


def queue(name: str, gpus: int, *, flavor: str = "a100", **spec: Any) -> Object:
    """Return a ClusterQueue with GPUs and as many CPUs as go with them."""
    quotas = {GPU: gpus, "cpu": 4 * gpus, "memory": f"{16 * gpus}Gi"}
    amounts = [{"name": what, "nominalQuota": amount} for what, amount in quotas.items()]
    group = {
        "coveredResources": [*quotas],
        "flavors": [{"name": flavor, "resources": amounts}],
    }
    return {
        "apiVersion": API,
        "kind": "ClusterQueue",
        "metadata": {"name": name, "annotations": _ROOM},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec},
    }


def named(kind: str, name: str, namespace: str = "", **spec: Any) -> Object:
    """Return an object of the queue's API."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}


def job(name: str, namespace: str, pods: int, *, gpus: int = 2, **options: Any) -> Object:
    """Return a Job that a queue admits, and whose pods need GPUs each."""
    found = objects.job(
        name, pods, namespace=namespace, queue="main", suspend=True, cpu=4 * gpus,
        memory="8Gi", run_for="2h", **options,
    )  # fmt: skip
    resources = found["spec"]["template"]["spec"]["containers"][0]["resources"]
    resources["requests"][GPU] = str(gpus)
    resources["limits"] = {GPU: str(gpus)}
    meta = found["spec"]["template"]["metadata"]
    meta.setdefault("labels", {})["user"] = f"user-of-{name}"
    meta.setdefault("annotations", {})[EXPECTED_RUN] = "45m"
    return found


def pods(group: str, count: int, *, cpu: str = "4", high: str | None = None) -> list[Object]:
    """Return pods of a gang without a queue, of the class `high`."""
    where: Object = {"group": group, "namespace": "team-batch"}
    return [
        objects.pod(f"{group}-{number}", cpu, **where, priority_class=high)
        for number in range(count)
    ]


def make_load(api: Api) -> None:
    """Make nodes, queues and jobs: some run, some borrow, and some wait for each reason."""
    api.create(
        *(
            objects.node(
                f"gpu-{zone}{rack}-{number}", "32", "256Gi", extended={GPU: 8},
                labels={ZONE: f"zone-{zone}", RACK: f"rack-{zone}{rack}"},
            )
            for zone in "ab" for rack in (1, 2) for number in range(1, 5)
        )
    )  # fmt: skip
    levels = [{"nodeLabel": each} for each in (ZONE, RACK, "kubernetes.io/hostname")]
    api.create(
        named("Topology", "racks", levels=levels),
        named("ResourceFlavor", "a100"),
        named("Cohort", "research"),
        queue("vision", 40, cohortName="research"),
        queue("language", 40, cohortName="research"),
        queue("robotics", 32, cohortName="research", queueingStrategy="StrictFIFO"),
        queue("batch", 8),
        queue("paused", 8, stopPolicy="Hold"),
    )
    for team in (*TEAMS, "batch", "paused"):
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{team}"}})
        api.create(named("LocalQueue", "main", f"team-{team}", clusterQueue=team))
    api.create(
        job("segment-large", "team-vision", 8),
        job("pretrain-70b", "team-language", 24),  # it borrows
        job("evaluate", "team-language", 8),  # before detect-video, which would take its room
        job("grasping", "team-robotics", 4),
    )


def make_waiting(api: Api) -> None:
    """Make what waits, once the others have their quota."""
    api.create(
        job("pretrain-405b", "team-language", 24),
        job("detect-video", "team-vision", 16),
        job("walking", "team-robotics", 20),
    )
    # It blocks its queue, which is StrictFIFO, once the queue has it.
    api.wait_for("walking waits", lambda: api.list(WORKLOADS, "team-robotics")[1:])
    api.create(
        job("simulate", "team-robotics", 2),
        job("too-large", "team-batch", 8),
        job("held", "team-paused", 1),
        *(job(f"sweep-{number}", "team-vision", 2, gpus=4) for number in range(12)),
    )
    # Gangs without a queue: one that waits for its pods, one for room.
    api.create(objects.pod_group("ring", 4, namespace="team-batch"))
    api.create(*pods("ring", 2))
    api.create(objects.pod_group("wide", 60, namespace="team-batch"))
    api.create(*pods("wide", 60))
