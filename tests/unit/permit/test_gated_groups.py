"""The gatekeeper: plans what is behind our gate, in turn, and nothing else. Time is virtual."""

import asyncio
from typing import Any

import pytest
from typing_extensions import override

from extender.api.wellknown import GANG_GATE
from extender.gang.verdicts import GangOptions
from extender.permit.group_memory import GroupMemory
from extender.permit.plans import Plans, UnaskedPlans
from extender.runtime.clock import SLICE_SECONDS
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.store import Cluster
from extender.steps import at_once
from tests.makers import LoopClock, deleted, key, node, nodes, observe, pod, pod_group, pods

pytestmark = pytest.mark.looptime

OURS = (GANG_GATE,)


def group(name: str, created: float, *, size: int = 2, cpu: int = 1, **fields: Any) -> list[Any]:
    """Return a PodGroup and its pods behind our gate."""
    fields = {"gates": OURS, **fields}
    return [pod_group(name, size, created=created), *pods(size, cpu, group=name, **fields)]


def keeper(cluster: Cluster, clock: Any = None, **options: Any) -> UnaskedPlans:
    chosen = GangOptions(**{"gate_until_fit": True, **options})
    verdicts = GroupMemory(cluster, options=chosen, clock=clock or LoopClock())
    return UnaskedPlans(cluster, Plans(cluster, verdicts))


def planned_groups(cluster: Cluster) -> list[str]:
    view = cluster.view()
    return sorted(name[3:] for name in view.groups if view.tally(name).planned)


WANT: dict[str, tuple[list[Any], dict[str, Any], list[str]]] = {
    "all that fit": ([*nodes(2, 2), group("a", 1.0), group("b", 2.0)], {}, ["a", "b"]),
    "the first in turn": ([node("n0", 2), group("b", 1.0), group("a", 2.0)], {}, ["b"]),
    "past one that does not fit now": (
        [*nodes(2, 2), pod("x", 1, on="n0"), group("a", 1.0, cpu=2), group("b", 2.0)],
        {},
        ["b"],
    ),
    "in strict order no group passes": (
        [*nodes(2, 2), pod("x", 1, on="n0"), group("a", 1.0, cpu=2), group("b", 2.0)],
        {"strict_order": True},
        [],
    ),
    "not even one without a gate": (
        [*nodes(2, 2), pod("x", 1, on="n0"), group("a", 1.0, cpu=2, gates=()), group("b", 2.0)],
        {"strict_order": True},
        [],
    ),
    "but one that never fits": (
        [*nodes(2, 2), group("a", 1.0, cpu=3), group("b", 2.0)],
        {"strict_order": True},
        ["b"],
    ),
    "a group that is not behind our gate is left to kube-scheduler": (
        [*nodes(2, 2), group("a", 1.0, gates=()), group("b", 2.0, gates=("x", GANG_GATE))],
        {},
        [],
    ),
    "with any scheduler": ([*nodes(2, 2), group("a", 1.0, scheduler="mine")], {}, ["a"]),
}


@pytest.mark.parametrize(("there", "options", "want"), WANT.values(), ids=WANT)
async def test_which_groups_are_planned(
    there: list[Any], options: dict[str, Any], want: list[str], cluster: Cluster
) -> None:
    observe(cluster, there)

    at_once(keeper(cluster, **options).looking())

    assert planned_groups(cluster) == want


class Ticking(LoopClock):
    """Every reading is later by two fifths of what one step may take."""

    def __init__(self) -> None:
        self._ticks = 0

    @override
    def monotonic(self) -> float:
        self._ticks += 1
        return self._ticks * SLICE_SECONDS * 2 / 5


async def test_a_long_queue_is_looked_at_in_steps(cluster: Cluster) -> None:
    observe(cluster, node("n0", 40), *(group(f"g{number}", float(number)) for number in range(5)))
    keeping = keeper(cluster, Ticking())

    assert at_once(keeping.looking())
    first = planned_groups(cluster)
    while at_once(keeping.looking()):
        pass
    assert first == ["g0", "g1"][: len(first)]
    assert planned_groups(cluster) == ["g0", "g1", "g2", "g3", "g4"]


async def test_room_is_noticed_whatever_makes_it(cluster: Cluster) -> None:
    observe(cluster, node("n0", 2), pod("x", 1, on="n0"), group("a", 1.0), group("b", 2.0, cpu=9))
    task = asyncio.create_task(keeper(cluster).run())
    await asyncio.sleep(1.5)
    assert planned_groups(cluster) == []

    observe(cluster, deleted("x"))
    await asyncio.sleep(1.2)
    assert planned_groups(cluster) == ["a"]
    observe(cluster, node("m0", 9), node("m1", 9))
    await asyncio.sleep(1.5)
    assert planned_groups(cluster) == ["a", "b"]
    assert key("a") not in cluster.view().queue
    task.cancel()


async def test_what_is_spent_in_vain_is_a_tenth_of_the_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def in_vain(*_: object, **__: object) -> float:
        looks.append(asyncio.get_running_loop().time())
        return 1.0

    monkeypatch.setattr(Plans, "plan_ahead", in_vain)
    observe(cluster, node("n0", 2), group("a", 1.0))
    task = asyncio.create_task(keeper(cluster).run())
    await asyncio.sleep(12)
    task.cancel()

    assert looks == [1, 11]


async def test_where_nothing_is_held_back_it_does_nothing(cluster: Cluster) -> None:
    observe(cluster, nodes(9), group("a", 1.0))

    at_once(keeper(cluster, gate_until_fit=False).looking())

    assert planned_groups(cluster) == []


async def test_a_group_that_is_planned_in_the_middle_of_a_look_is_passed(cluster: Cluster) -> None:
    observe(cluster, node("n0", 9), group("a", 1.0), group("b", 2.0))
    looking = keeper(cluster).looking()
    next(looking)
    next(looking)
    observe(cluster, deleted((pod_group("b").api_group, key("b")), PodGroupInfo))
    for _ in looking:
        pass
    assert planned_groups(cluster) == ["a"]
