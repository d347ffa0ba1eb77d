"""What a tenant may set aside on nodes, and what uses that room all the same.

The tenant's groups could all fit on empty nodes, so that each of them may have a claim once it has
waited long. Its own pods keep the nodes busy forever.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from tests.cluster.alone import in_place_of, pair_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import HELD, PATIENT, POD_GROUPS, Gangs, message
from tests.cluster.tenants import Others, Tenant
from tests.harness import objects
from tests.harness.client import Api, Object
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.reconciler import Reconciler
from tests.tiers import LONG

CAPPED = "capped"
KEPT = "room is kept for a gang that goes first"
AGING = {"agingSeconds": 2}
DAEMON_SETS = "apps/v1/daemonsets"
NODES = 14
SLOW = 120.0
"""Seconds: kube-scheduler has to try a thousand pods first."""


pair = pair_of(CAPPED, settings={"gang": AGING})
"""It claims nodes after two seconds."""


@pytest.fixture
def capped(pair: GangScheduler) -> Iterator[GangScheduler]:
    """The pair, with its own settings again after a test that has others."""
    yield pair
    pair.restart_with({"gang": AGING})


@pytest.fixture
def quick_reconciler(control_plane: ControlPlane, reconciler: Reconciler) -> Iterator[Reconciler]:
    """A reconciler with the same settings of gangs, in the place of the one that all share."""
    with in_place_of(reconciler, control_plane, "tenants-aging", {"gang": AGING}) as other:
        yield other


@pytest.fixture
def busy(tenant: Tenant, others: Others, nodes: NodeFactory) -> list[str]:
    """Fourteen nodes of four CPUs, on each of which the tenant's pods leave 1.1 CPU."""
    names = [*others.nodes]
    names += nodes(NODES - len(names), "4", prefix="more")
    for name in names:
        tenant.api.create(tenant.gangs.pod(f"busy-{name}", cpu="2900m", node_name=name))
    return names


def await_claims(gangs: Gangs, capped: GangScheduler, count: int) -> None:
    """Wait until so many groups have a claim.

    None has one before kube-scheduler has asked about a pod, and it asks about none for which it
    finds no node itself.
    """
    name = f"asks-{uuid4().hex[:6]}"
    gangs.api.create(gangs.pod(name, cpu="0", scheduler_name=CAPPED))
    found: list[float] = []

    def are_there() -> bool:
        found[:] = [capped.metric("gang_extender_claims")]
        return found == [count]

    try:
        gangs.api.wait_for(f"{count} groups have a claim", are_there, 240)
    except AssertionError:
        raise AssertionError(f"{found} groups have a claim, and not {count}") from None
    gangs.delete([name])


@LONG
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("busy", "quick_reconciler")
def test_a_thousand_pods_that_could_fit_leave_room_to_others(
    api: Api, capped: GangScheduler, tenant: Tenant, others: Others
) -> None:
    """And without the caps they leave none, which is why there are caps."""
    mine: dict[str, Any] = {"scheduler_name": CAPPED}
    # More nodes than it may claim: one pod a node.
    wide = tenant.gangs.create("wide", 8, cpu="3", **mine)
    limited = partial(api.notes, tenant.namespace, "ClaimLimited", name="wide")
    assert "gang.claimNodesPercentage" in api.wait_for("it is told why", limited, 120)[0]

    def scheduled() -> str:
        group = tenant.api.get(POD_GROUPS, "wide", tenant.namespace)
        return str(
            [c["message"] for c in group["status"]["conditions"] if c["type"] == "Scheduled"]
        )

    text = "no nodes are set aside for it"
    api.wait_for("the group says so", lambda: text in scheduled(), 120)
    assert "may claim 7 nodes" in scheduled()

    for number in range(100):
        tenant.gangs.create(f"one-{number:02}", 1, cpu="1200m", **mine)
    for number in range(45):
        tenant.gangs.create(f"many-{number:02}", 20, cpu="1200m", **mine)
    await_claims(others.gangs, capped, 5)
    others.start(**mine, timeout=SLOW)

    # Without the caps each of the first groups has a node in the end, until none is left.
    tenant.gangs.delete(wide)
    free = {"claimNodesPercentage": 100, "claimsPerNamespace": 1000}
    capped.restart_with({"gang": {**AGING, **free}})
    await_claims(others.gangs, capped, NODES)
    others.gangs.create("stopped", 3, cpu="1", **mine)
    text = "0 of the 3 pods that it still needs fit beside gangs that go first"
    others.gangs.await_refused("stopped", text, timeout=SLOW)


def daemon_set(name: str, namespace: str, cpu: str, scheduler: str) -> Object:
    """Return a DaemonSet for every node."""
    labels = {"app": name}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"schedulerName": scheduler, "containers": [container]},
            },
        },
    }


