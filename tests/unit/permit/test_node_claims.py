"""A look at groups that have waited long is made in slices."""

import asyncio

from extender.gang.verdicts import GangOptions
from extender.permit.background import NodeClaims
from extender.runtime.clock import SLICE_SECONDS
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.store import Cluster
from tests.makers import cluster_of, deleted, key, nodes, pod, pod_group, pods, until
from tests.recount import check_tables
from tests.unit.permit.test_plans import Ticking

OPTIONS = GangOptions(aging=1.0)


def waiting() -> Cluster:
    """Return ten full nodes, and a gang that waits for half of them."""
    full = [pod(f"on-{n}", 4, on=f"n{n}") for n in range(10)]
    return cluster_of(nodes(*[4] * 10), full, pod_group("gang", 5), pods(5, 4))


async def test_others_have_their_turn_while_it_looks() -> None:
    """Each piece of work takes as long as a slice."""
    cluster = waiting()
    clock = Ticking(SLICE_SECONDS)
    clock._seconds = 1e6
    aging = NodeClaims(cluster, options=OPTIONS, clock=clock)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while not cluster.view().claims:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(aging.run())
        await asyncio.wait_for(others(), 30)
        looking.cancel()
    assert turns > 2
    assert cluster.view().claims.keys() == {key("gang")}


async def test_a_group_that_has_its_room_since_gets_no_claim() -> None:
    cluster = waiting()
    clock = Ticking(0.0)
    clock._seconds = 1e6
    looking = NodeClaims(cluster, options=OPTIONS, clock=clock).looking()
    next(looking)
    cluster.apply(deleted((pod_group("gang").api_group, key("gang")), PodGroupInfo))
    for _ in looking:
        pass
    await until(lambda: not cluster.view().claims)
    check_tables(cluster)
