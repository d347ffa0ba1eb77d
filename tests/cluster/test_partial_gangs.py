"""Gangs that lost a member for which there is no room any more."""

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS, Gangs
from tests.cluster.groups import SECONDS, Groups
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.objects import Object
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

LEAST = 15
"""Seconds that a gang takes to start at most, on a slow machine."""
PARTIAL = "2 of the 3 pods that it still needs have a node"


def bereave(api: Api, gangs: Gangs, nodes: NodeFactory, *, policy: str, timeout: int) -> None:
    """Make a gang of three, take one away, and bring one for which no node has room.

    The time-out is the time to start, too.
    """
    nodes(3, "4")
    group = objects.pod_group("g", 3, namespace=gangs.namespace, timeout=timeout)
    group["metadata"]["annotations"] = {"scheduling.x-k8s.io/on-partial": policy}
    api.create(group)
    gangs.add("g", 3, cpu="3", labels={"app": "g"})
    own(api, gangs)
    gangs.await_phases("g", Running=3)
    if timeout > LEAST:
        shorten(api, gangs)
    gangs.delete(["g-0"])
    gangs.add("g", 1, start=3, cpu="5", labels={"app": "g"})


def shorten(api: Api, gangs: Gangs) -> None:
    """Give a gang that runs one second to be whole again, from when the reconciler knows it."""
    body = {"spec": {"scheduleTimeoutSeconds": 1}}
    found = api.patch(POD_GROUPS, "g", gangs.namespace, body=body)
    groups = Groups(api, gangs.namespace)

    def is_known() -> bool:
        said = [c for c in groups.status().get("conditions", ()) if c["type"] == "Scheduled"]
        generation = found["metadata"]["generation"]
        return [(c["status"], c["observedGeneration"]) for c in said] == [("True", generation)]

    api.wait_for("the reconciler knows that it is whole, and its time", is_known)


def own(api: Api, gangs: Gangs) -> None:
    """Give the pods an owner: pods that no controller would make anew are not evicted."""
    group = api.get(POD_GROUPS, "g", gangs.namespace)
    owner = {"apiVersion": group["apiVersion"], "kind": "PodGroup", "name": "g"}
    owners = [{**owner, "uid": group["metadata"]["uid"]}]
    for pod in gangs.members("g"):
        body = {"metadata": {"ownerReferences": owners}}
        api.patch("pods", pod["metadata"]["name"], gangs.namespace, body=body)


def test_a_partial_gang_is_kept_and_gets_one_event(
    reconciler: Reconciler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    groups = Groups(api, gangs.namespace)
    bereave(api, gangs, nodes, policy="keep", timeout=600)  # its PodGroup is changed then

    api.wait_for(
        "there is an Event or a condition", lambda: "PartialGang" in groups.reasons(), SECONDS
    )
    assert groups.reported(kind="Partial") == ("True", "PartialGang", PARTIAL)
    [event] = [e for e in groups.events() if e["reason"] == "PartialGang"]
    assert (event["type"], event["note"]) == ("Warning", PARTIAL)

    reconciler.restart()
    reconciler.await_looks()
    assert groups.reasons().count("PartialGang") == 1
    assert gangs.bound("g") == {"g-1", "g-2"}

    nodes(1, "8", prefix="new")
    groups.await_status(phase="Running", running=3)
    assert groups.reported(kind="Partial")[:2] == ("False", "Whole")


def test_a_partial_gang_is_evicted_as_soon_as_its_disruption_budget_allows(
    reconciler: Reconciler, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    groups = Groups(api, gangs.namespace)
    budgets = "policy/v1/poddisruptionbudgets"
    budget: Object = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "g", "namespace": gangs.namespace},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "g"}}},
    }
    api.create({**budget, "spec": {**budget["spec"], "minAvailable": 3, "maxUnavailable": None}})
    bereave(api, gangs, nodes, policy="evict", timeout=LEAST)

    api.wait_for(
        "it is partial",
        lambda: groups.reported(kind="Partial") == ("True", "PartiallyScheduled", PARTIAL),
        SECONDS,
    )
    failed = 'gang_extender_reconciles_total{controller="pod-group",result="failed"}'
    before = reconciler.metric(failed)
    api.wait_for("an eviction is refused", lambda: reconciler.metric(failed) > before, SECONDS)
    assert gangs.bound("g") == {"g-1", "g-2"}
    assert "PartialGang" not in groups.reasons()

    api.delete(budgets, "g", gangs.namespace)
    api.wait_for("it is evicted", lambda: not gangs.bound("g"), SECONDS)
    groups.await_status(scheduled=0)
    api.wait_for(
        "there is an Event or a condition", lambda: "PartialGang" in groups.reasons(), SECONDS
    )
    assert groups.reasons().count("PartialGang") == 1
    assert groups.reported(kind="Partial")[:2] == ("False", "NotScheduled")
    group = api.get(POD_GROUPS, "g", gangs.namespace)
    assert group["status"]["phase"] == "Pending"
