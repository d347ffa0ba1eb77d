"""Looks at groups that have waited long: made in slices, and what is written of their claims."""

import asyncio
from collections.abc import Sequence
from typing import cast

from extender.gang.verdicts import GangOptions
from extender.kube.errors import UnavailableError
from extender.kube.pod_groups import PreemptorWriter
from extender.permit.background import NodeClaims
from extender.runtime.clock import SLICE_SECONDS
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.store import Cluster
from extender.steps import at_once
from tests.makers import (
    ManualClock,
    cluster_of,
    deleted,
    key,
    nodes,
    observe,
    pod,
    pod_group,
    pods,
    until,
)
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


class Writing:
    """A process that makes claims, and the PodGroups that it writes to."""

    def __init__(self, *, publishes_after: float = 1.0) -> None:
        self.cluster, self.schedulers = waiting(), {"default-scheduler"}
        self.asked, self.seen, self.error = True, True, False
        self.written: list[tuple[str, Sequence[str]]] = []
        options = GangOptions(aging=1.0, publishes_after=publishes_after)
        self.claims = NodeClaims(
            self.cluster, options=options, clock=ManualClock(), schedulers=self.schedulers
        )
        self.claims.writer = lambda: cast("PreemptorWriter", self) if self.asked else None

    async def apply_kept(self, group: PodGroupInfo, names: Sequence[str]) -> None:
        if self.error:
            raise UnavailableError("down")
        self.written.append((group.name, names))
        if self.seen:
            observe(self.cluster, pod_group("gang", 5, kept_nodes=tuple(names)))

    async def look(self) -> list[tuple[str, Sequence[str]]]:
        """Return what one look writes."""
        self.written = []
        at_once(self.claims.looking())
        await self.claims.publish()
        return self.written


KEPT = ("n0", "n1", "n2", "n3", "n4")


async def test_a_pod_group_names_the_nodes_that_its_claim_keeps_until_it_ends() -> None:
    there = Writing()
    assert await there.look() == [("gang", KEPT)]
    assert await there.look() == []
    observe(there.cluster, nodes(*[8] * 10))
    assert await there.look() == [("gang", ())]
    assert await there.look() == []


async def test_nothing_is_named_where_that_is_off_and_what_was_named_ends() -> None:
    there = Writing(publishes_after=0.0)
    assert await there.look() == []
    observe(there.cluster, pod_group("gang", 5, kept_nodes=("n0",)))
    assert await there.look() == [("gang", ())]


async def test_a_process_that_is_not_asked_writes_none() -> None:
    there = Writing()
    there.asked = False
    assert await there.look() == []
    there.asked = True
    assert await there.look() == [("gang", KEPT)]


async def test_what_another_extender_keeps_stays() -> None:
    there = Writing()
    there.schedulers.clear()
    observe(there.cluster, pod_group("gang", 5, kept_nodes=("n9",)))
    assert await there.look() == []


async def test_a_write_that_is_not_seen_yet_is_not_repeated_and_one_that_failed_is() -> None:
    there = Writing()
    there.error = True
    assert await there.look() == []
    there.error, there.seen = False, False
    assert await there.look() == [("gang", KEPT)]
    assert await there.look() == []
    observe(there.cluster, pod_group("gang", 5, kept_nodes=("other",)))
    assert await there.look() == [("gang", KEPT)]
