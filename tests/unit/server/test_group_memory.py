"""What becomes of a group that is planned before its own turn."""

import pytest

from extender.api.wellknown import Reason
from extender.gang.options import Options
from extender.gang.verdicts import Refuse
from extender.server.group_memory import GroupMemory
from extender.state.cluster import Cluster
from tests.makers import key, node, pod, pod_group, pods, tell


class Ticking:
    """Every reading is so much later."""

    def __init__(self, step: float = 0.001) -> None:
        self.step = step
        self._seconds = 0.0

    def monotonic(self) -> float:
        self._seconds += self.step
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

    assert memory.plan_ahead(GANG, schedulers={"default-scheduler"}) > 0
    assert memory.had_no_room(GANG)


def test_the_time_for_one_of_another_scheduler_is_told_and_nothing_is_known_of_it(
    cluster: Cluster, memory: GroupMemory
) -> None:
    assert memory.plan_ahead(GANG, schedulers=()) > 0
    assert not cluster.snapshot().tally(key("gang")).planned
    assert not memory.had_no_room(GANG)


@pytest.mark.parametrize(
    ("reason", "keeps_its_place"),
    [
        (Reason.NOT_ENOUGH_RESOURCES, True),
        (Reason.WAITING_FOR_TURN, True),
        (Reason.SCHEDULE_TIMEOUT, False),
        (Reason.MEMBER_UNSCHEDULABLE, False),
    ],
)
def test_one_that_found_no_room_keeps_its_place(
    cluster: Cluster, memory: GroupMemory, reason: Reason, keeps_its_place: bool
) -> None:
    younger = pod_group("younger", 1, created=0.0005)
    tell(cluster, younger, pods(1, group="younger"))
    for name in ("younger", "gang", "younger"):
        memory.failed(key(name), Refuse(Reason.NOT_ENOUGH_RESOURCES, "no room", deny=True))
    memory.failed(key("gang"), Refuse(reason, "failed", deny=True))
    assert (next(iter(cluster.snapshot().queue)) == key("gang")) is keeps_its_place
