"""Tests of every kind of job in a queue, with its real operator."""

import pytest
import yaml

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS
from tests.cluster.partners.pools import POOL, Pools
from tests.cluster.partners.work import PRIORITY, SECONDS, Works, without_restarts
from tests.cluster.pods_ready import BASE, TIMEOUT, await_count
from tests.cluster.queues import API, WORKLOADS
from tests.documents import ROOT
from tests.harness.client import Object

NEEDS_ROOM = {"metadata": {"annotations": {"scheduling.x-k8s.io/require-room": "true"}}}
NEEDS_NODES = {"metadata": {"annotations": {"scheduling.x-k8s.io/require-room": "Provision"}}}
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


@pytest.mark.kinds("AppWrapper", "JobSet", "PyTorchJob", "RayCluster", "RayJob", "SparkApplication")
def test_its_sample_is_taken(works: Works) -> None:
    sample = ROOT / "manifests/samples/jobs" / f"{works.kind.name.lower()}.yaml"
    each = yaml.safe_load(sample.read_text())
    assert each["kind"] == works.kind.name

    works.api.tried({**each, "metadata": {**each["metadata"], "namespace": works.namespace}})


def test_created_suspended_one_runs_and_the_next_follows_in_its_quota(
    works: Works, nodes: NodeFactory
) -> None:
    nodes(2, "4")
    cluster_queue, _ = works.queues.simple(cpu=4)
    works.create("first")
    works.await_running("first")
    works.create("second")
    works.await_pending("second")
    assert works.is_suspended("second")
    assert works.pods("second") == []
    # What an operator makes is counted with its job.
    assert len(works.api.list(WORKLOADS, works.namespace)) == 2

    works.finish("first")

    works.await_running("second")
    works.finish("second")
    works.api.wait_for("no quota is in use", lambda: works.used(cluster_queue) == "0", SECONDS)


def test_created_running_it_is_stopped_and_every_pod_is_admitted(
    works: Works, nodes: NodeFactory
) -> None:
    nodes(2, "4", labels={POOL: "a"})
    flavor = works.queues.flavor("pool", nodeLabels={POOL: "a"})
    works.queues.simple(cpu=4, flavor=flavor)

    works.create("work", suspended=False)

    def admitted() -> bool:
        """Look again: pods from before the stop may run for a moment."""
        pods = works.await_running("work")
        return all(pod["spec"].get("nodeSelector", {}).get(POOL) == "a" for pod in pods)

    works.api.wait_for("every pod that runs is admitted", admitted, SECONDS)


def test_as_a_gang_it_waits_for_room_and_starts_whole(works: Works, nodes: NodeFactory) -> None:
    nodes(2, "1")
    cluster_queue, _ = works.queues.simple(cpu=8)
    works.api.patch(f"{API}/clusterqueues", cluster_queue, body=NEEDS_ROOM)
    works.create("work")
    works.await_pending("work")
    assert works.pods("work") == []

    nodes(2, "1", prefix="more")

    pods = works.await_running("work")
    [group] = works.api.list(POD_GROUPS, works.namespace)
    members = [pod for pod in pods if label(pod, GROUP_LABEL) == group["metadata"]["name"]]
    assert group["spec"]["minMember"] == len(members) == works.kind.members


def test_on_a_cluster_that_grows_it_starts_from_zero_as_a_gang(grown: Pools, works: Works) -> None:
    grown.create()
    flavor = works.queues.flavor("grown", nodeLabels=grown.selector)
    cluster_queue, _ = works.queues.simple(cpu=8, flavor=flavor)
    works.api.patch(f"{API}/clusterqueues", cluster_queue, body=NEEDS_NODES)

    works.create("work")

    pods = works.await_running("work")
    assert {pod["spec"]["nodeName"] for pod in pods} == {name_of(each) for each in grown.nodes()}
    assert grown.bought() == 1
    [group] = works.api.list(POD_GROUPS, works.namespace)
    members = [pod for pod in pods if label(pod, GROUP_LABEL) == group["metadata"]["name"]]
    assert group["spec"]["minMember"] == len(members) == works.kind.members


