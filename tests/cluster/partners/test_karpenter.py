"""Gangs on nodes that Karpenter buys, beside the stock kube-scheduler, the extender and queues.

Karpenter sees all pods of a control plane, so this one is its own.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from extender.api.wellknown import (
    DISRUPTION_BUDGET,
    PODSET_REQUIRED_TOPOLOGY,
    REQUIRE_ROOM_ANNOTATION,
    REQUIRED_TOPOLOGY,
)
from tests.cluster.alone import alone, in_place_of, namespace_of, pair_of
from tests.cluster.checking import Answer
from tests.cluster.gangs import POD_GROUPS, Gangs
from tests.cluster.held import held_in
from tests.cluster.leftovers import sweep
from tests.cluster.partners.pools import SECONDS, ZONE, Pools
from tests.cluster.queues import API, Queues, condition
from tests.cluster.services import Services
from tests.cluster.test_preemption import held, let_go
from tests.cluster.test_provision import BUFFERS
from tests.cluster.test_require_room import await_running, pods_of
from tests.cluster.test_serving import stateful_set
from tests.harness import objects
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import ROOT, GangScheduler
from tests.harness.partners import KARPENTER, start_partner
from tests.harness.process import Component
from tests.harness.reconciler import Reconciler

AT_LEAST_ONCE = 400
"""Karpenter looks again every five minutes at nodes of which it has seen no change."""
pytestmark = [
    pytest.mark.xdist_group("Karpenter"),
    pytest.mark.usefixtures("gang", "reconciler", "karpenter", "gates"),
]

GATE_POLICY = ROOT / "manifests" / "optional" / "gang-gate-policy.yaml"

control_plane, api = alone(controllers=True, kubelet=True)
GROWS = {"growing": True, "agingSeconds": 0}
gang = pair_of("gang", settings={"gang": GROWS})
"""The extender with the settings of docs/tasks/admin/clusters-that-grow.md."""
AGED = {
    "growing": True,
    "agingSeconds": 2,
    "claimNodesPercentage": 100,
    "growthSeconds": 1,
    "publishKeptRoom": True,
}
aged = pair_of("aged", settings={"gang": AGED})
"""One that sets nodes aside after two seconds, and soon has these published."""
growth_first = pair_of("growth-first", settings={"gang": {**GROWS, "preemption": "AfterGrowth"}})
"""One whose gangs preempt only where no nodes come."""


@pytest.fixture(scope="module")
def reconciler(control_plane: ControlPlane, karpenter: Component) -> Iterator[Reconciler]:
    """The reconciler, which finds Karpenter's CapacityBuffers when it starts."""
    settings = {"reconcile": {"leaderElect": False}, "gang": GROWS}
    made = Reconciler(control_plane, settings=settings)
    made.wait_leading()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def karpenter(control_plane: ControlPlane) -> Iterator[Component]:
    found = start_partner(control_plane, KARPENTER)
    yield found
    found.stop()


@pytest.fixture(scope="module")
def gates(api: Api) -> None:
    """The policy by which members are created behind our gate."""
    api.apply(GATE_POLICY)
    member = objects.pod("member", group="g")
    api.wait_for("members are gated", lambda: api.tried(member)["spec"].get("schedulingGates"))


@pytest.fixture
def pools(api: Api, karpenter: Component) -> Iterator[Pools]:
    """NodePools, which end after the pods of the test."""
    made = Pools(api)
    yield made
    made.clean()


@pytest.fixture
def elsewhere(api: Api, karpenter: Component) -> Iterator[Pools]:
    """More of them, whose nodes are for other pods."""
    made = Pools(api)
    yield made
    made.clean()


@pytest.fixture
def namespace(api: Api, pools: Pools) -> Iterator[str]:
    name = namespace_of(api)
    yield name
    sweep(api, name)


def await_look(pools: Pools, gangs: Gangs, name: str = "plain") -> None:
    """Have Karpenter look at all pods once more: return when a plain pod has a node of its own."""
    gangs.api.create(gangs.pod(name, cpu="4", nodeSelector=pools.selector))
    gangs.api.wait_for(f"{name} has a node", lambda: gangs.node_of(name), SECONDS)


