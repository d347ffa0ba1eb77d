"""RayJobs beside KubeRay: their quota is that of the pods that there are, at any time."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.kuberay import JOBS, KubeRay
from tests.cluster.queues import QUEUE, Queues, group
from tests.harness import kinds
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.kinds import CRDS
from tests.harness.objects import RUN_FOR, Object

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

EVENTS = "events.k8s.io/v1/events"


@pytest.fixture
def kuberay(control_plane: ControlPlane, api: Api, namespace: str) -> Iterator[KubeRay]:
    api.apply(CRDS)
    with KubeRay(control_plane.admin_kubeconfig, namespace) as kuberay:
        yield kuberay


def template(cpu: str = "1") -> Object:
    resources = {"requests": {"cpu": cpu, "memory": "1Mi"}}
    container = {"name": "ray", "image": "example.invalid/ray", "resources": resources}
    return {"metadata": {"annotations": {RUN_FOR: "1h"}}, "spec": {"containers": [container]}}


def ray(queues: Queues, name: str = "ray", **spec: Any) -> Object:
    """Create a RayJob with a head and two workers of 1 CPU, and no submitter."""
    cluster = {
        "headGroupSpec": {"template": template()},
        "workerGroupSpecs": [{"groupName": "w", **spec.pop("group", {"replicas": 2})}],
        **spec.pop("cluster", {}),
    }
    for each in cluster["workerGroupSpecs"]:
        each.setdefault("template", template())
    body = {
        "suspend": True,
        "shutdownAfterJobFinishes": True,
        "submissionMode": "HTTPMode",
        "rayClusterSpec": cluster,
        **spec,
    }
    made = kinds.made("ray.io/v1", "RayJob", body)
    labels = {QUEUE: "queue"}
    made["metadata"] = {"name": name, "namespace": queues.namespace, "labels": labels}
    return queues.api.create(made)


def state(queues: Queues, name: str = "ray") -> str:
    status = queues.api.get(JOBS, name, queues.namespace).get("status", {})
    return str(status.get("jobDeploymentStatus", ""))


def await_state(queues: Queues, wanted: str, name: str = "ray") -> None:
    queues.api.wait_for(f"{name} is {wanted}", lambda: state(queues, name) == wanted)


def used(queues: Queues, cluster_queue: str) -> str:
    found = queues.api.get("kueue.x-k8s.io/v1beta2/clusterqueues", cluster_queue)
    (flavor,) = found["status"]["flavorsUsage"]
    return next(str(r["total"]) for r in flavor["resources"] if r["name"] == "cpu")


def pods(queues: Queues) -> list[Object]:
    found = queues.api.list("pods", queues.namespace)
    return [each for each in found if each["status"].get("phase") in {"Pending", "Running"}]


def await_event(queues: Queues, name: str, reason: str, words: str) -> None:
    def said() -> bool:
        return any(
            event["regarding"]["name"] == name
            and event["reason"] == reason
            and words in event["note"]
            for event in queues.api.list(EVENTS, queues.namespace)
        )

    queues.api.wait_for(f"an Event {reason} of {name} says {words}", said)


@pytest.mark.parametrize(
    ("spec", "made", "cpu"),
    [
        ({"group": {"minReplicas": 3, "maxReplicas": 8}}, 4, "4"),
        ({"group": {"replicas": 5, "minReplicas": 0, "maxReplicas": 2}}, 3, "3"),
        ({"group": {"replicas": 5, "suspend": True}}, 1, "1"),
        ({"submissionMode": "SidecarMode"}, 3, "3500m"),
    ],
)
def test_a_job_has_quota_for_the_pods_that_kuberay_makes(
    queues: Queues, kuberay: KubeRay, nodes: NodeFactory, spec: Any, made: int, cpu: str
) -> None:
    nodes(2, "4")
    cluster_queue, _ = queues.simple(cpu=8)
    ray(queues, **spec)

    await_state(queues, "Running")
    assert len(pods(queues)) == made
    queues.api.wait_for(f"{cpu} is in use", lambda: used(queues, cluster_queue) == cpu)
    kuberay.end("ray")
    queues.await_condition("ray", "Finished", reason="Succeeded")


def test_the_submitter_runs_where_its_quota_is(
    queues: Queues, kuberay: KubeRay, nodes: NodeFactory
) -> None:
    tainted = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    nodes(1, "4", prefix="gpu", labels={"pool": "gpu"}, taints=[tainted])
    flavor = queues.flavor(
        "gpu",
        nodeLabels={"pool": "gpu"},
        nodeTaints=[tainted],
        tolerations=[{**tainted, "operator": "Equal"}],
    )
    spec = {"namespaceSelector": {}, "resourceGroups": [group(flavor, cpu=4)]}
    queues.local_queue("queue", queues.create("ClusterQueue", "cq", spec))
    ray(queues, group={"replicas": 1}, submissionMode="K8sJobMode")

    def submitted() -> Object | None:
        found = queues.api.list("pods", queues.namespace, labels="job-name=ray")
        return next((each for each in found if each["spec"].get("nodeName")), None)

    pod = queues.api.wait_for("the submitter has a node", submitted)
    assert pod["spec"]["nodeSelector"] == {"pool": "gpu"}
    kuberay.end("ray")
    queues.await_finished("ray")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        # Either the queue or KubeRay is the first to say so.
        ({"shutdownAfterJobFinishes": False}, "shutdownAfterJobFinishes"),
        ({"cluster": {"enableInTreeAutoscaling": True}}, "enableInTreeAutoscaling"),
    ],
)
def test_a_job_that_could_outgrow_its_quota_is_refused(
    queues: Queues, kuberay: KubeRay, spec: Any, words: str
) -> None:
    queues.simple(cpu=8)
    ray(queues, **spec)
    await_event(queues, "ray", "Invalid", words)
    queues.job("later", run_for="1h")
    queues.await_admitted("later")
    assert queues.workload("ray") is None


def test_a_job_that_is_created_running_and_would_stay_is_stopped(
    queues: Queues, kuberay: KubeRay, nodes: NodeFactory
) -> None:
    """KubeRay suspends no RayJob that keeps its cluster; pods of it would run without quota."""
    nodes(2, "4")
    queues.simple(cpu=1)  # too little for it
    ray(queues, suspend=False, shutdownAfterJobFinishes=False)
    await_event(queues, "ray", "Stopped", "spec.shutdownAfterJobFinishes is now true")
    await_state(queues, "Suspended")
    queues.api.wait_for("it has no pods", lambda: not pods(queues))
    queues.await_condition("ray", "QuotaReserved", "False")


def test_a_job_that_kuberay_refuses_after_its_start_frees_its_quota(
    queues: Queues, kuberay: KubeRay
) -> None:
    queues.simple(cpu=3)
    kuberay.paused = True
    ray(queues, backoffLimit=-1)
    queues.await_admitted("ray")
    queues.job("next", 3, run_for="1h")
    kuberay.paused = False
    found = queues.await_condition("ray", "Finished", reason="Failed")
    assert "backoffLimit must be a positive integer" in found["message"]
    queues.await_admitted("next")


def test_a_job_that_is_stopped_frees_its_quota_when_its_cluster_is_gone(
    queues: Queues, kuberay: KubeRay, nodes: NodeFactory
) -> None:
    nodes(2, "4")
    queues.simple(cpu=4)
    ray(queues, submissionMode="K8sJobMode", group={"replicas": 1})
    before = queues.api.get(JOBS, "ray", queues.namespace)["spec"]
    await_state(queues, "Running")
    workload = queues.its_workload("ray")
    name = workload["metadata"]["name"]
    stop = {"spec": {"active": False}}
    queues.api.patch("kueue.x-k8s.io/v1beta2/workloads", name, queues.namespace, body=stop)
    queues.await_condition("ray", "QuotaReserved", "False")
    assert state(queues) == "Suspended"
    assert queues.api.get(JOBS, "ray", queues.namespace)["spec"] == before


def test_a_job_that_uses_a_cluster_which_exists_is_let_be(queues: Queues, kuberay: KubeRay) -> None:
    queues.simple(cpu=3)
    kuberay.paused = True
    selector = {"ray.io/cluster": "theirs"}
    ray(queues, suspend=False, clusterSelector=selector)
    queues.job("later", run_for="1h")
    queues.await_admitted("later")
    assert queues.workload("ray") is None
    assert queues.api.get(JOBS, "ray", queues.namespace)["spec"]["suspend"] is False
