"""Gangs with a required topology on a cluster that grows: one domain is written on their pods.

On a control plane of their own, because any other extender would take the gates away. The tests add
nodes as an autoscaler would, which knows of each pod no more than its node selector.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.cluster.alone import alone, pair_of, priority_class
from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import GATE, Gangs
from tests.cluster.groups import SECONDS, Groups
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.reconciler import Reconciler

ZONE = "topology.kubernetes.io/zone"
REQUIRED = {"scheduling.x-k8s.io/required-topology": ZONE}
DOMAIN = "scheduling.x-k8s.io/domain"
SETTINGS: dict[str, Any] = {
    "gang": {
        "growing": True,
        "domainTimeoutSeconds": 3,
        "preemption": "AfterGrowth",
        "growthSeconds": 3600,
    }
}

control_plane, api = alone(controllers=True, kubelet=True)
growing_gang = pair_of("gang", settings=SETTINGS)
high = priority_class(1000)

pytestmark = pytest.mark.usefixtures("growing_gang", "reconciler")


@pytest.fixture(scope="module")
def reconciler(control_plane: ControlPlane) -> Iterator[Reconciler]:
    settings = {"reconcile": {"leaderElect": False}, **SETTINGS}
    reconciler = Reconciler(control_plane, settings=settings)
    reconciler.wait_leading()
    yield reconciler
    reconciler.stop()


_NUMBERS = count()


def in_zone(nodes: NodeFactory, zone: str, many: int = 1, cpu: str = "4") -> None:
    nodes(many, cpu, prefix=f"{zone}{next(_NUMBERS)}", labels={ZONE: zone})


def zones(gangs: Gangs, group: str) -> Counter[str]:
    """Return how many pods of a group ask for each zone, are still gated, or are free to go."""

    def of(pod: Any) -> str:
        if pod["spec"].get("schedulingGates"):
            return "gated"
        return str(pod["spec"].get("nodeSelector", {}).get(ZONE, "free"))

    return Counter(of(pod) for pod in gangs.members(group))


def await_zones(gangs: Gangs, group: str, **want: int) -> None:
    last = Counter[str]()

    def reached() -> bool:
        nonlocal last
        last = zones(gangs, group)
        return last == want

    try:
        gangs.api.wait_for(f"the zones of {group} are {want}", reached, SECONDS)
    except AssertionError:
        raise AssertionError(f"{group} has {dict(last)}, not {want}") from None


def test_pods_that_each_fit_somewhere_ask_for_one_zone(gangs: Gangs, nodes: NodeFactory) -> None:
    in_zone(nodes, "a", 2)
    in_zone(nodes, "b", 3)
    gangs.create_group("g", 8, annotations=REQUIRED)
    gangs.add("g", 8, cpu="2", gates=[GATE])
    await_zones(gangs, "g", b=8)
    assert {pod["metadata"]["labels"][DOMAIN] for pod in gangs.members("g")} == {"b"}
    in_zone(nodes, "b", 1)
    gangs.await_phases("g", Running=8)


def test_where_no_node_is_one_pod_shows_where_they_come(gangs: Gangs, nodes: NodeFactory) -> None:
    gangs.create_group("g", 4, annotations=REQUIRED)
    gangs.add("g", 4, cpu="2", gates=[GATE])
    await_zones(gangs, "g", free=1, gated=3)
    in_zone(nodes, "c")
    await_zones(gangs, "g", free=1, c=3)
    in_zone(nodes, "c")
    gangs.await_phases("g", Running=4)


def test_a_zone_in_which_no_node_comes_is_given_up(
    api: Api, gangs: Gangs, nodes: NodeFactory
) -> None:
    in_zone(nodes, "a")
    in_zone(nodes, "b", cpu="2")
    gangs.create_group("g", 4, annotations=REQUIRED)
    spec = {"schedulingGates": [{"name": GATE}]}
    job = objects.job(
        "g", 4, namespace=gangs.namespace, cpu="2", group="g", run_for="1h", pod_spec=spec
    )
    api.create(job)
    groups = Groups(api, gangs.namespace)
    api.wait_for(
        "one is given up",
        lambda: groups.reported("g", "DomainsTried") == ("True", "NoNodesInTime", "a"),
        SECONDS,
    )
    in_zone(nodes, "b", 2)
    gangs.await_phases("g", timeout=SECONDS, Running=4)
    assert zones(gangs, "g") == {"b": 4}
    assert groups.reasons("g").count("NoNodesInTime") >= 1
    assert api.get("batch/v1/jobs", "g", gangs.namespace)["status"].get("failed", 0) == 0
    api.wait_for("it is forgotten", lambda: not groups.reported("g", "DomainsTried")[0], SECONDS)


@pytest.mark.parametrize(
    "annotations",
    [{"scheduling.x-k8s.io/required-topology": "no label"}, {"scheduling.x-k8s.io/placement": "x"}],
)
def test_a_gang_that_can_never_start_stays_gated(
    annotations: dict[str, str], gangs: Gangs, nodes: NodeFactory
) -> None:
    in_zone(nodes, "a")
    gangs.create_group("g", 2, annotations=annotations)
    gangs.add("g", 2, cpu="1", gates=[GATE])
    groups = Groups(gangs.api, gangs.namespace)
    gangs.api.wait_for(
        "it says why", lambda: "Invalid" in groups.reported("g", "Scheduled")[1], SECONDS
    )
    gangs.create("other", 2, cpu="1", gates=[GATE])
    gangs.await_phases("other", Running=2)
    assert zones(gangs, "g") == {"gated": 2}


def test_nothing_makes_room_before_nodes_had_time_to_come(
    growing_gang: GangScheduler, high: str, gangs: Gangs, nodes: NodeFactory
) -> None:
    [there, _] = nodes(2)
    gangs.create("low", 2, cpu="3")
    gangs.await_phases("low", Running=2)
    # One that lacks a whole gang's room, and one that lacks that of a pod: kube-scheduler itself
    # would preempt for the latter.
    gangs.create("h", 2, cpu="3", priority_class=high)
    gangs.create("last", 2, cpu="1", priority_class=high)
    gangs.await_phases("last", Running=2)
    gangs.add("last", 1, start=2, cpu="3", priority_class=high)
    gangs.retry(growing_gang, there, attempts=3)
    assert gangs.phases("low") == ["Running"] * 2
    nodes(3, prefix="new")
    gangs.await_phases("h", Running=2)
    gangs.await_phases("last", Running=3)
    assert gangs.phases("low") == ["Running"] * 2


def test_what_no_pod_requests_is_not_waited_for(gangs: Gangs, nodes: NodeFactory) -> None:
    gangs.create_group("g", 2, min_resources={"cpu": "24"})
    gangs.add("g", 2, cpu="3", gates=[GATE])
    groups = Groups(gangs.api, gangs.namespace)
    text = "what its pods do not request does not count: cpu 18"
    gangs.api.wait_for("it is said", lambda: text in groups.reported("g")[2], SECONDS)
    nodes(2)
    gangs.await_phases("g", Running=2)
