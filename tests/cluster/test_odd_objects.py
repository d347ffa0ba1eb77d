"""Odd objects that the API server takes: everything else goes on beside them."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.cluster.queues import QUEUE, Queues
from tests.harness.client import Api
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.kinds import CRDS, template
from tests.harness.reconciler import Reconciler

DEEP = "\0deep"
"""Stands for what is nested too deeply for a JSON encoder."""
LEVELS = 4000
HUGE = "x" * 900_000
ODD_TEXT = "\u202e\U0001f4a5\u0000 %s {} \u0661"
COLLECTIONS = {
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets",
    "PyTorchJob": "/apis/kubeflow.org/v1/namespaces/{}/pytorchjobs",
    "TFJob": "/apis/kubeflow.org/v1/namespaces/{}/tfjobs",
    "XGBoostJob": "/apis/kubeflow.org/v1/namespaces/{}/xgboostjobs",
    "MPIJob": "/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs",
    "RayJob": "/apis/ray.io/v1/namespaces/{}/rayjobs",
    "Workload": "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads",
    "PodGroup": "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/podgroups",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
}
VERSIONS = {
    kind: path.removeprefix("/apis/").partition("/namespaces")[0]
    for kind, path in COLLECTIONS.items()
}


def odd(kind: str, name: str, spec: Any, **metadata: Any) -> dict[str, Any]:
    labels = {QUEUE: "queue", **metadata.pop("labels", {})}
    return {
        "apiVersion": VERSIONS[kind],
        "kind": kind,
        "metadata": {"name": name, "labels": labels, **metadata},
        "spec": spec,
    }


def pods(**spec: Any) -> dict[str, Any]:
    return template("1", **spec)


def job_set(**replicated: Any) -> dict[str, Any]:
    one = {"name": "r", "replicas": 1, "template": {"spec": {"template": pods()}}}
    return {"suspend": True, "replicatedJobs": [{**one, **replicated}]}


def workload(spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "queueName": "queue",
        "podSets": [{"name": "main", "count": 1, "template": {"spec": spec}, **more}],
    }


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "c", "image": "i", "resources": resources}


def everything_odd() -> list[dict[str, Any]]:
    """Return objects of each kind, each odd in its own way."""
    replicas = {"Worker": {"replicas": -7, "template": pods()}}
    ray = {"headGroupSpec": {"template": pods()}, "workerGroupSpecs": [{"replicas": 2**62}]}
    found = [
        odd("JobSet", "deep", {**job_set(), "odd": DEEP}),
        odd("JobSet", "huge", {**job_set(), "odd": HUGE}),
        odd("JobSet", "text", {"replicatedJobs": ODD_TEXT}),
        odd("JobSet", "negative", job_set(replicas=-3)),
        odd("JobSet", "twice", {"replicatedJobs": job_set()["replicatedJobs"] * 2}),
        odd(
            "JobSet",
            "overhead",
            job_set(template={"spec": {"template": pods(overhead={"cpu": "-100"})}}),
        ),
        odd("PyTorchJob", "deep", {"pytorchReplicaSpecs": {"Worker": {"template": DEEP}}}),
        odd("PyTorchJob", "negative", {"pytorchReplicaSpecs": replicas}),
        odd("TFJob", "types", {"tfReplicaSpecs": [1, 2, None, {"a": []}]}),
        odd("TFJob", "missing", {}),
        odd("XGBoostJob", "types", {"xgbReplicaSpecs": {"Worker": 5, "Master": {"replicas": 1.5}}}),
        odd("MPIJob", "missing", {"mpiReplicaSpecs": {"Launcher": {}, "Worker": None}}),
        odd("RayJob", "absurd", {"suspend": True, "rayClusterSpec": ray}),
        odd("RayJob", "types", {"rayClusterSpec": "cluster", "clusterSelector": 7}),
        odd("Workload", "deep", workload({"containers": [container()], "odd": DEEP})),
        odd("Workload", "huge", workload({"containers": [container()], "odd": HUGE})),
        odd(
            "Workload",
            "overhead",
            workload({"containers": [container()], "overhead": {"cpu": "-9"}}),
        ),
        odd(
            "Workload",
            "absurd",
            workload({"containers": [container(requests={"cpu": "9" * 18})]}, count=2**31 - 1),
        ),
        odd(
            "Workload",
            "types",
            workload({"containers": [container()], "affinity": 5, "tolerations": {}}),
        ),
        odd("PodGroup", "absurd", {"minMember": 2**31 - 1, "scheduleTimeoutSeconds": 2**31 - 1}),
        odd(
            "PodGroup",
            "text",
            {"minMember": 1},
            annotations={"scheduling.x-k8s.io/granted-room": ODD_TEXT.replace("\0", "")},
        ),
        odd("PodGroup", "annotated", {"minMember": 1}, annotations={"a": "x" * 250_000}),
    ]
    owner = {"apiVersion": "gone.example.com/v9", "kind": "Vanished", "name": "v", "uid": "v"}
    owned = workload({"containers": [container(requests={"cpu": "1m"})]})
    finalizers = ["kueue.x-k8s.io/resource-in-use"]
    found.append(odd("Workload", "foreign", owned, ownerReferences=[owner], finalizers=finalizers))
    return found


def encoded(found: object) -> str:
    deep = '{"a":' * LEVELS + "1" + "}" * LEVELS
    return json.dumps(found).replace(json.dumps(DEEP), deep)


class Odd:
    """A namespace of odd objects, which no JSON decoder of a test can list."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.namespace = f"odd-{uuid4().hex[:6]}"
        self.taken: list[str] = []
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})

    def create(self, found: dict[str, Any]) -> None:
        """Send an object; one that the API server refuses harms nothing."""
        path = COLLECTIONS[found["kind"]].format(self.namespace)
        answer = self.api._http.post(
            path, content=encoded(found), headers={"Content-Type": "application/json"}
        )
        if answer.is_success:
            self.taken.append(f"{found['kind']}/{found['metadata']['name']}")
        else:
            assert answer.status_code in {400, 422}, answer.text[:300]

    def clean(self) -> None:
        """Delete everything."""
        for path in COLLECTIONS.values():
            self.api.request("DELETE", path.format(self.namespace))

    def left(self, kind: str) -> int:
        """Return how many objects of a kind are there."""
        accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        answer = self.api._http.get(
            COLLECTIONS[kind].format(self.namespace), headers={"Accept": accept}
        )
        return len(answer.json()["items"] or ())


