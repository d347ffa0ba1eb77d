"""Deployments and StatefulSets, run by the real kube-controller-manager."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.cluster.groups import SECONDS, Groups
from tests.cluster.held import held_in
from tests.cluster.queues import QUEUE, WORKLOADS, Queues
from tests.cluster.services import NEW_IMAGE, Services
from tests.harness import objects
from tests.harness.client import Api, ApiError
from tests.harness.objects import Object
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

SETS = "apps/v1/statefulsets"
DEPLOYMENTS = "apps/v1/deployments"
PARALLEL = {"podManagementPolicy": "Parallel"}


@pytest.fixture
def groups(api: Api, namespace: str) -> Groups:
    return Groups(api, namespace)


@pytest.fixture
def held(api: Api, namespace: str) -> Iterator[None]:
    with held_in(api, namespace):
        yield


def stateful_set(name: str, replicas: int, namespace: str, **spec: Any) -> Object:
    """Return a StatefulSet of pods with a CPU each."""
    found = objects.deployment(name, replicas, namespace=namespace, cpu="1")
    body = {"serviceName": name, **found["spec"], **spec}
    return {**found, "kind": "StatefulSet", "spec": body}


def new_image(spec: Object) -> None:
    """Change the template, so that all pods are replaced."""
    spec["template"]["spec"]["containers"][0]["image"] = NEW_IMAGE


@pytest.fixture
def services(api: Api, queues: Queues, held: None) -> Services:
    return Services(api, queues)


def test_a_gang_of_a_stateful_set_that_starts_in_order_is_told_the_mend(
    api: Api, gangs: Gangs, groups: Groups, nodes: NodeFactory
) -> None:
    nodes(1, "4")
    gangs.create_group("g", 3)
    made = stateful_set("web", 3, gangs.namespace)
    made["spec"]["template"]["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "g"
    api.create(made)

    mend = (
        "1 of the 3 pods that it needs exist; StatefulSet web makes a pod only when the one before "
        "is ready: create it again with podManagementPolicy: Parallel"
    )
    groups.await_reported("NotEnoughPods", mend)
    api.wait_for("an Event", lambda: groups.reasons().count("StartsInOrder") == 1, SECONDS)
    (said,) = (each for each in groups.events() if each["reason"] == "StartsInOrder")
    assert (said["type"], said["note"]) == ("Warning", mend)

    api.delete(SETS, "web", gangs.namespace)
    api.wait_for("it is gone", lambda: not api.list("pods", gangs.namespace), SECONDS)
    api.create({**made, "spec": {**made["spec"], **PARALLEL}})

    groups.await_status(phase="Running", running=3)


# -- Deployments


def test_the_pods_of_a_deployment_are_queued_one_by_one(
    services: Services, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "8")
    queues.simple(cpu=3)
    services.create(objects.deployment("web", 4, namespace=queues.namespace, cpu="1"))
    services.await_pods("web", running=3, waiting=1)
    services.await_workloads(True, True, True, False)

    services.scale(DEPLOYMENTS, "web", 2)
    services.await_pods("web", running=2)
    services.await_workloads(True, True)
    services.scale(DEPLOYMENTS, "web", 3)
    services.await_pods("web", running=3)

    surge = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    body: Object = {"spec": {"strategy": surge}}
    services.api.patch(DEPLOYMENTS, "web", queues.namespace, body=body)
    services.change(DEPLOYMENTS, "web", new_image)
    services.await_image("web", 3)
    services.await_workloads(True, True, True)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_queue_of_a_service_stays_while_replicas_are_ready(
    services: Services, queues: Queues, nodes: NodeFactory, kind: str
) -> None:
    nodes(1, "8")
    queues.simple(cpu=3)
    made = stateful_set("web", 1, queues.namespace)
    if kind == "Deployment":
        made = objects.deployment("web", 1, namespace=queues.namespace, cpu="1")
    resource, api = f"apps/v1/{kind.lower()}s", services.api
    services.create(made)

    def ready() -> bool:
        status = api.get(resource, "web", queues.namespace)["status"]
        return bool(status.get("readyReplicas") == 1)

    api.wait_for("it is ready", ready, SECONDS)

    def rename(queue: str | None) -> None:
        body = {"metadata": {"labels": {QUEUE: queue}}}
        api.patch(resource, "web", queues.namespace, body=body)

    with pytest.raises(ApiError, match="cannot become 'other' while replicas are ready"):
        rename("other")
    services.scale(resource, "web", 0)
    api.wait_for("it is idle", lambda: not services.pods("web"), SECONDS)
    api.wait_for("it is not ready", lambda: not ready(), SECONDS)
    with pytest.raises(ApiError, match="cannot be removed"):
        rename(None)
    rename("other")
    template = api.get(resource, "web", queues.namespace)["spec"]["template"]
    assert template["metadata"]["labels"][QUEUE] == "other"


# -- StatefulSets


@pytest.mark.parametrize("spec", [{}, PARALLEL], ids=["ordered", "parallel"])
def test_a_stateful_set_has_quota_for_all_replicas_before_the_first_starts(
    services: Services, queues: Queues, nodes: NodeFactory, spec: dict[str, Any]
) -> None:
    nodes(1, "8")
    queues.simple(cpu=4)
    services.create(stateful_set("first", 2, queues.namespace, **spec))
    services.await_pods("first", running=2)
    services.create(stateful_set("second", 3, queues.namespace, **spec))
    services.await_pods("second", running=0, waiting=3 if spec else 1)
    queues.await_condition("second", "QuotaReserved", "False", reason="WaitingForQuota")

    services.scale(SETS, "first", 0)
    services.await_pods("second", running=3)
    assert queues.workload("first") is None

    services.scale(SETS, "first", 1)
    services.await_pods("first", running=1)
    (pod_set,) = queues.its_workload("first")["spec"]["podSets"]
    assert (pod_set["name"], pod_set["count"]) == ("main", 1)


def test_pods_of_a_stateful_set_are_replaced_in_its_quota(
    services: Services, queues: Queues, nodes: NodeFactory, reconciler: Reconciler
) -> None:
    """Deleted, failed, of another template, and after a restart."""
    nodes(1, "8")
    queues.simple(cpu=3)
    services.create(stateful_set("web", 3, queues.namespace, **PARALLEL))
    services.await_pods("web", running=3)
    uid = queues.its_workload("web")["metadata"]["uid"]
    services.create(stateful_set("next", 1, queues.namespace))

    for pod in services.pods("web"):
        services.api.delete("pods", pod["metadata"]["name"], queues.namespace)
    services.await_pods("web", running=3)
    queues.end(services.pods("web")[0], "Failed")
    services.await_pods("web", running=3)
    reconciler.restart()
    services.change(SETS, "web", new_image)
    services.await_image("web", 3)

    assert queues.its_workload("web")["metadata"]["uid"] == uid
    assert services.running("next") == []


def test_a_stateful_set_grows_and_changes_its_amounts_when_it_is_queued_anew(
    services: Services, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "8")
    queues.simple(cpu=6)
    api, namespace = services.api, queues.namespace
    services.create(stateful_set("web", 2, namespace, **PARALLEL))
    services.await_pods("web", running=2)

    services.scale(SETS, "web", 3)
    services.await_pods("web", running=2, waiting=1)
    told = "the number of its pods"
    api.wait_for(
        "it is told",
        lambda: any(told in each for each in api.notes(namespace, "EditIgnored", name="web")),
        SECONDS,
    )
    services.scale(SETS, "web", 1)
    services.await_pods("web", running=1)
    services.scale(SETS, "web", 2)
    services.await_pods("web", running=2)

    body = api.get(SETS, "web", namespace)["spec"]["template"]
    body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    api.patch(SETS, "web", namespace, body={"spec": {"template": body}})
    services.await_pods("web", running=1, waiting=1)
    api.wait_for(
        "its pod is told", lambda: "quota for" in str(api.notes(namespace, "EditIgnored")), SECONDS
    )
    services.scale(SETS, "web", 0)
    api.wait_for("its quota is free", lambda: queues.workload("web") is None, SECONDS)
    services.scale(SETS, "web", 3)
    services.await_pods("web", running=3)


def test_a_stateful_set_makes_way_and_comes_back(
    services: Services, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "8")
    queues.simple(cpu=3, preemption={"withinClusterQueue": "LowerPriority"})
    high = queues.priority_class("high", 10)
    services.create(stateful_set("web", 3, queues.namespace, **PARALLEL))
    services.await_pods("web", running=3)

    urgent = objects.job("urgent", 2, namespace=queues.namespace, queue="queue", suspend=True,
                         cpu="1", run_for="1h")  # fmt: skip
    urgent["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = high
    services.api.create(urgent)
    queues.await_started("urgent")
    services.await_pods("web", running=0, waiting=3)
    queues.await_condition("web", "QuotaReserved", "False")

    services.api.delete("batch/v1/jobs", "urgent", queues.namespace)
    services.await_pods("web", running=3)


def test_a_stateful_set_is_a_gang_where_room_is_required(
    services: Services, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "2")
    cluster_queue, _ = queues.simple(cpu=8)
    queues.require_room(cluster_queue)
    services.create(stateful_set("web", 3, queues.namespace, **PARALLEL))
    queues.await_condition("web", "QuotaReserved", "False", reason="WaitingForRoom")
    services.await_pods("web", running=0, waiting=3)

    nodes(1, "2", prefix="late")
    services.await_pods("web", running=3)
    group = "scheduling.x-k8s.io/pod-group"
    assert {p["metadata"]["labels"][group] for p in services.pods("web")} == {"sts-web"}
    services.api.delete(SETS, "web", queues.namespace)
    services.await_workloads()


def test_pods_of_a_stateful_set_go_where_its_flavor_is_and_stop_with_its_workload(
    services: Services, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "8", prefix="other")
    (own,) = nodes(1, "8", prefix="own", labels={"pool": "own"})
    flavor = queues.flavor("own", nodeLabels={"pool": "own"})
    queues.simple(cpu=4, flavor=flavor)
    services.create(stateful_set("web", 2, queues.namespace, **PARALLEL))
    services.await_pods("web", running=2)
    assert {p["spec"]["nodeName"] for p in services.pods("web")} == {own}

    name = queues.its_workload("web")["metadata"]["name"]
    for active, running in ((False, 0), (True, 2)):
        body = {"spec": {"active": active}}
        services.api.patch(WORKLOADS, name, queues.namespace, body=body)
        services.await_pods("web", running=running, waiting=2 - running)
