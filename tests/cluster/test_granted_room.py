"""Granted room belongs to admitted Workloads alone, whatever a tenant writes."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from extender.kube.queues import FIELD_MANAGER
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS, Gangs
from tests.cluster.tenants import may_list
from tests.harness.client import Api, ApiError
from tests.harness.control_plane import ControlPlane
from tests.harness.objects import pod_group

RBAC = "rbac.authorization.k8s.io"
GROUPS = ["scheduling.x-k8s.io", "scheduling.sigs.k8s.io"]
UNTIL = "2999-01-01T00:00:00Z"
SECONDS = 120


@pytest.fixture
def tenant(control_plane: ControlPlane, api: Api, namespace: str) -> Iterator[Api]:
    """Return a client of a user that may write PodGroups and pods of one namespace."""
    user = f"tenant-{namespace}"
    rule = {"apiGroups": ["", *GROUPS], "resources": ["pods", "podgroups"], "verbs": ["*"]}
    meta = {"name": "tenant", "namespace": namespace}
    api.create(
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": meta, "rules": [rule]},
        {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": meta,
         "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "tenant"},
         "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}]},
    )  # fmt: skip
    with Api(control_plane.kubeconfig(user)) as client:
        api.wait_for("it has its rights", lambda: may_list(client, namespace, "pods"))
        yield client


def room(nodes: list[str], cpu: str, until: str = UNTIL) -> dict[str, Any]:
    return {"until": until, "nodes": {node: {"cpu": cpu} for node in nodes}}


def await_all_run(api: Api, gangs: Gangs) -> None:
    """Wait until a pod alone and a gang of three have the nodes."""
    gangs.create("g", 3, cpu="1")
    api.create(gangs.pod("alone", cpu="1"))
    gangs.await_phases("g", Running=3)
    api.wait_for(
        "the pod has a node",
        lambda: gangs.node_of("alone"),
        SECONDS,
    )


@pytest.mark.usefixtures("gang")
@pytest.mark.parametrize("group", GROUPS)
def test_a_tenant_grants_itself_nothing(
    group: str, api: Api, tenant: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    names = nodes(2, "2")
    for until, cpu in (("2999", "1000000"), ("soon", "2")):
        when = UNTIL if until == "2999" else "2999-01-01T00:10:00Z"
        granted = room(names, cpu, when)
        made = pod_group(f"greedy-{until}", 2, namespace=gangs.namespace)
        made["apiVersion"] = f"{group}/v1alpha1"
        said = {"scheduling.x-k8s.io/granted-room": json.dumps(granted)}
        made["metadata"]["annotations"] = said
        made["status"] = {"grantedRoom": granted}
        tenant.create(made)
        resource, body = f"{group}/v1alpha1/podgroups", {"status": {"grantedRoom": granted}}
        found = tenant.patch(resource, f"greedy-{until}", gangs.namespace, body=body)
        assert "grantedRoom" not in found.get("status", {})
        with pytest.raises(ApiError, match="forbidden"):
            tenant.patch(
                resource, f"greedy-{until}", gangs.namespace, body=body, subresource="status"
            )
    gangs.await_seen()
    await_all_run(api, gangs)


def owner_of(api: Api, namespace: str) -> dict[str, str]:
    """Make an object that may own others; return its name and UID."""
    named = {"name": "owner", "namespace": namespace}
    meta = api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named})["metadata"]
    return {"name": meta["name"], "uid": meta["uid"]}


@pytest.mark.usefixtures("gang", "reconciler")
def test_what_no_workload_backs_is_withdrawn(
    control_plane: ControlPlane, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    """A grant may be left over from a time when nothing ended it."""
    names = nodes(2, "2")
    soon = datetime.now(UTC) + timedelta(minutes=10)  # processes forget a longer promise themselves
    body = {"status": {"grantedRoom": room(names, "2", soon.strftime("%Y-%m-%dT%H:%M:%SZ"))}}
    own = control_plane.service_account_kubeconfig("gang-extender-system", "gang-reconciler")
    made = pod_group("stray", 2, namespace=gangs.namespace)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", **owner_of(api, gangs.namespace)}
    made["metadata"]["ownerReferences"] = [owner]
    path = f"/apis/{made['apiVersion']}/namespaces/{gangs.namespace}/podgroups/stray"
    with Api(own) as reconciler:  # policies let in nothing else, and no room for other groups
        reconciler.request(
            "PATCH",
            path,
            body=made,
            params={"fieldManager": FIELD_MANAGER},
            content_type="application/apply-patch+yaml",
        )
        reconciler.patch(POD_GROUPS, "stray", gangs.namespace, body=body, subresource="status")
    api.wait_for(
        "the room is withdrawn",
        lambda: "grantedRoom" not in api.get(POD_GROUPS, "stray", gangs.namespace)["status"],
        SECONDS,
    )
    await_all_run(api, gangs)
