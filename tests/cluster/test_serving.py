"""Deployments and StatefulSets, run by the real kube-controller-manager."""

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.cluster.groups import SECONDS, Groups
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.objects import Object

SETS = "apps/v1/statefulsets"


@pytest.fixture
def groups(api: Api, namespace: str) -> Groups:
    return Groups(api, namespace)


def stateful_set(name: str, replicas: int, namespace: str, **spec: object) -> Object:
    """Return a StatefulSet like the Deployment of the same name."""
    found = objects.deployment(name, replicas, namespace=namespace)
    body = {"serviceName": name, **found["spec"], **spec}
    return {**found, "kind": "StatefulSet", "spec": body}


@pytest.mark.usefixtures("gang", "reconciler")
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
    api.create({**made, "spec": {**made["spec"], "podManagementPolicy": "Parallel"}})

    groups.await_status(phase="Running", running=3)
