"""The control plane that the other cluster tests stand on does what a cluster does."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cluster.conftest import NodeFactory
from tests.harness import objects
from tests.harness.client import Api, ApiError, condition
from tests.harness.control_plane import ControlPlane
from tests.harness.inventory import inventory
from tests.harness.process import Component


@pytest.fixture
def scheduler(control_plane: ControlPlane) -> Iterator[Component]:
    with control_plane.scheduler() as scheduler:
        yield scheduler


def _phase(api: Api, name: str, namespace: str) -> str:
    phase: str = api.get("pods", name, namespace)["status"]["phase"]
    return phase


def _gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_nodes_turn_ready_with_the_capacity_that_they_were_given(
    api: Api, nodes: NodeFactory
) -> None:
    names = nodes(3, "8", memory="32Gi", extended={"nvidia.com/gpu": 2})

    assert names == ["node-0", "node-1", "node-2"]
    assert api.get("nodes", "node-1")["status"]["allocatable"] == {
        "cpu": "8",
        "memory": "32Gi",
        "pods": "110",
        "nvidia.com/gpu": "2",
    }


@pytest.mark.usefixtures("scheduler")
def test_a_plain_pod_is_scheduled_and_runs_until_it_is_deleted(
    api: Api, namespace: str, nodes: NodeFactory
) -> None:
    [node] = nodes()
    api.create(objects.pod("plain", namespace=namespace))

    api.wait_for("the pod runs", lambda: _phase(api, "plain", namespace) == "Running")
    pod = api.get("pods", "plain", namespace)
    assert pod["spec"]["nodeName"] == node
    assert condition(pod, "Ready")

    api.delete("pods", "plain", namespace)
    api.wait_for("the pod is gone", lambda: api.find("pods", "plain", namespace) is None)


@pytest.mark.usefixtures("scheduler")
def test_a_pod_ends_when_and_how_its_annotations_say(
    api: Api, namespace: str, nodes: NodeFactory
) -> None:
    nodes()
    exit_code = {objects.EXIT_CODE: "3"}
    api.create(
        objects.pod("good", namespace=namespace, run_for="100ms"),
        objects.pod("bad", namespace=namespace, run_for="100ms", annotations=exit_code),
    )

    api.wait_for("one succeeds", lambda: _phase(api, "good", namespace) == "Succeeded")
    api.wait_for("the other fails", lambda: _phase(api, "bad", namespace) == "Failed")
    [container] = api.get("pods", "bad", namespace)["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 3


@pytest.mark.usefixtures("scheduler")
def test_the_pods_of_a_deployment_run(api: Api, namespace: str, nodes: NodeFactory) -> None:
    nodes(2)
    api.create(objects.deployment("web", 3, namespace=namespace))

    def available() -> bool:
        status = api.get("apps/v1/deployments", "web", namespace)["status"]
        return bool(status.get("readyReplicas") == 3)

    api.wait_for("three replicas are ready", available)


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("indexed", [False, True], ids=["plain", "indexed"])
def test_a_job_completes(indexed: bool, api: Api, namespace: str, nodes: NodeFactory) -> None:
    nodes()
    api.create(objects.job("job", 3, namespace=namespace, indexed=indexed, run_for="100ms"))

    def complete() -> bool:
        return condition(api.get("batch/v1/jobs", "job", namespace), "Complete")

    api.wait_for("the Job completes", complete)
    status = api.get("batch/v1/jobs", "job", namespace)["status"]
    assert status["succeeded"] == 3
    assert status.get("completedIndexes") == ("0-2" if indexed else None)


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("victim", ["apiserver", "etcd"])
def test_the_cluster_survives_a_kill(
    victim: str, control_plane: ControlPlane, api: Api, namespace: str, nodes: NodeFactory
) -> None:
    nodes()
    api.create(objects.pod("before", namespace=namespace))
    api.wait_for("the pod runs", lambda: _phase(api, "before", namespace) == "Running")

    component: Component = getattr(control_plane, victim)
    pid = component.pid
    component.kill()
    assert _gone(pid)
    component.start()
    control_plane.wait_ready()

    assert _phase(api, "before", namespace) == "Running"
    api.create(objects.pod("after", namespace=namespace))
    # Clients that could not reach the API server pause for up to 12 s.
    api.wait_for("a new pod runs", lambda: _phase(api, "after", namespace) == "Running", 60)


def test_a_service_account_has_the_rights_that_its_roles_give(
    control_plane: ControlPlane, api: Api, namespace: str
) -> None:
    account = {"name": "reader", "namespace": namespace}
    rbac = "rbac.authorization.k8s.io"
    api.apply(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "Role",
                "metadata": account,
                "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
            },
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "RoleBinding",
                "metadata": account,
                "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "reader"},
                "subjects": [{"kind": "ServiceAccount", **account}],
            },
        ]
    )

    with Api(control_plane.service_account_kubeconfig(namespace, "reader")) as reader:

        def allowed() -> bool:
            try:
                return reader.list("pods", namespace) == []
            except ApiError as error:  # until the authorizer has seen the new binding
                if error.status != 403:
                    raise
                return False

        reader.wait_for("pods may be listed", allowed)
        with pytest.raises(ApiError, match="cannot list resource"):
            reader.list("configmaps", namespace)


def test_a_crd_is_usable_once_applied(api: Api, namespace: str) -> None:
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    api.apply(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.harness.test"},
            "spec": {
                "group": "harness.test",
                "names": names,
                "scope": "Namespaced",
                "versions": [version],
            },
        }
    )
    widget = {"kind": "Widget", "metadata": {"name": "one", "namespace": namespace}}
    api.apply({"apiVersion": "harness.test/v1", **widget})

    patched = api.patch("harness.test/v1/widgets", "one", namespace, body={"spec": {"size": 1}})

    assert patched["spec"] == {"size": 1}
    api.delete("apiextensions.k8s.io/v1/customresourcedefinitions", "widgets.harness.test")


def test_nothing_is_left_of_a_control_plane_after_its_block() -> None:
    with ControlPlane() as control_plane:
        scheduler = control_plane.scheduler()
        helper = control_plane.spawn("helper", ["sh", "-c", "sleep 600 & wait"])
        components = [
            control_plane.etcd,
            control_plane.apiserver,
            control_plane.controller_manager,
            control_plane.kwok,
            scheduler,
            helper,
        ]
        pids = [component.pid for component in components]
        shell = psutil.Process(helper.pid)
        control_plane.wait_until("it has a child", lambda: bool(shell.children()))
        pids += [child.pid for child in shell.children(recursive=True)]

    assert [pid for pid in pids if not _gone(pid)] == []
    assert not control_plane.folder.exists()


def test_what_a_failed_test_met_is_told(
    api: Api, control_plane: ControlPlane, namespace: str, nodes: NodeFactory
) -> None:
    [node] = nodes()
    made = objects.pod("slow", namespace=namespace, node_name=node)
    made["metadata"]["finalizers"] = ["example.com/slow"]
    api.create(made)
    api.delete("pods", "slow", namespace)

    told = inventory(api)

    assert f"  {namespace}/slow of " in told
    assert "held by example.com/slow: " in told
    assert f" on {node}" in told
    stopped = control_plane.spawn("stopped", ["sh", "-c", "echo one; exec sleep 600"])
    failed = control_plane.spawn("failed", ["sh", "-c", "echo two"])
    failed.wait(60)
    stopped.stop()
    assert "--- failed\ntwo" in control_plane.tails()
    assert "--- stopped" not in control_plane.tails()


_PARENT = """
import sys
from tests.harness.control_plane import ControlPlane

etcd = ControlPlane().etcd
etcd.start()
print(etcd.pid, flush=True)
sys.stdin.read()
"""


def test_a_component_dies_with_a_parent_that_is_killed(api: Api, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT],
        env={**os.environ, "TMPDIR": str(tmp_path)},  # nobody is left to remove its folder
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        api.wait_for("etcd runs", lambda: psutil.Process(pid).name() == "etcd")
        os.kill(parent.pid, signal.SIGKILL)

    api.wait_for("etcd is gone", lambda: _gone(pid), timeout=5)
