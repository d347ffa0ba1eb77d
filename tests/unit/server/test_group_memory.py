"""What becomes of a group that is planned before its own turn."""

import pytest

from extender.gang.options import Options
from extender.server.group_memory import GroupMemory
from extender.state.cluster import Cluster
from tests.makers import key, node, pod, pod_group, pods, tell


class Ticking:
    """Every reading is a second later."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def monotonic(self) -> float:
        self._seconds += 1
        return self._seconds

    def wall(self) -> float:
        return self._seconds


GANG = pod_group("gang", 2)


@pytest.fixture
def memory(cluster: Cluster) -> GroupMemory:
    tell(cluster, node("n0", 2), GANG, pods(2, 1, group="gang"))
    return GroupMemory(cluster, options=Options(), clock=Ticking())


def test_room_is_kept_for_a_group_that_fits(cluster: Cluster, memory: GroupMemory) -> None:
    assert memory.plan_ahead(GANG, schedulers={"default-scheduler"}) == 0
    assert len(cluster.snapshot().tally(key("gang")).planned) == 2


def test_the_time_for_one_that_does_not_fit_is_told_and_it_is_passed_over(
    cluster: Cluster, memory: GroupMemory
) -> None:
    tell(cluster, pod("x", 1, on="n0"))

    assert memory.plan_ahead(GANG, schedulers={"default-scheduler"}) == 1
    assert memory.had_no_room(GANG)


def test_the_time_for_one_of_another_scheduler_is_told_and_nothing_is_known_of_it(
    cluster: Cluster, memory: GroupMemory
) -> None:
    assert memory.plan_ahead(GANG, schedulers=()) == 1
    assert not cluster.snapshot().tally(key("gang")).planned
    assert not memory.had_no_room(GANG)