def test_a_gang_starts_from_zero_on_the_nodes_that_it_needs(pools: Pools, gangs: Gangs) -> None:
    pools.create()

    gangs.create("g", 8, cpu="2", nodeSelector=pools.selector)

    gangs.await_phases("g", SECONDS, Running=8)
    assert pools.bought() == 4
    # The taints of nodes that boot are no reason to call members unschedulable.
    assert gangs.api.notes(gangs.namespace, "MemberUnschedulable") == []
    await_look(pools, gangs)
    assert pools.bought() == 5


def test_where_some_members_have_room_only_the_missing_nodes_are_added(
    pools: Pools, gangs: Gangs
) -> None:
    pools.create()
    before = gangs.create("before", 3, cpu="4", nodeSelector=pools.selector)
    gangs.await_phases("before", SECONDS, Running=3)
    gangs.delete(before)
    gangs.create("half", 1, cpu="2", nodeSelector=pools.selector)
    gangs.await_phases("half", SECONDS, Running=1)
    assert pools.bought() == 3

    gangs.create("g", 8, cpu="2", nodeSelector=pools.selector)

    gangs.await_phases("g", SECONDS, Running=8)  # five of them had room
    assert pools.bought() == 5


def test_an_incomplete_gang_buys_no_node(pools: Pools, gangs: Gangs) -> None:
    pools.create()
    gangs.create_group("g", 8)
    gangs.add("g", 6, cpu="2", nodeSelector=pools.selector)

    await_look(pools, gangs)

    assert pools.bought() == 1
    gangs.add("g", 2, start=6, cpu="2", nodeSelector=pools.selector)
    gangs.await_phases("g", SECONDS, Running=8)
    assert pools.bought() == 5


def test_a_gang_whose_pods_name_no_pod_group_buys_no_node(pools: Pools, gangs: Gangs) -> None:
    pools.create()
    gangs.create_group("train", 4)
    gangs.add("trian", 4, cpu="2", nodeSelector=pools.selector)

    await_look(pools, gangs)

    assert pools.bought() == 1
    gangs.create_group("trian", 4)
    gangs.await_phases("trian", SECONDS, Running=4)
    assert pools.bought() == 3


def test_a_gang_that_no_pool_can_hold_says_that_it_waits_for_nodes(
    pools: Pools, gangs: Gangs
) -> None:
    pools.create(most=3)

    gangs.create("g", 8, cpu="2", nodeSelector=pools.selector)

    gangs.api.wait_for("all nodes are there", lambda: pools.bought() == 3, SECONDS)
    gangs.api.wait_for("it waits", lambda: reason_of(gangs, "g") == "WaitingForNodes", SECONDS)
    assert not gangs.bound("g")
    pools.create(most=1)
    gangs.await_phases("g", SECONDS, Running=8)
    assert pools.bought() == 4


def test_a_gang_of_one_zone_starts_from_zero(pools: Pools, gangs: Gangs) -> None:
    """Its nodes would be spread over the zones, each pod by itself."""
    pools.create(zones=("zone-a", "zone-b"))

    of_one_zone(pools, gangs)

    assert pools.bought() == 4


def test_a_gang_of_one_zone_gets_the_nodes_that_it_lacks_there(pools: Pools, gangs: Gangs) -> None:
    """Each of its pods fits into one of the zones."""
    for zone in ("zone-a", "zone-b"):
        pools.create(zones=(zone,))
        selector = {**pools.selector, ZONE: zone}
        gangs.create(zone, 2, cpu="4", nodeSelector=selector)
        gangs.await_phases(zone, SECONDS, Running=2)
    assert pools.bought() == 4
    gangs.delete(["zone-a-0", "zone-a-1", "zone-b-0", "zone-b-1"])

    of_one_zone(pools, gangs)

    assert pools.bought() == 6


@pytest.mark.timeout(1000)
def test_consolidation_takes_no_member_of_a_gang_that_runs(pools: Pools, gangs: Gangs) -> None:
    pools.create(consolidate=True)
    fillers = gangs.create("fillers", 5, cpu="3", nodeSelector=pools.selector)
    gangs.await_phases("fillers", SECONDS, Running=5)
    gangs.create("g", 4, cpu="1", nodeSelector=pools.selector)
    gangs.await_phases("g", SECONDS, Running=4)
    members = nodes_of(gangs, "g")
    assert len({*members.values()}) == 4
    gangs.api.create(gangs.pod("plain", cpu="1", nodeSelector=pools.selector))
    gangs.api.wait_for("plain has a node", lambda: gangs.node_of("plain"), SECONDS)
    gangs.api.wait_for("the gang has a budget", lambda: has_budget(gangs, "g"), SECONDS)

    gangs.delete(fillers)

    # There is room for the plain pod beside the members, and for all of these on one node.
    gangs.api.wait_for(
        "the node of the plain pod goes",
        lambda: {node["metadata"]["name"] for node in pools.nodes()} == {*members.values()},
        AT_LEAST_ONCE,
    )
    assert nodes_of(gangs, "g") == members
    assert gangs.phases("g") == ["Running"] * 4
    lifted = {"metadata": {"annotations": {DISRUPTION_BUDGET: "false"}}}
    gangs.api.patch(POD_GROUPS, "g", gangs.namespace, body=lifted)
    gangs.api.wait_for("another node goes", lambda: len(pools.nodes()) < 4, AT_LEAST_ONCE)


