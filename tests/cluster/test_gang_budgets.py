"""Gangs that have started are evicted whole, or not at all."""

from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS, Gangs
from tests.cluster.groups import SECONDS, Groups
from tests.harness import objects
from tests.harness.client import Api, ApiError
from tests.harness.objects import Object
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

BUDGETS = "policy/v1/poddisruptionbudgets"
OURS = "scheduling.x-k8s.io/disruption-budget"
TOO_MANY_REQUESTS = 429


def budgets(gangs: Gangs) -> dict[str, Object]:
    """Return the budgets of a namespace by name."""
    found = gangs.api.list(BUDGETS, gangs.namespace)
    return {each["metadata"]["name"]: each for each in found}


def await_budget(gangs: Gangs, group: str, need: int | None, *, allowed: int = 0) -> None:
    """Wait until a gang's budget needs so many pods, and allows so many to go; or is not there."""

    def is_so() -> bool:
        found = budgets(gangs).get(f"gang-{group}")
        if found is None or need is None:
            return found is None and need is None
        said, spec = found.get("status", {}), found["spec"]
        seen = said.get("observedGeneration") == found["metadata"]["generation"]
        return seen and (spec["minAvailable"], said["disruptionsAllowed"]) == (need, allowed)

    gangs.api.wait_for(f"the budget of {group} needs {need}, allows {allowed}", is_so, SECONDS)


def evict(gangs: Gangs, pod: str) -> int:
    """Evict a pod as a drain does; return the status of the answer."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": gangs.namespace},
    }
    path = f"/api/v1/namespaces/{gangs.namespace}/pods/{pod}/eviction"
    try:
        return gangs.api.request("POST", path, body=body).status_code
    except ApiError as error:
        return error.status


def running(gangs: Gangs, count: int, **more: Any) -> None:
    """Make a gang of two, or that many pods, that runs."""
    gangs.create("g", count, min_member=2, cpu="3", **more)
    gangs.await_phases("g", Running=count)


def test_no_member_is_evicted_that_the_gang_needs(
    reconciler: Reconciler, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(3)
    running(gangs, 3)
    await_budget(gangs, "g", 2, allowed=1)
    [budget] = budgets(gangs).values()
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert [each["kind"] for each in budget["metadata"]["ownerReferences"]] == ["PodGroup"]
    reconciler.restart()
    reconciler.await_looks()
    assert evict(gangs, "g-0") == 201
    await_budget(gangs, "g", 2)
    assert evict(gangs, "g-1") == TOO_MANY_REQUESTS
    assert gangs.phases("g") == ["Running"] * 2

    gangs.api.patch(POD_GROUPS, "g", gangs.namespace, body={"spec": {"minMember": 3}})
    await_budget(gangs, "g", 3)
    gangs.api.delete(POD_GROUPS, "g", gangs.namespace)
    gangs.api.wait_for("it goes with its PodGroup", lambda: not budgets(gangs), SECONDS)


def test_a_gang_that_is_over_has_none(gangs: Gangs, nodes: NodeFactory) -> None:
    nodes(2)
    running(gangs, 2)
    await_budget(gangs, "g", 2)
    for pod in gangs.members("g"):
        body = {"status": {"phase": "Succeeded"}}
        path = f"/api/v1/namespaces/{gangs.namespace}/pods/{pod['metadata']['name']}/status"
        gangs.api.request("PATCH", path, body=body, content_type="application/merge-patch+json")
    Groups(gangs.api, gangs.namespace).await_status(phase="Finished")
    await_budget(gangs, "g", None)


def test_a_gang_that_goes_whole_for_another_is_not_protected(
    high: str, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(2)
    running(gangs, 2)
    await_budget(gangs, "g", 2)
    gangs.create("h", 2, cpu="3", priority_class=high)
    gangs.await_phases("h", Running=2)
    assert gangs.phases("g") == []
    await_budget(gangs, "h", 2)


def test_who_has_a_budget_keeps_it_alone(api: Api, gangs: Gangs, nodes: NodeFactory) -> None:
    """The API server evicts no pod at all that two budgets are about."""
    nodes(2)
    running(gangs, 2)
    await_budget(gangs, "g", 2)
    selector = {"matchLabels": {objects.POD_GROUP_LABEL: "g"}}
    own = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "own", "namespace": gangs.namespace},
        "spec": {"minAvailable": 0, "selector": selector},
    }
    api.create(own)
    api.wait_for("ours is gone", lambda: [*budgets(gangs)] == ["own"], SECONDS)

    def allowed() -> bool:
        return bool(budgets(gangs)["own"].get("status", {}).get("disruptionsAllowed"))

    api.wait_for("its budget counts", allowed, SECONDS)
    assert evict(gangs, "g-0") == 201


def test_an_annotation_does_without(api: Api, gangs: Gangs, nodes: NodeFactory) -> None:
    nodes(2)
    running(gangs, 2)
    await_budget(gangs, "g", 2)
    body = {"metadata": {"annotations": {OURS: "false"}}}
    api.patch(POD_GROUPS, "g", gangs.namespace, body=body)
    await_budget(gangs, "g", None)
    assert evict(gangs, "g-0") == 201
