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
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.inventory import inventory
from tests.harness.process import Component

pytestmark = pytest.mark.collisions(100)
"""The kube-scheduler of this file and one that other tests have left are both for its pods."""


@pytest.fixture
def scheduler(control_plane: ControlPlane) -> Iterator[Component]:
    with control_plane.scheduler() as scheduler:
        yield scheduler


def _gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


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
