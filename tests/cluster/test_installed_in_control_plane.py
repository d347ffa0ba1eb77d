"""The extender in a control plane of kubeadm: its files are patched, and run as they are."""

from collections.abc import Iterator
from functools import partial
from shutil import copyfile

import pytest
import yaml
from typer.testing import CliRunner

from gang_tools.cli.main import app
from tests.cluster.alone import alone
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import KUBE_SCHEDULER, ROOT
from tests.harness.kustomize import build
from tests.harness.pods import RunningNode, RunningPod, allowed

pytestmark = pytest.mark.skipif(not allowed(), reason="no namespaces may be made on this machine")

EXTENDER = "gang-extender"
MANIFESTS = "etc/kubernetes/manifests"
SECONDS = 180


control_plane, _ = alone(controllers=True, kubelet=True, front_proxies=True)


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[Api]:
    with Api(control_plane.admin_kubeconfig) as api:
        # Without Deployments, whose pods would take room from the tests.
        api.apply([each for each in build(ROOT / "manifests") if each["kind"] != "Deployment"])
        yield api


@pytest.fixture(scope="module")
def node(control_plane: ControlPlane) -> Iterator[RunningNode]:
    """A control-plane node with what kubeadm made, and then what the command made of it."""
    with RunningNode(control_plane, "control-plane", "10.99.0.1") as node:
        (node.root / MANIFESTS).mkdir(parents=True)
        for user, file in ((KUBE_SCHEDULER, "scheduler.conf"), (EXTENDER, "gang-extender.conf")):
            kubeconfig = control_plane.through(control_plane.kubeconfig(user), 443, user)
            copyfile(kubeconfig, node.root / "etc/kubernetes" / file)
        manifest = node.root / MANIFESTS / "kube-scheduler.yaml"
        copyfile(ROOT / "tests/harness/kubeadm/kube-scheduler.yaml", manifest)
        command = ["render", "static-pod", "--scheduler-manifest", str(manifest)]
        patched = CliRunner().invoke(app, [*command, "--output", str(node.root)])
        assert patched.exit_code == 0, patched.output
        yield node


@pytest.fixture(scope="module")
def pods(control_plane: ControlPlane, api: Api, node: RunningNode) -> Iterator[list[RunningPod]]:
    """The two static pods, once their probes have answered: the extender's first."""
    found = [
        RunningPod(
            control_plane,
            api,
            yaml.safe_load((node.root / MANIFESTS / f"{name}.yaml").read_text()),
            number,
            node=node,
        )
        for number, name in enumerate((EXTENDER, "kube-scheduler"))
    ]
    with found[0], found[1]:
        for pod in found:
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                api.wait_for(f"{probe} of {pod.name}", partial(pod.answers, probe), SECONDS)
        yield found


def test_a_gang_starts_as_a_whole_and_waits_until_it_is_one(
    api: Api, gangs: Gangs, nodes: NodeFactory, pods: list[RunningPod]
) -> None:
    nodes(2, cpu=2)
    gangs.create_group("g", 2)
    gangs.add("g", 1, cpu=1)
    api.create(gangs.pod("single", cpu=1))

    def bound(name: str) -> bool:
        return gangs.node_of(name) is not None

    api.wait_for("a pod without a gang has a node", lambda: bound("single"), SECONDS)

    def refused() -> bool:
        conditions = api.get("pods", "g-0", gangs.namespace)["status"].get("conditions", [])
        return any("1 of" in each.get("message", "") for each in conditions)

    api.wait_for("the first member waits for the second", refused, SECONDS)
    assert not bound("g-0")
    gangs.add("g", 1, start=1, cpu=1)
    gangs.await_phases("g", Running=2, timeout=SECONDS)
    assert all(each.running for pod in pods for each in pod.containers.values())
