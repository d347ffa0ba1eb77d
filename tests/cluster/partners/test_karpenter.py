"""Gangs on nodes that Karpenter buys, beside the stock kube-scheduler, the extender and queues.

Karpenter sees all pods of a control plane, so this one is its own.
"""

from collections.abc import Iterator

import pytest

from tests.cluster.alone import alone, namespace_of, pair_of
from tests.cluster.gangs import Gangs
from tests.cluster.leftovers import sweep
from tests.cluster.partners.pools import SECONDS, Pools, node_class
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.partners import KARPENTER, start_partner
from tests.harness.process import Component
from tests.harness.reconciler import Reconciler

pytestmark = [
    pytest.mark.xdist_group("Karpenter"),
    pytest.mark.usefixtures("gang", "reconciler", "karpenter"),
]

control_plane, api = alone(controllers=True, kubelet=True)
gang = pair_of("gang")


@pytest.fixture(scope="module")
def reconciler(control_plane: ControlPlane) -> Iterator[Reconciler]:
    made = Reconciler(control_plane, settings={"reconcile": {"leaderElect": False}})
    made.wait_leading()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def karpenter(control_plane: ControlPlane, api: Api) -> Iterator[Component]:
    found = start_partner(control_plane, KARPENTER)
    api.create(node_class())
    yield found
    found.stop()


@pytest.fixture
def pools(api: Api, karpenter: Component) -> Iterator[Pools]:
    """NodePools, which end after the pods of the test."""
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