def on(node: str) -> dict[str, Any]:
    """Return the affinity by which a DaemonSet's pod is bound to its node."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def pretending(gangs: Gangs, name: str, cpu: str, node: str, api_version: str) -> Object:
    """Return a pod that says that a DaemonSet made it, which does not exist."""
    pod = gangs.pod(name, cpu=cpu, affinity=on(node), scheduler_name=CAPPED)
    owner = {"apiVersion": api_version, "kind": "DaemonSet", "name": "none", "uid": "none"}
    pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return pod


@pytest.fixture
def daemons(api: Api) -> Iterator[list[tuple[str, str]]]:
    """DaemonSets of kube-system that are to go: name and namespace."""
    made: list[tuple[str, str]] = []
    yield made
    for name, namespace in made:
        api.delete(DAEMON_SETS, name, namespace)
        api.delete_all("pods", namespace, labels=f"app={name}", grace_seconds=0)


def await_running(api: Api, namespace: str, app: str, count: int) -> None:
    def phases() -> list[str]:
        pods = api.list("pods", namespace, labels=f"app={app}")
        return [pod["status"]["phase"] for pod in pods]

    what = f"{app} runs on {count} nodes"
    api.wait_for(what, lambda: phases() == ["Running"] * count, 120)


def await_kept_from(api: Api, namespace: str, names: str, count: int) -> None:
    """Wait until so many pods were refused because their room is kept; none has a node."""

    def refused() -> bool:
        pods = [
            pod for pod in api.list("pods", namespace) if pod["metadata"]["name"].startswith(names)
        ]
        assert not [pod for pod in pods if pod["spec"].get("nodeName")], f"{names} has a node"
        return [KEPT in message(pod) for pod in pods] == [True] * count

    api.wait_for(f"{names} is refused", refused, 120)


def test_the_clusters_own_pods_use_claimed_room_and_those_that_pretend_do_not(
    api: Api,
    capped: GangScheduler,
    tenant: Tenant,
    gangs: Gangs,
    nodes: NodeFactory,
    daemons: list[tuple[str, str]],
) -> None:
    """Two nodes, wholly claimed; of each of them 1.1 CPU are free."""
    own = tenant.namespace
    names = nodes(2, "4")
    for name in names:
        api.create(gangs.pod(f"busy-{name}", cpu="2900m", node_name=name))
    capped.restart_with({"gang": {**AGING, "claimNodesPercentage": 100}})
    gangs.create("claims", 6, cpu="1200m", scheduler_name=CAPPED)
    await_claims(gangs, capped, 1)
    api.create(gangs.pod("plain", cpu="10m", scheduler_name=CAPPED))
    await_kept_from(api, gangs.namespace, "plain", 1)

    # Of the cluster: without a bound.
    daemons.append(("agent", "kube-system"))
    api.create(daemon_set("agent", "kube-system", "200m", CAPPED))
    await_running(api, "kube-system", "agent", 2)
    critical: dict[str, Any] = {"priority_class": "system-node-critical", "scheduler_name": CAPPED}
    daemons.append(("critical", "kube-system"))
    labels = {"app": "critical"}
    api.create(objects.pod("critical", "200m", namespace="kube-system", labels=labels, **critical))
    await_running(api, "kube-system", "critical", 1)

    # Of a tenant: a tenth of a node, all its DaemonSets together.
    tenant.api.create(daemon_set("small", own, "300m", CAPPED))
    await_running(api, own, "small", 2)
    tenant.api.create(daemon_set("second", own, "200m", CAPPED))
    await_kept_from(api, own, "second", 2)
    tenant.api.delete(DAEMON_SETS, "second", own)

    # What only looks like it. The garbage collector deletes pods of owners that it cannot find.
    for number in range(3):
        name = f"forged-{number}"
        tenant.api.create(pretending(tenant.gangs, name, "150m", names[1], "apps/v1"))
    for name, version in (("other", "example.com/v1"), ("older", "extensions/v1beta1")):
        tenant.api.create(pretending(tenant.gangs, name, "10m", names[1], version))
        await_kept_from(api, own, name, 1)
    tolerates = {"tolerations": [{"operator": "Exists"}], "affinity": on(names[1])}
    tenant.api.create(tenant.gangs.pod("tolerates", cpu="10m", scheduler_name=CAPPED, **tolerates))
    await_kept_from(api, own, "tolerates", 1)
    assert not [
        pod
        for pod in api.list("pods", own)
        if pod["metadata"]["name"].startswith("forged") and pod["spec"].get("nodeName")
    ]

    # Each namespace has its own share.
    api.create(daemon_set("theirs", gangs.namespace, "300m", CAPPED))
    await_running(api, gangs.namespace, "theirs", 2)


def test_the_clusters_own_pods_use_planned_room(
    api: Api,
    patient_gang: GangScheduler,
    gangs: Gangs,
    nodes: NodeFactory,
    daemons: list[tuple[str, str]],
) -> None:
    """Two members are held on a node of three CPUs, and the last CPU is kept for the third."""
    nodes(1, "3")
    gangs.hold("held", timeout=900)
    api.wait_for("two are held", lambda: patient_gang.metric(HELD) == 2)
    api.create(gangs.pod("plain", cpu="200m", scheduler_name=PATIENT))
    await_kept_from(api, gangs.namespace, "plain", 1)
    daemons.append(("agent", "kube-system"))
    api.create(daemon_set("agent", "kube-system", "200m", PATIENT))
    await_running(api, "kube-system", "agent", 1)
    assert gangs.bound("held") == set()