def test_a_job_of_a_queue_that_asks_for_nodes_starts_from_zero(
    pools: Pools, gangs: Gangs, queues: Queues
) -> None:
    pools.create(consolidate=True, boot_seconds=5)
    asking(queues)

    submit(queues, pools)

    await_running(gangs.api, queues, "train", 8)
    assert pools.bought() == 4
    await_look(pools, gangs)
    assert pools.bought() == 5
    assert gangs.api.list(BUFFERS, gangs.namespace) == []


def test_a_job_of_a_queue_that_asks_for_nodes_gets_those_that_are_missing(
    pools: Pools, gangs: Gangs, queues: Queues
) -> None:
    pools.create()
    before = gangs.create("before", 3, cpu="4", nodeSelector=pools.selector)
    gangs.await_phases("before", SECONDS, Running=3)
    gangs.delete(before)
    gangs.create("half", 1, cpu="2", nodeSelector=pools.selector)
    gangs.await_phases("half", SECONDS, Running=1)
    asking(queues)

    submit(queues, pools)

    await_running(gangs.api, queues, "train", 8)
    await_look(pools, gangs)
    assert pools.bought() == 6


def test_a_job_of_a_queue_that_asks_for_one_zone_starts_there_from_zero(
    pools: Pools, gangs: Gangs, queues: Queues
) -> None:
    pools.create(zones=("zone-a", "zone-b"))
    levels = [{"nodeLabel": ZONE}, {"nodeLabel": "kubernetes.io/hostname"}]
    topology = queues.create("Topology", "zones", {"levels": levels})
    labels = pools.selector
    asking(queues, flavor=queues.flavor("zones", nodeLabels=labels, topologyName=topology))

    submit(queues, pools, annotations={PODSET_REQUIRED_TOPOLOGY: ZONE})

    pods = await_running(gangs.api, queues, "train", 8)
    assert len(zones_of(pools, {pod["spec"]["nodeName"] for pod in pods})) == 1
    assert pools.bought() == 4


def test_a_job_that_no_pool_can_hold_leaves_no_node(
    control_plane: ControlPlane, reconciler: Reconciler, pools: Pools, queues: Queues
) -> None:
    pools.create(most=3, consolidate=True)
    asking(queues)
    brief = {"queue": {"provisionTimeoutSeconds": 60}}
    with in_place_of(reconciler, control_plane, "brief", brief):
        submit(queues, pools)

        queues.api.wait_for("it asks for nodes", lambda: pools.bought() == 3, SECONDS)
        queues.await_condition("train", "Evicted", reason="NodesTimeout", timeout=SECONDS)
        queues.api.wait_for("no node is left", lambda: not pools.bought(), SECONDS)
        assert queues.is_suspended("train")


def test_of_two_jobs_for_which_there_are_too_few_nodes_one_runs_and_none_is_idle(
    control_plane: ControlPlane, reconciler: Reconciler, pools: Pools, queues: Queues
) -> None:
    pools.create(most=6, consolidate=True)
    asking(queues)
    brief = {"queue": {"provisionTimeoutSeconds": 60}}
    with in_place_of(reconciler, control_plane, "brief", brief):
        submit(queues, pools)
        await_running(queues.api, queues, "train", 8)

        submit(queues, pools, "second")

        queues.api.wait_for("it asks for nodes", lambda: pools.bought() == 6, SECONDS)
        queues.await_condition("second", "Evicted", reason="NodesTimeout", timeout=SECONDS)
        queues.api.wait_for("no node is idle", lambda: pools.bought() == 4, SECONDS)
        assert queues.is_suspended("second")
        assert len(pods_of(queues.api, queues.namespace, "train")) == 8


