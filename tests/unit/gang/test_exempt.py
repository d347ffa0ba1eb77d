"""Pods of the cluster itself use room that is kept; pods that only look like them, a share."""

import json
from typing import Any

import pytest

from extender.gang.filter import beside_plans
from extender.gang.verdicts import AnyNode, Refuse
from extender.kube.decode import Decoder
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.reservations import Claim
from extender.state.cluster.store import Cluster
from tests.makers import cluster_of, key, node, planned, pod, pod_group, pods, requests

OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u"}


def kept(how: str) -> Cluster:
    """Return a node of ten CPUs, all kept by a plan or by a claim."""
    cluster = cluster_of(node("n0", 10), pod_group("gang", 2), pods(2, 5))
    claim = Claim(key("gang"), 0, {"n0": requests(10)})
    cluster.apply(planned(gang_0="n0", gang_1="n0") if how == "plan" else ev.Claimed((claim,)))
    return cluster


def agent(
    name: str = "agent", cpu: Any = 1, namespace: str = "kube-system", **more: Any
) -> PodInfo:
    return pod(name, cpu, **{"namespace": namespace, "only_node": "n0", **more})


def may(cluster: Cluster, each: PodInfo) -> bool:
    answer = beside_plans(each, ["n0"], view=cluster.view())
    assert isinstance(answer, AnyNode | Refuse)
    return isinstance(answer, AnyNode)


PODS: dict[str, tuple[PodInfo, bool]] = {
    "a pod": (pod("p", 1), False),
    "one of a system priority": (pod("p", 9, priority=2_000_000_000), True),
    "a DaemonSet's of the system": (agent(cpu=9), True),
    "another pod of the system": (agent(only_node=None), False),
    "a DaemonSet's of another node": (agent(only_node="n1"), False),
    "a small one of a tenant's": (agent(namespace="tenant"), True),
    "a large one of a tenant's": (agent(namespace="tenant", cpu="1001m"), False),
}


@pytest.mark.parametrize("how", ["plan", "claim"])
@pytest.mark.parametrize(("member", "want"), PODS.values(), ids=PODS)
def test_which_pods_use_kept_room(how: str, member: PodInfo, want: bool) -> None:
    assert may(kept(how), member) is want


def test_all_of_a_tenant_s_together_have_one_small_share() -> None:
    cluster = kept("plan")
    cluster.apply(ev.ObjectApplied(agent("first", "600m", "tenant", node="n0")))
    assert not may(cluster, agent("second", "600m", "tenant"))
    assert may(cluster, agent("third", "400m", "tenant"))
    assert may(cluster, agent("fourth", "600m", "another"))


def only_node(owner: dict[str, Any], *fields: dict[str, Any]) -> str | None:
    terms = [{"matchFields": [each]} for each in fields]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    raw = {
        "metadata": {"name": "p", "uid": "p", "ownerReferences": [owner]},
        "spec": {"containers": [], "affinity": {"nodeAffinity": required}},
    }
    return Decoder().pod(json.dumps(raw).encode()).only_node


def named(*nodes: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": "In", "values": nodes}


def test_a_daemon_set_s_pod_has_its_controller_and_one_node() -> None:
    owner = {**OWNER, "controller": True}
    assert only_node(owner, named("n0")) == "n0"
    assert only_node(owner) is None
    assert only_node(owner, named("n0", "n1")) is None
    assert only_node(owner, named("n0"), named("n1")) is None
    assert only_node(OWNER, named("n0")) is None
    assert only_node({**owner, "kind": "ReplicaSet"}, named("n0")) is None
    assert only_node({**owner, "apiVersion": "example.com/v1"}, named("n0")) is None
