"""The control plane that the other cluster tests stand on does what a cluster does."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from tests.cluster.conftest import NodeFactory
from tests.harness import objects
from tests.harness.client import Api, ApiError
from tests.harness.control_plane import ControlPlane
from tests.harness.faulty_proxy import FaultyProxy
from tests.harness.gang_scheduler import KUBE_SCHEDULER
from tests.harness.inventory import inventory
from tests.harness.kubeconfig import read
from tests.harness.process import Component
from tests.tiers import long_but_for

LAG = 3.0
"""Seconds."""

pytestmark = pytest.mark.collisions(100)
"""The kube-scheduler of this file and one that other tests have left are both for its pods."""


@pytest.fixture
def scheduler(control_plane: ControlPlane) -> Iterator[Component]:
    with control_plane.scheduler() as scheduler:
        yield scheduler


def _phase(api: Api, name: str, namespace: str) -> str:
    phase: str = api.get("pods", name, namespace)["status"]["phase"]
    return phase


def seconds_of(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("victim", long_but_for(["apiserver", "etcd"], "etcd"))
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
    api.wait_for("a new pod runs", lambda: _phase(api, "after", namespace) == "Running", 120)


def test_the_pod_watch_of_a_scheduler_can_lag(
    control_plane: ControlPlane, api: Api, namespace: str, nodes: NodeFactory
) -> None:
    nodes()
    own = control_plane.kubeconfig(KUBE_SCHEDULER)
    with FaultyProxy(control_plane, seed=1, certificate=read(own).certificate) as proxy:
        through = control_plane.through(own, proxy.port, "lagging")
        profiles = {"profiles": [{"schedulerName": "lagging"}]}  # another test's may still run
        with control_plane.scheduler(profiles, name="kube-scheduler-lags", kubeconfig=through):
            api.create(objects.pod("before", namespace=namespace, scheduler_name="lagging"))
            api.wait_for("the pod runs", lambda: _phase(api, "before", namespace) == "Running")
            assert proxy.lagged == 0

            proxy.set_lag("/api/v1/pods", LAG)
            api.create(objects.pod("late", namespace=namespace, scheduler_name="lagging"))
            api.wait_for("the pod runs", lambda: _phase(api, "late", namespace) == "Running")
            assert proxy.lagged > 0

    late = api.get("pods", "late", namespace)
    conditions = {each["type"]: each for each in late["status"]["conditions"]}
    bound = seconds_of(conditions["PodScheduled"]["lastTransitionTime"])
    # The API server wrote both, in whole seconds.
    assert bound - seconds_of(late["metadata"]["creationTimestamp"]) >= LAG - 1


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


def test_the_report_of_a_failed_test_has_what_it_met(
    api: Api, control_plane: ControlPlane, namespace: str, nodes: NodeFactory
) -> None:
    [node] = nodes()
    made = objects.pod("slow", namespace=namespace, node_name=node)
    made["metadata"]["finalizers"] = ["example.com/slow"]
    api.create(made)
    api.delete("pods", "slow", namespace)

    reported = inventory(api)

    assert f"  {namespace}/slow of " in reported
    assert "held by example.com/slow: " in reported
    assert f" on {node}" in reported
    stopped = control_plane.spawn("stopped", ["sh", "-c", "echo one; exec sleep 600"])
    failed = control_plane.spawn("failed", ["sh", "-c", "echo two"])
    failed.wait(60)
    stopped.stop()
    assert "--- failed\ntwo" in control_plane.tails()
    assert "--- stopped" not in control_plane.tails()


_WARM = "-m", "tests.harness.die_with_parent"
"""A module of ours that becomes any other command: also in a child that was forked."""


_PARENT = """
import sys
from tests.harness.control_plane import ControlPlane

etcd = ControlPlane().etcd
etcd.start()
print(etcd.pid, flush=True)
sys.stdin.read()
"""
_WARM_PARENT = f"""
import os, sys
from pathlib import Path
from tests.harness.process import Component, warm_starts

argv = [sys.executable, *{_WARM}, str(os.getpid()), "sleep", "600"]
with warm_starts():
    child = Component("child", argv, log_path=Path(os.devnull))
    child.start()
    print(child.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(("program", "name"), [(_PARENT, "etcd"), (_WARM_PARENT, "sleep")])
def test_a_component_dies_with_a_parent_that_is_killed(
    program: str, name: str, api: Api, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(tmp_path)},  # no process is left to remove its folder
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        api.wait_for("it runs", lambda: psutil.Process(pid).name() == name)
        os.kill(parent.pid, signal.SIGKILL)

    api.wait_for("it is gone", lambda: _gone(pid))