def test_a_gang_whose_nodes_come_while_the_extender_is_down_starts_later(
    gang: GangScheduler, pools: Pools, gangs: Gangs
) -> None:
    """Karpenter may take the nodes away meanwhile: the pods are not Unschedulable then."""
    pools.create(consolidate=True, boot_seconds=10)
    gangs.create("g", 8, cpu="2", nodeSelector=pools.selector)
    gangs.api.wait_for("nodes are bought", lambda: pools.bought() == 4, SECONDS)
    gang.extender.stop()
    gangs.api.wait_for("they are there", lambda: len(pools.nodes()) == 4, SECONDS)

    gang.extender.start()
    gang.wait_ready()

    gangs.await_phases("g", SECONDS, Running=8)
    gangs.api.wait_for("four are left", lambda: pools.bought() == 4, SECONDS)


def test_a_stateful_set_whose_pods_start_together_starts_from_zero(
    pools: Pools, queues: Queues
) -> None:
    pools.create()
    asking(queues)
    with held_in(queues.api, queues.namespace):
        services = Services(queues.api, queues)
        made = stateful_set("web", 8, queues.namespace, podManagementPolicy="Parallel")
        made["spec"]["template"]["spec"]["nodeSelector"] = pools.selector

        services.create(made)

        services.await_pods("web", running=8)
        assert pools.bought() == 2


def test_pods_that_are_kept_off_get_other_nodes_where_the_kept_room_is_published(
    control_plane: ControlPlane,
    aged: GangScheduler,
    reconciler: Reconciler,
    elsewhere: Pools,
    pools: Pools,
    gangs: Gangs,
) -> None:
    """They would fit where nodes are set aside for a gang that its pool cannot hold."""
    api = gangs.api
    by: dict[str, Any] = {"scheduler_name": "aged", "nodeSelector": pools.selector}
    pools.create(most=2)
    of_first = {**pools.selector, "karpenter.sh/nodepool": f"{pools.name}-0"}
    gangs.create("busy", 2, cpu="3", nodeSelector=of_first)
    gangs.await_phases("busy", SECONDS, Running=2)
    pools.create()
    gangs.create("large", 2, cpu="4", **{**by, "nodeSelector": of_first})
    api.create(gangs.pod("asks", cpu="0", **by))
    api.wait_for("it has a claim", lambda: aged.metric("gang_extender_claims") == 1, SECONDS)
    plain = ["plain-0", "plain-1"]
    api.create(*(gangs.pod(name, cpu="500m", **by) for name in plain))
    gangs.create("small", 2, cpu="500m", **by)
    wait = [*plain, "small-0", "small-1"]
    api.wait_for("they wait", lambda: all(is_refused(gangs, name) for name in wait), SECONDS)
    elsewhere.create()
    await_look(elsewhere, gangs)
    assert pools.bought() == 2
    assert {name: gangs.node_of(name) for name in wait} == dict.fromkeys(wait)

    with in_place_of(reconciler, control_plane, "shows", {"gang": AGED}):
        api.wait_for("they have nodes", lambda: all(map(gangs.node_of, wait)), SECONDS)
        assert pools.bought() == 3
        assert not gangs.bound("large")
    api.wait_for("none is shown", lambda: not api.list(BUFFERS, gangs.namespace), SECONDS)


def test_a_gang_of_higher_priority_preempts_and_buys_no_node(
    high: str, pools: Pools, gangs: Gangs
) -> None:
    pools.create()
    gangs.create("low", 2, cpu="4", nodeSelector=pools.selector)
    gangs.await_phases("low", SECONDS, Running=2)

    gangs.create("h", 2, cpu="4", nodeSelector=pools.selector, priority_class=high)

    gangs.await_phases("h", SECONDS, Running=2)
    assert gangs.members("low") == []
    await_look(pools, gangs)
    assert pools.bought() == 3


@pytest.mark.usefixtures("growth_first")
def test_where_growth_comes_first_nodes_are_added_and_no_pod_is_preempted(
    high: str, pools: Pools, gangs: Gangs
) -> None:
    of: dict[str, Any] = {"scheduler_name": "growth-first", "nodeSelector": pools.selector}
    pools.create()
    gangs.create("low", 2, cpu="4", **of)
    gangs.await_phases("low", SECONDS, Running=2)

    gangs.create("h", 2, cpu="4", priority_class=high, **of)

    gangs.await_phases("h", SECONDS, Running=2)
    assert gangs.phases("low") == ["Running"] * 2
    assert pools.bought() == 4


