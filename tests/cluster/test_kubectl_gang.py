"""`kubectl gang` on a real cluster: what it lists, what it stops, and what `top` shows live."""

import asyncio
import json
import os
import pty
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from extender.config.settings import Settings
from extender.kube.client import KubeClient
from extender.kube.credentials import keyring
from extender.runtime.clock import SystemClock
from gang_tools.cli.kubectl.top import TopApp
from gang_tools.page.following import FollowedCluster
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.cluster.queues import API, Queues
from tests.cluster.tenants import USER, Tenant
from tests.harness import objects
from tests.harness.client import PATIENCE_SECONDS, Api
from tests.harness.control_plane import ControlPlane

PROGRAM = Path(sys.executable).with_name("kubectl-gang")
pytestmark = pytest.mark.usefixtures("gang", "reconciler")


def kubectl_gang(kubeconfig: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the program that kubectl runs for `kubectl gang`."""
    env = {**os.environ, "KUBECONFIG": str(kubeconfig), "COLUMNS": "200"}
    return subprocess.run(
        [PROGRAM, *words], env=env, capture_output=True, text=True, timeout=120, check=False
    )


def said(kubeconfig: Path, *words: str) -> str:
    """Return what it says where it is done."""
    done = kubectl_gang(kubeconfig, *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def rows(kubeconfig: Path, *words: str) -> dict[str, dict[str, str]]:
    """Return the cells of a list by head and by the names of its rows."""
    heads, *lines = [line.split("  ") for line in said(kubeconfig, "list", *words).splitlines()]
    table = [[cell.strip() for cell in line if cell.strip()] for line in (heads, *lines)]
    return {row[1]: dict(zip(table[0], row, strict=True)) for row in table[1:]}


def test_the_list_has_gangs_jobs_and_queues_with_why_they_wait(
    control_plane: ControlPlane, api: Api, gangs: Gangs, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "4")
    cluster_queue, _ = queues.simple(cpu=3)
    gangs.create("runs", 2, cpu="1")
    gangs.await_phases("runs", Running=2)
    gangs.create("waits", 3, cpu="1")
    queues.job("first", 1, run_for="1h")
    queues.await_started("first")
    queues.job("second", 3)
    here = (control_plane.admin_kubeconfig, "-n", gangs.namespace)

    def settled() -> bool:
        now = rows(*here)
        said = now["runs"]["PHASE"], now["waits"]["REASON"]
        return said == ("Running", "NotEnoughResources") and "second" in now

    api.wait_for("the list says why the gang waits", settled)
    queues.await_condition("second", "QuotaReserved", "False", reason="WaitingForQuota")
    found = rows(*here)
    wanted = {
        "queue": ("LocalQueue", cluster_queue, "Active", "Ready"),
        "runs": ("PodGroup", "<none>", "Running", "Scheduled"),
        "waits": ("PodGroup", "<none>", "PreScheduling", "NotEnoughResources"),
        "first": ("Job", "queue", "Admitted", "Admitted"),
        "second": ("Job", "queue", "Pending", "WaitingForQuota"),
    }
    heads = ("KIND", "QUEUE", "PHASE", "REASON")
    assert {x: tuple(found[x][y] for y in heads) for x in wanted} == wanted
    assert rows(*here, "-o", "wide")["waits"]["MINMEMBER"] == "3"
    listed = json.loads(said(here[0], "list", "gangs", *here[1:], "-o", "json"))["items"]
    assert [each["metadata"]["name"] for each in listed] == ["runs", "waits"]
    names = said(here[0], "list", "queues", "-A", "-o", "name").splitlines()
    assert f"clusterqueue.kueue.x-k8s.io/{cluster_queue}" in names


def test_a_job_is_stopped_and_resumed(
    control_plane: ControlPlane, api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "4")
    queues.simple(cpu=3)
    queues.job("train", 2, run_for="1h")
    queues.await_started("train")
    here = (control_plane.admin_kubeconfig,)
    words = ("job", "train", "-n", queues.namespace)

    assert "(server dry run)" in said(*here, "stop", *words, "--dry-run=server")
    assert queues.its_workload("train")["spec"].get("active", True)

    assert "stopped (spec.active: false); its pods end" in said(*here, "stop", *words)
    api.wait_for("the job is suspended", lambda: queues.is_suspended("train"))
    api.wait_for("its pods are gone", lambda: not queues.pods("train"))
    queues.await_condition("train", "QuotaReserved", "False")
    assert "unchanged (spec.active: false)" in said(*here, "stop", *words)

    assert "resumed (spec.active: true)" in said(*here, "resume", *words)
    queues.await_started("train")


def test_a_queue_is_held_drained_and_resumed(
    control_plane: ControlPlane, api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "4")
    cluster_queue, _ = queues.simple(cpu=3)
    queues.job("first", 1, run_for="1h")
    queues.await_started("first")
    here = (control_plane.admin_kubeconfig,)

    assert "what it has admitted goes on" in said(*here, "stop", "cq", cluster_queue)
    queues.await_inactive(cluster_queue, "Stopped")
    queues.job("second", 1, run_for="1h")
    queues.await_condition("second", "QuotaReserved", "False")
    assert queues.has_started("first")

    said(*here, "stop", "localqueue", "queue", "-n", queues.namespace, "--drain")
    api.wait_for("what ran is stopped", lambda: queues.is_suspended("first"))

    said(*here, "resume", "localqueue", "queue", "-n", queues.namespace)
    said(*here, "resume", "clusterqueue", cluster_queue)
    assert api.get(f"{API}/clusterqueues", cluster_queue)["spec"]["stopPolicy"] == "None"
    queues.await_started("first", "second")


def test_a_user_without_a_right_is_told_which(
    control_plane: ControlPlane, tenant: Tenant, gangs: Gangs
) -> None:
    own = control_plane.kubeconfig(USER, ["tenants"])
    allowed = kubectl_gang(own, "list", "-n", tenant.namespace)
    none = f"No resources found in {tenant.namespace} namespace.\n"
    assert (allowed.returncode, allowed.stderr) == (0, none)
    listed = kubectl_gang(own, "list", "-n", gangs.namespace)
    assert listed.returncode == 1
    assert 'cannot list resource "podgroups"' in listed.stderr
    assert "Ask for the ClusterRole view" in listed.stderr

    stopped = kubectl_gang(own, "stop", "cq", "none")
    assert stopped.returncode == 1
    assert 'cannot get resource "clusterqueues"' in stopped.stderr
    assert "Ask for a role that may get and patch clusterqueues of kueue.x-k8s.io" in stopped.stderr

    absent = kubectl_gang(own, "stop", "job", "none", "-n", tenant.namespace)
    assert absent.returncode == 1
    assert "kubectl gang explain job none" in absent.stderr


@asynccontextmanager
async def top(kubeconfig: Path, namespace: str) -> AsyncIterator[Pilot[None]]:
    """Run `kubectl gang top` without a terminal."""
    clock = SystemClock()
    async with KubeClient(await keyring(kubeconfig)) as client, asyncio.TaskGroup() as tasks:
        seen = FollowedCluster(Settings(), client, clock)
        following = tasks.create_task(seen.run())
        async with TopApp(seen, clock, namespace).run_test(size=(200, 50)) as pilot:
            yield pilot
        following.cancel()


def cells(pilot: Pilot[None]) -> dict[str, str]:
    """Return the rows of the table that is shown, by their second cell."""
    table = pilot.app.query_one(DataTable)
    found = [[str(cell) for cell in table.get_row_at(n)] for n in range(table.row_count)]
    return {row[1]: " ".join(row) for row in found}


def text(pilot: Pilot[None], which: str = "#text") -> str:
    return str(pilot.app.query_one(which, Static).render())


async def until(pilot: Pilot[None], reached: Callable[[], bool]) -> None:
    """Wait for something on the screen."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not reached():
            await pilot.pause(0.1)


async def test_top_shows_a_gang_why_it_waits_and_that_it_starts(
    control_plane: ControlPlane, api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "4")
    gangs.create("waits", 3, cpu="2")
    reader = objects.binding("looks", "gang-explain-reader", {"name": "looks"})

    async with top(control_plane.kubeconfig("looks"), gangs.namespace) as pilot:
        await until(pilot, lambda: "cannot list resource" in text(pilot, "#status"))
        assert "Ask for the ClusterRole gang-explain-reader" in text(pilot, "#status")
        await asyncio.to_thread(api.create, reader)
        await pilot.press("2")
        await until(pilot, lambda: "NeverFits" in cells(pilot).get("waits", ""))
        await pilot.press("enter")
        await until(pilot, lambda: "State         Waiting (NeverFits)" in text(pilot))
        await asyncio.to_thread(nodes, 1, "4", prefix="more")
        await until(pilot, lambda: "State         Started (Scheduled)" in text(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: "Running" in cells(pilot)["waits"])
        await pilot.press("4")
        await until(pilot, lambda: f"{gangs.namespace}/waits" in str(cells(pilot)))


@pytest.mark.parametrize("end", ["q", "SIGTERM"])
def test_top_gives_a_terminal_back_as_it_was(control_plane: ControlPlane, end: str) -> None:
    ours, its = pty.openpty()
    env = {**os.environ, "KUBECONFIG": str(control_plane.admin_kubeconfig), "TERM": "xterm"}
    with subprocess.Popen([PROGRAM, "top"], stdin=its, stdout=its, stderr=its, env=env) as process:
        os.close(its)
        seen = b""
        while b"5 reasons" not in seen:
            seen += os.read(ours, 65536)  # what it writes; an error where it has ended
        if end == "q":
            os.write(ours, b"q")
        else:
            process.terminate()
        with suppress(OSError):  # an error where it has ended
            while True:  # what nobody reads would hold it up
                seen += os.read(ours, 65536)
    os.close(ours)
    assert process.returncode == 0
    assert b"\x1b[?1049l" in seen  # no more the alternate screen
