"""Native PodGroups on an API server that has them, with a kube-scheduler that does not read them.

So the extender starts their pods together, as those of its own PodGroups.
"""

import json
from itertools import count
from typing import Any

import pytest

from tests.cluster.alone import alone, pair_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import GATE, Gangs
from tests.cluster.native_gangs import NativeGangs
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import ROOT, GangScheduler
from tests.harness.natives import SERVED, in_group
from tests.harness.process import run_command

control_plane, api = alone(kubelet=True, apiserver_args=SERVED)

AUTO, OURS = "auto", "ours"
RACK = "example.com/rack"
POLICIES = "admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
BINDINGS = "admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"


ours = pair_of(OURS, settings={"gang": {"native": "extender"}})
auto = pair_of(AUTO)


@pytest.fixture
def natives(gangs: Gangs, ours: GangScheduler) -> NativeGangs:
    """Native gangs of that pair."""
    return NativeGangs(gangs, OURS)


def explained(control_plane: ControlPlane, namespace: str, group: str) -> str:
    """Return the reason that `gang-extender explain` gives."""
    options = ["--kubeconfig", control_plane.admin_kubeconfig, "-o", "json"]
    done = run_command("explain", "podgroup", group, "-n", namespace, *options)
    assert (done.returncode, done.stderr) == (0, "")
    reason: str = json.loads(done.stdout)["reason"]
    return reason


def test_a_native_gang_starts_as_a_whole_or_not_at_all(
    control_plane: ControlPlane, natives: NativeGangs, nodes: NodeFactory
) -> None:
    nodes(1, "2")
    natives.create("gang", 3, 3, cpu="1")
    natives.api.wait_for("it is refused", lambda: natives.gangs.failures())
    assert natives.nodes("gang") == []
    assert explained(control_plane, natives.gangs.namespace, "gang") == "NeverFits"

    nodes(1, "1", prefix="more")

    natives.await_bound("gang", 3)
    assert natives.conditions("gang") == []  # kube-scheduler's own, and it does not read them


def test_pods_of_a_basic_group_start_one_by_one(natives: NativeGangs, nodes: NodeFactory) -> None:
    nodes(1, "2")
    natives.create("basic", 3, None, cpu="1")

    natives.await_bound("basic", 2)


def test_a_native_gang_is_in_one_domain(natives: NativeGangs, nodes: NodeFactory) -> None:
    nodes(1, "3", prefix="a", labels={RACK: "a"})
    near = nodes(2, "2", prefix="b", labels={RACK: "b"})
    natives.create("near", 4, 4, topology=RACK, cpu="1")

    assert {*natives.await_bound("near", 4)} == {*near}


def test_a_group_of_ours_and_a_native_one_have_turns(
    natives: NativeGangs, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(2, "2")
    gangs.create("labelled", 2, cpu="1", scheduler_name=OURS)
    natives.create("native", 2, 2, cpu="1")

    natives.await_bound("native", 2)
    gangs.await_phases("labelled", Running=2)


def test_our_gate_is_given_to_no_pod_of_a_native_group(gangs: Gangs) -> None:
    """kube-scheduler may be what starts it, and kube-scheduler tries no gated pod."""
    gangs.api.apply(ROOT / "manifests" / "optional" / "gang-gate-policy.yaml")
    numbers = count()

    def gates(**options: Any) -> list[str]:
        pod = gangs.pod(f"made-{next(numbers)}", group="g", scheduler_name="none", **options)
        made = gangs.api.create(pod)
        return [each["name"] for each in made["spec"].get("schedulingGates", ())]

    gangs.api.wait_for("the policy counts", lambda: gates() == [GATE])
    assert gates(**in_group("g")) == []
    gangs.api.delete(BINDINGS, "gang-gate")
    gangs.api.delete(POLICIES, "gang-gate")
    gangs.api.wait_for("it counts no more", lambda: gates() == [])


@pytest.mark.usefixtures("auto")
def test_auto_finds_out_that_kube_scheduler_leaves_them_alone(
    gangs: Gangs, nodes: NodeFactory
) -> None:
    natives = NativeGangs(gangs, AUTO)
    nodes(1, "2")
    natives.create("large", 3, 3, cpu="1")
    natives.create("small", 2, 2, cpu="1")
    natives.await_bound("small", 2)
    assert natives.nodes("large") == []

    nodes(1, "3", prefix="more")

    natives.await_bound("large", 3)