def test_preempted_it_stops_and_starts_again_whole(works: Works, nodes: NodeFactory) -> None:
    nodes(2, "4")
    works.queues.simple(cpu=4, preemption={"withinClusterQueue": "LowerPriority"})
    high = works.queues.create("WorkloadPriorityClass", "high", {}, value=1000)
    works.create("low")
    works.await_running("low")

    works.create("high", labels={PRIORITY: high})

    works.await_running("high")
    works.await_idle("low")
    works.finish("high")
    if works.kind.name == "RayJob":
        works.dashboard.ended.clear()
    works.await_running("low")


def test_a_pod_that_fails_is_made_again_within_the_quota(works: Works, nodes: NodeFactory) -> None:
    nodes(2, "4")
    cluster_queue, _ = works.queues.simple(cpu=3)
    works.create("work")
    pods = works.await_running("work")
    [failed] = [pod for pod in pods if works.kind.retried in name_of(pod)]

    works.end(failed, code=1)

    works.await_gone("work", failed)
    works.await_running("work")
    works.finish("work")
    works.api.wait_for("no quota is in use", lambda: works.used(cluster_queue) == "0", SECONDS)


def test_late_it_is_sent_back_and_runs_once_there_is_room(works: Works, nodes: NodeFactory) -> None:
    """Without `requireRoom` a job has quota before there is room for its pods."""
    works.queues.job_overrides = "*"
    works.queues.simple(cpu=4)
    works.create("work", labels={TIMEOUT: "2", BASE: "1"})
    await_count(works.queues, "work", 2)

    nodes(2, "4")
    works.label("work", TIMEOUT, "1h")

    works.await_running("work")
    works.queues.await_condition("work", "PodsReady", timeout=SECONDS)
    assert works.queues.condition("work", "Evicted")["status"] == "False"
    works.finish("work")


def test_quota_of_pods_that_are_done_goes_to_the_next(works: Works, nodes: NodeFactory) -> None:
    """A RayJob gives nothing back before it ends: KubeRay makes a worker that is done again."""
    nodes(2, "4")
    cluster_queue, _ = works.queues.simple(cpu=5)
    # A job that may restart as a whole needs the quota of its pods again.
    works.create("first", change=without_restarts)
    pods = works.await_running("first")
    works.create("second")
    works.await_pending("second")

    done = next(pod for pod in pods if works.kind.ends_early in name_of(pod))
    works.end(done)
    works.await_gone("first", done)

    if works.kind.gives_back:
        works.await_running("second")
        assert len(works.pods("first", "Running")) == works.kind.pods - 1
        works.api.wait_for("all quota is in use", lambda: works.used(cluster_queue) == "5", SECONDS)
    else:
        works.await_running("first")
        assert works.is_suspended("second")
        works.api.wait_for("its quota is kept", lambda: works.used(cluster_queue) == "3", SECONDS)


def test_deleted_half_way_it_leaves_no_pod_and_no_quota(works: Works, nodes: NodeFactory) -> None:
    nodes(2, "4")
    cluster_queue, _ = works.queues.simple(cpu=4)
    works.create("work")
    works.await_running("work")

    works.delete("work")

    works.api.wait_for("no quota is in use", lambda: works.used(cluster_queue) == "0", SECONDS)