def test_where_victims_stay_nodes_are_added_after_all(
    high: str, pools: Pools, gangs: Gangs
) -> None:
    pools.create()
    held(gangs, "low", 2, nodeSelector=pools.selector)

    gangs.create("h", 2, cpu="4", nodeSelector=pools.selector, priority_class=high)

    gangs.await_phases("h", SECONDS, Running=2)
    assert pools.bought() == 4
    let_go(gangs, "low")


def test_a_gang_gets_its_nodes_while_plain_pods_keep_coming(pools: Pools, gangs: Gangs) -> None:
    """The next one comes when the last one has a node, at once or with the nodes that boot."""
    pools.create(boot_seconds=5)
    names = ["plain-0"]
    gangs.api.create(gangs.pod(names[0], cpu="1", nodeSelector=pools.selector))
    gangs.create("g", 8, cpu="2", nodeSelector=pools.selector)

    def runs() -> bool:
        if gangs.node_of(names[-1]):
            names.append(f"plain-{len(names)}")
            gangs.api.create(gangs.pod(names[-1], cpu="1", nodeSelector=pools.selector))
        return gangs.phases("g") == ["Running"] * 8

    gangs.api.wait_for("the gang runs", runs, SECONDS)
    assert len(names) > 1


def test_a_check_names_the_settings_that_do_not_go_with_karpenter(
    control_plane: ControlPlane, pools: Pools
) -> None:
    pools.create()

    answer = Answer("--kubeconfig", control_plane.admin_kubeconfig)

    said = {name for name in answer.lines("warning") if name.startswith("autoscalers.")}
    assert said == {"autoscalers.claims", "autoscalers.growing"}


def asking(queues: Queues, **options: Any) -> None:
    """Make a queue whose jobs need room, and ask for it; options of Queues.simple."""
    name, _ = queues.simple(cpu=32, **options)
    asks = {"metadata": {"annotations": {REQUIRE_ROOM_ANNOTATION: "Provision"}}}
    queues.api.patch(f"{API}/clusterqueues", name, body=asks)


def submit(queues: Queues, pools: Pools, name: str = "train", **options: Any) -> None:
    """Make a job of eight pods for four nodes; options of objects.job."""
    spec = {"nodeSelector": pools.selector}
    queues.job(name, 8, cpu="2", run_for="1h", pod_spec=spec, **options)


def of_one_zone(pools: Pools, gangs: Gangs) -> None:
    """Make a gang of eight pods for four nodes of one zone, and wait until it runs there."""
    gangs.create_group("g", 8, annotations={REQUIRED_TOPOLOGY: ZONE})
    gangs.add("g", 8, cpu="2", nodeSelector=pools.selector)
    gangs.await_phases("g", SECONDS, Running=8)
    assert len(zones_of(pools, {*nodes_of(gangs, "g").values()})) == 1


def zones_of(pools: Pools, names: set[str]) -> set[str]:
    """Return the zones of some nodes."""
    found = {each["metadata"]["name"]: each["metadata"]["labels"][ZONE] for each in pools.nodes()}
    return {found[name] for name in names}


def reason_of(gangs: Gangs, group: str) -> str:
    """Return why a gang has not started."""
    found = gangs.api.get(POD_GROUPS, group, gangs.namespace)
    conditions = found.get("status", {}).get("conditions", ())
    return next((c["reason"] for c in conditions if c["type"] == "Scheduled"), "")


def is_refused(gangs: Gangs, name: str) -> bool:
    """Return whether a pod is what autoscalers look at."""
    found = condition(gangs.api.get("pods", name, gangs.namespace), "PodScheduled")
    return found.get("reason") == "Unschedulable"


def nodes_of(gangs: Gangs, group: str) -> dict[str, str]:
    """Return the nodes of the members of a gang, by UID."""
    return {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in gangs.members(group)}


def has_budget(gangs: Gangs, group: str) -> bool:
    """Return whether a PodDisruptionBudget keeps all members of a gang."""
    budgets = gangs.api.list("policy/v1/poddisruptionbudgets", gangs.namespace)
    found = {each["metadata"]["name"]: each.get("status", {}) for each in budgets}
    return bool(found.get(f"gang-{group}", {}).get("expectedPods"))