@pytest.fixture
def odd_ones(api: Api) -> Iterator[Odd]:
    api.apply(CRDS)
    made = Odd(api)
    yield made
    made.clean()
    api.delete("namespaces", made.namespace)


def test_everything_else_goes_on(
    gang: GangScheduler,
    reconciler: Reconciler,
    api: Api,
    gangs: Gangs,
    queues: Queues,
    nodes: NodeFactory,
    odd_ones: Odd,
) -> None:
    nodes(2, "8")
    cluster_queue, _ = queues.simple(cpu=4)
    local = {"kind": "LocalQueue", "metadata": {"name": "queue", "namespace": odd_ones.namespace}}
    spec = {"clusterQueue": cluster_queue}
    api.create({"apiVersion": "kueue.x-k8s.io/v1beta2", **local, "spec": spec})
    before = reconciler.process.pid, gang.extender.pid

    def goes_on(when: str) -> None:
        gangs.create(f"gang-{when}", 2, cpu="500m")
        queues.job(f"job-{when}", cpu="500m", run_for="1s")
        gangs.await_phases(f"gang-{when}", Running=2, timeout=120)
        queues.await_finished(f"job-{when}", timeout=120)

    goes_on("before")
    for each in everything_odd():
        odd_ones.create(each)
    assert {"JobSet/deep", "Workload/deep", "JobSet/overhead", "Workload/foreign"} <= {
        *odd_ones.taken
    }
    goes_on("during")
    api.wait_for(
        "an Event is about the deep JobSet",
        lambda: api.notes(odd_ones.namespace, "Unreadable", name="deep"),
    )
    aside = 'gang_extender_objects_set_aside{kind="jobset.x-k8s.io/jobset"}'
    api.wait_for("it is counted", lambda: reconciler.metric(aside) >= 1, 120)

    assert (reconciler.process.pid, gang.extender.pid) == before
    assert reconciler.process.running

    # A process that begins with them there, as one that ended because of them would.
    reconciler.restart()
    goes_on("after-a-restart")
    assert gang.extender.pid == before[1]
    assert gang.extender.running

    odd_ones.clean()
    api.wait_for(
        "all of them can be deleted", lambda: not any(map(odd_ones.left, COLLECTIONS)), 120
    )
    goes_on("after")
    assert gang.extender.pid == before[1]
    api.wait_for("none is set aside", lambda: reconciler.metric(aside) == 0, 120)
