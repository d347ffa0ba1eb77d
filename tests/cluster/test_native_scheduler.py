"""A kube-scheduler that schedules native gangs itself, with the extender beside it.

Its gangs, ours and plain pods share nodes; the extender takes away only what it keeps for others.
"""

import time
from collections import Counter

import pytest

from extender.api.reasons import Reason
from tests.cluster.alone import alone, pair_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import GATE, RESERVED, Gangs, await_held, decisions
from tests.cluster.native_gangs import NativeGangs
from tests.harness.client import Api, ApiError
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE, ROOT, SERVICE_ACCOUNT, GangScheduler
from tests.harness.natives import NATIVE_GROUPS, SCHEDULED, SERVED, WITH_TOPOLOGY
from tests.harness.started import fetch

control_plane, api = alone(kubelet=True, apiserver_args=SERVED)

PATIENT_SETTINGS = {"gang": {"rejectPercentage": 100}}
RACK = "example.com/rack"
RACKS = "racks"
ROLES = "rbac.authorization.k8s.io/v1/clusterroles"


pair = pair_of("gang", settings=PATIENT_SETTINGS, scheduler_args=SCHEDULED)
"""The extender finds out by itself who starts native gangs."""
topological = pair_of(
    RACKS, scope="function", settings=PATIENT_SETTINGS, scheduler_args=WITH_TOPOLOGY
)


@pytest.fixture
def natives(gangs: Gangs, pair: GangScheduler) -> NativeGangs:
    """Native gangs of kube-scheduler."""
    return NativeGangs(gangs)


def put_off(pair: GangScheduler) -> float:
    """Return how often the extender had kube-scheduler put a native group off."""
    return decisions(pair, "filter", Reason.NATIVE_GROUP_WAITS)


def test_native_gangs_and_ours_and_plain_pods_all_run(
    natives: NativeGangs, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(4, "4")
    for number in range(2):
        natives.create(f"native-{number}", 3, 3, cpu="1")
        gangs.create(f"ours-{number}", 3, cpu="1")
        gangs.api.create(gangs.pod(f"plain-{number}", cpu="1"))

    for number in range(2):
        natives.await_bound(f"native-{number}", 3)
        gangs.await_phases(f"ours-{number}", Running=3)
    gangs.api.wait_for(
        "all run",
        lambda: all(
            pod["status"]["phase"] == "Running" for pod in gangs.api.list("pods", gangs.namespace)
        ),
    )

    def said() -> bool:
        found = [(each["type"], each["status"]) for each in natives.conditions("native-1")]
        return found == [("PodGroupScheduled", "True")]

    gangs.api.wait_for("kube-scheduler says so", said)


def test_a_gang_of_ours_that_waits_is_not_started_in_part(
    natives: NativeGangs, gangs: Gangs, nodes: NodeFactory
) -> None:
    nodes(1, "3")
    natives.create("native", 2, 2, cpu="1")
    natives.await_bound("native", 2)
    gangs.create("ours", 2, cpu="1")
    gangs.await_refused("ours", "")
    assert gangs.bound("ours") == set()

    gangs.delete(["native-0"])

    gangs.await_phases("ours", Running=2)
    assert Counter(each.group for each in gangs.placements()) == {"ours": 2}


def test_a_group_without_room_beside_ours_is_put_off(
    natives: NativeGangs, gangs: Gangs, pair: GangScheduler, nodes: NodeFactory
) -> None:
    nodes(1, "3")
    gangs.hold("held", scheduler_name=None)
    await_held(gangs.api, pair, 2)
    gangs.api.wait_for("room is kept", lambda: pair.metric(RESERVED) == 1)
    natives.create("settles", 1, 1, cpu="0")
    natives.await_bound("settles", 1)

    before, begun = put_off(pair), time.monotonic()
    natives.create("native", 2, 2, cpu="500m")
    gangs.api.wait_for("it was put off three times", lambda: put_off(pair) >= before + 3)

    # After a second, and two more: without a pause it is tried a hundred times in that time.
    assert time.monotonic() - begun >= 2.5
    assert put_off(pair) <= before + 6
    assert natives.nodes("native") == []
    gangs.delete(["held-0", "held-1", "held-2"])
    natives.await_bound("native", 2)


def test_our_gate_does_not_hold_a_gang_of_kube_schedulers_back(
    natives: NativeGangs, pair: GangScheduler, nodes: NodeFactory
) -> None:
    """An extender that has just started knows nothing of it, and kube-scheduler tries no pod."""
    nodes(1, "3")
    pair.extender.restart()
    pair.wait_ready()
    natives.create("gated", 2, 2, cpu="1", gates=[GATE], group="gated")

    natives.await_bound("gated", 2)


def test_without_the_right_to_read_them_native_gangs_start(
    control_plane: ControlPlane, natives: NativeGangs, pair: GangScheduler, nodes: NodeFactory
) -> None:
    """The role is that of an earlier release: the extender leaves them to kube-scheduler."""
    nodes(1, "3")
    [rules] = [
        [rule for rule in each["rules"] if "scheduling.k8s.io" not in rule["apiGroups"]]
        for each in natives.api.list(ROLES)
        if each["metadata"]["name"] == SERVICE_ACCOUNT
    ]
    natives.api.patch(ROLES, SERVICE_ACCOUNT, body={"rules": rules})
    account = control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    with Api(account) as own:
        natives.api.wait_for("it may not read them", lambda: is_refused(own))
    pair.extender.restart()
    pair.wait_ready()

    natives.create("native", 2, 2, cpu="1")

    natives.await_bound("native", 2)
    assert "[!]podgroups.scheduling.k8s.io: " in readyz(pair)
    natives.api.apply(ROOT / "manifests" / "rbac")
    natives.api.wait_for(
        "they are read", lambda: "[+]podgroups.scheduling.k8s.io\n" in readyz(pair)
    )


def readyz(pair: GangScheduler) -> str:
    """Return what the extender says of its readiness."""
    return fetch(f"{pair.url}/readyz").text


def is_refused(api: Api) -> bool:
    """Return whether native PodGroups may not be listed."""
    try:
        api.list(NATIVE_GROUPS)
    except ApiError as error:
        return error.status == 403
    return False


def test_a_domain_without_room_leaves_the_others(
    topological: GangScheduler, gangs: Gangs, nodes: NodeFactory
) -> None:
    natives = NativeGangs(gangs, RACKS)
    nodes(1, "3", prefix="a", labels={RACK: "a"})
    gangs.hold("held", scheduler_name=RACKS)
    await_held(gangs.api, topological, 2)
    gangs.api.wait_for("room is kept", lambda: topological.metric(RESERVED) == 1)

    near = nodes(1, "1", prefix="b", labels={RACK: "b"})
    natives.create("native", 2, 2, topology=RACK, cpu="500m")

    assert {*natives.await_bound("native", 2)} == {*near}