def test_moved_to_another_flavor_it_leaves_nothing_of_the_first_behind(
    works: Works, nodes: NodeFactory
) -> None:
    for each in "ab":
        labels = {f"example.com/pool-{each}": "yes"}
        taint = {"key": f"example.com/{each}", "effect": "NoSchedule", "value": "yes"}
        nodes(1, "4", prefix=each, labels=labels, taints=[taint])
        tolerated = {**taint, "operator": "Equal"}
        works.queues.flavor(each, nodeLabels=labels, tolerations=[tolerated])
    name = works.queues.create("ClusterQueue", "cq", two_flavors(works, 4, 4))
    works.queues.local_queue("queue", name)
    works.create("work")
    assert directives(works.await_running("work")) == {"example.com/pool-a", "example.com/a"}
    works.patch_workload("work", {"active": False})
    works.await_idle("work")

    changed = {**two_flavors(works, 0, 4), "stopPolicy": "Hold"}
    works.api.patch(f"{API}/clusterqueues", name, body={"spec": changed})
    works.queues.await_inactive(name, "Stopped")  # the reconciler has seen the change
    works.api.patch(f"{API}/clusterqueues", name, body={"spec": {"stopPolicy": "None"}})
    works.patch_workload("work", {"active": True})

    assert directives(works.await_running("work")) == {"example.com/pool-b", "example.com/b"}


def test_stopped_at_once_it_has_its_quota_until_its_pods_are_gone(
    works: Works, nodes: NodeFactory
) -> None:
    """Its status is that of before the start, when nothing ran."""
    nodes(2, "4")
    works.queues.simple(cpu=3)
    works.create("work")
    for _ in range(2):
        works.api.wait_for("it is started", lambda: not works.is_suspended("work"), SECONDS)

        works.patch_workload("work", {"active": False})

        works.await_pending("work")
        assert works.pods("work", "Pending", "Running") == []
        assert works.is_suspended("work")
        works.patch_workload("work", {"active": True})
    works.await_running("work")


@pytest.mark.misplaces("an operator makes pods before the queue has stopped the job")
def test_scaled_it_stops_and_has_quota_for_its_new_size(works: Works, nodes: NodeFactory) -> None:
    nodes(3, "4")
    cluster_queue, _ = works.queues.simple(cpu=5)
    works.create("work")
    first = {uid_of(pod) for pod in works.await_running("work")}

    works.scale("work", 4)

    def are_new() -> bool:
        """Look again: its operator may add pods to the first before the queue stops it."""
        return first.isdisjoint(map(uid_of, works.await_running("work", 5)))

    works.api.wait_for("all of its pods are new", are_new, SECONDS)
    works.api.wait_for("all quota is in use", lambda: works.used(cluster_queue) == "5", SECONDS)

    works.scale("work", 5)

    works.await_idle("work")
    works.await_pending("work")
    works.api.wait_for("no quota is in use", lambda: works.used(cluster_queue) == "0", SECONDS)

    works.scale("work", 1)

    works.await_running("work", 2)
    works.api.wait_for("quota for two", lambda: works.used(cluster_queue) == "2", SECONDS)


def two_flavors(works: Works, *quotas: int) -> Object:
    flavors = [
        {
            "name": works.queues.name(each),
            "resources": [
                {"name": "cpu", "nominalQuota": cpu},
                {"name": "memory", "nominalQuota": "8Gi"},
            ],
        }
        for each, cpu in zip("ab", quotas, strict=True)
    ]
    groups = [{"coveredResources": ["cpu", "memory"], "flavors": flavors}]
    return {"namespaceSelector": {}, "resourceGroups": groups}


def uid_of(found: Object) -> str:
    return str(found["metadata"]["uid"])


def name_of(found: Object) -> str:
    return str(found["metadata"]["name"])


def label(found: Object, name: str) -> str | None:
    value: str | None = found["metadata"]["labels"].get(name)
    return value


def directives(pods: list[Object]) -> set[str]:
    """Return the keys of the example in the node selectors and tolerations of pods."""
    keys = [*(key for pod in pods for key in pod["spec"].get("nodeSelector", {}))]
    keys += [each.get("key", "") for pod in pods for each in pod["spec"]["tolerations"]]
    return {key for key in keys if key.startswith("example.com/")}
