"""RayJobs and RayServices beside KubeRay: their quota is that of the pods that there are."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.partners.work import SECONDS, Works
from tests.cluster.queues import API, group
from tests.harness.client import Object

EVENTS = "events.k8s.io/v1/events"
RAY_JOB = pytest.mark.kinds("RayJob")


def changed(workers: Any = None, cluster: Any = None, **spec: Any) -> Callable[[Object], None]:
    """Return what changes the spec of a RayJob; a field that is None is taken away."""

    def change(found: Object) -> None:
        of_job = found["rayClusterSpec"]
        parts = (found, spec), (of_job, cluster), (of_job["workerGroupSpecs"][0], workers)
        for part, fields in parts:
            part |= fields or {}
            for name in [name for name, value in part.items() if value is None]:
                del part[name]

    return change


def leaves(found: Any, path: str = "") -> set[str]:
    """Return the values in an object, each with its path."""
    if not isinstance(found, dict | list):
        return {f"{path}={found}"}
    items = found.items() if isinstance(found, dict) else enumerate(found)
    return {leaf for name, each in items for leaf in leaves(each, f"{path}.{name}")}


def await_event(works: Works, reason: str, words: str) -> None:
    def said() -> bool:
        return any(
            event["regarding"]["name"] == "work"
            and event["reason"] == reason
            and words in event["note"]
            for event in works.api.list(EVENTS, works.namespace)
        )

    works.api.wait_for(f"an Event {reason} says {words}", said, SECONDS)


@RAY_JOB
@pytest.mark.parametrize(
    ("change", "made", "cpu"),
    [
        (changed({"replicas": None, "minReplicas": 3}), 5, "5"),
        (changed({"replicas": 5, "maxReplicas": 2}), 4, "4"),
        (changed(submissionMode="SidecarMode", submitterPodTemplate=None), 2, "2500m"),
    ],
    ids=["least", "most", "sidecar"],
)
def test_a_job_has_quota_for_the_pods_that_kuberay_makes(
    works: Works, nodes: NodeFactory, change: Any, made: int, cpu: str
) -> None:
    nodes(2, "4")
    cluster_queue, _ = works.queues.simple(cpu=8)
    works.create("work", change=change)

    works.await_running("work", made)
    works.api.wait_for(f"{cpu} is in use", lambda: works.used(cluster_queue) == cpu, SECONDS)
    works.finish("work")


@RAY_JOB
def test_the_default_submitter_runs_where_its_quota_is(works: Works, nodes: NodeFactory) -> None:
    tainted = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    nodes(1, "4", prefix="gpu", labels={"pool": "gpu"}, taints=[tainted])
    flavor = works.queues.flavor(
        "gpu",
        nodeLabels={"pool": "gpu"},
        nodeTaints=[tainted],
        tolerations=[{**tainted, "operator": "Equal"}],
    )
    spec = {"namespaceSelector": {}, "resourceGroups": [group(flavor, cpu=4)]}
    works.queues.local_queue("queue", works.queues.create("ClusterQueue", "cq", spec))
    works.create("work", change=changed(submitterPodTemplate=None))

    def submitted() -> Object | None:
        found = works.api.list("pods", works.namespace, labels="job-name=work")
        return next((each for each in found if each["spec"].get("nodeName")), None)

    pod = works.api.wait_for("the submitter has a node", submitted, SECONDS)
    assert pod["spec"]["nodeSelector"] == {"pool": "gpu"}
    works.finish("work")


@RAY_JOB
@pytest.mark.parametrize(
    ("change", "words"),
    [
        # Either the queue or KubeRay is the first to say so.
        (changed(shutdownAfterJobFinishes=False), "shutdownAfterJobFinishes"),
        (changed(cluster={"enableInTreeAutoscaling": True}), "enableInTreeAutoscaling"),
        (changed({"groupName": "head"}), "workerGroupSpecs"),
    ],
    ids=["stays", "grows", "named head"],
)
def test_a_job_that_could_outgrow_its_quota_is_refused(
    works: Works, change: Any, words: str
) -> None:
    works.queues.simple(cpu=8)
    works.create("work", change=change)
    await_event(works, "Invalid", words)
    works.queues.job("later", run_for="1h")
    works.queues.await_admitted("later")
    assert works.queues.workload("work") is None


@RAY_JOB
def test_a_job_that_is_created_running_and_would_stay_is_stopped(
    works: Works, nodes: NodeFactory
) -> None:
    """KubeRay suspends no RayJob that keeps its cluster; pods of it would run without quota."""
    nodes(2, "4")
    works.queues.simple(cpu=1)  # too little for it
    works.create("work", suspended=False, change=changed(shutdownAfterJobFinishes=False))
    await_event(works, "Stopped", "spec.shutdownAfterJobFinishes is now true")
    works.await_idle("work")
    works.await_pending("work")


@RAY_JOB
def test_a_job_that_kuberay_refuses_after_its_start_frees_its_quota(
    works: Works, nodes: NodeFactory
) -> None:
    nodes(2, "4")
    works.queues.simple(cpu=3)
    works.create("work")
    works.await_running("work")
    works.queues.job("next", 3, run_for="1h")
    works.await_pending("next")
    refused = {"spec": {"backoffLimit": -1}}

    works.api.patch(works.kind.resource, "work", works.namespace, body=refused)

    # KubeRay leaves its cluster alone, whose pods have its quota until they are gone.
    await_event(works, "PodsRemain", "until its pods are gone")
    for resource in ("ray.io/v1/rayclusters", "batch/v1/jobs"):
        for each in works.api.list(resource, works.namespace):
            if each["metadata"]["name"].startswith("work"):
                works.api.delete(resource, each["metadata"]["name"], works.namespace)
    found = works.queues.await_condition("work", "Finished", reason="Failed", timeout=SECONDS)
    assert "backoffLimit must be a positive integer" in found["message"]
    works.queues.await_admitted("next")


@RAY_JOB
def test_a_job_that_is_stopped_is_what_it_was(works: Works, nodes: NodeFactory) -> None:
    nodes(2, "4")
    works.queues.simple(cpu=4)
    before = works.create("work", change=changed(submitterPodTemplate=None))["spec"]
    # The default submitter ends at once, the head and the worker stay.
    works.api.wait_for("its cluster runs", lambda: len(works.pods("work", "Running")) >= 2, SECONDS)

    works.patch_workload("work", {"active": False})

    works.queues.await_condition("work", "QuotaReserved", "False", timeout=SECONDS)
    assert not works.pods("work", "Pending", "Running")
    assert leaves(works.job("work")["spec"]) ^ leaves(before) == set()


@RAY_JOB
def test_a_job_that_uses_a_cluster_which_exists_is_let_be(works: Works) -> None:
    works.queues.simple(cpu=3)
    selector = {"ray.io/cluster": "theirs"}
    works.create("work", suspended=False, change=changed(clusterSelector=selector))
    works.queues.job("later", run_for="1h")
    works.queues.await_admitted("later")
    assert works.queues.workload("work") is None
    assert not works.is_suspended("work")


@pytest.mark.kinds("RayService")
def test_an_upgrade_waits_for_quota_beside_what_serves(works: Works, nodes: NodeFactory) -> None:
    nodes(2, "4")
    cluster_queue, _ = works.queues.simple(cpu=5)
    works.create("work")
    first = {pod["metadata"]["uid"] for pod in works.await_running("work")}

    def serves() -> bool:
        service = works.api.get(works.kind.resource, "work", works.namespace)
        return bool(service["status"].get("activeServiceStatus", {}).get("rayClusterName"))

    works.api.wait_for("it serves", serves, SECONDS)
    new = {"spec": {"rayClusterConfig": {"rayVersion": "2.47.0"}}}

    works.api.patch(works.kind.resource, "work", works.namespace, body=new)

    def waits() -> bool:
        made = works.api.list(works.kind.queued_as, works.namespace)
        names = [each["metadata"]["name"] for each in made]
        found = [works.queues.condition(name, "QuotaReserved").get("status") for name in names]
        return sorted(map(str, found)) == ["False", "True"]

    works.api.wait_for("the second waits for quota", waits, SECONDS)
    assert {pod["metadata"]["uid"] for pod in works.await_running("work")} == first
    assert works.used(cluster_queue) == "3"

    spec = works.api.get(f"{API}/clusterqueues", cluster_queue)["spec"]
    [cpu] = [
        each
        for each in spec["resourceGroups"][0]["flavors"][0]["resources"]
        if each["name"] == "cpu"
    ]
    cpu["nominalQuota"] = "6"
    works.api.patch(f"{API}/clusterqueues", cluster_queue, body={"spec": spec})

    works.await_running("work", 6)


@pytest.mark.kinds("RayCluster")
def test_a_cluster_that_keeps_its_state_in_redis_is_deleted_once_that_is_cleaned(
    works: Works, nodes: NodeFactory
) -> None:
    """The pod that cleans it is made alone, with the labels of the head, whose quota it has."""
    nodes(2, "4")
    cluster_queue, _ = works.queues.simple(cpu=3)
    works.queues.require_room(cluster_queue)
    redis = {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}
    works.create("work", change=lambda spec: spec.update(redis))
    works.await_running("work")

    works.api.delete(works.kind.resource, "work", works.namespace)

    def cleans() -> list[Object]:
        selector = "job-name=work-redis-cleanup"
        found = works.api.list("pods", works.namespace, labels=selector)
        return [pod for pod in found if pod["status"].get("phase") == "Running"]

    [pod] = works.api.wait_for("Redis is cleaned", cleans, SECONDS)
    assert works.used(cluster_queue) == "3"
    works.end(pod)
    works.api.wait_for("its workload is gone", lambda: not works.queues.workload("work"), SECONDS)
    works.api.wait_for("no quota is in use", lambda: works.used(cluster_queue) == "0", SECONDS)


@pytest.mark.kinds("RayCluster")
def test_a_cluster_that_is_let_grow_while_it_runs_is_stopped(
    works: Works, nodes: NodeFactory
) -> None:
    nodes(2, "4")
    works.queues.simple(cpu=3)
    works.create("work")
    works.await_running("work")
    grows = {"spec": {"enableInTreeAutoscaling": True}}

    works.api.patch(works.kind.resource, "work", works.namespace, body=grows)

    works.await_idle("work")
    await_event(works, "Invalid", "spec.enableInTreeAutoscaling: ")
    works.api.wait_for("it has no quota", lambda: not works.queues.workload("work"), SECONDS)
