"""What becomes of a group that is planned before its own turn."""

import pytest

from extender.api.reasons import Reason
from extender.gang.verdicts import GangOptions, Refuse
from extender.permit.group_memory import GroupMemory
from extender.permit.plans import Plans
from extender.state.cluster.store import Cluster
from tests.makers import key, node, observe, pod, pod_group, pods


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
def verdicts(cluster: Cluster) -> GroupMemory:
    return GroupMemory(cluster, options=GangOptions(), clock=Ticking())


@pytest.fixture
def plans(cluster: Cluster, verdicts: GroupMemory) -> Plans:
    observe(cluster, node("n0", 2), GANG, pods(2, 1, group="gang"))
    return Plans(cluster, verdicts)


def test_the_time_for_one_that_does_not_fit_is_returned_and_it_is_passed_over(
    cluster: Cluster, plans: Plans
) -> None:
    observe(cluster, pod("x", 1, on="n0"))

    assert plans.plan_ahead(GANG, schedulers={"default-scheduler"}) > 0
    assert plans.had_no_room(GANG)


def test_the_time_for_one_of_another_scheduler_is_returned_and_nothing_is_known_of_it(
    cluster: Cluster, plans: Plans
) -> None:
    assert plans.plan_ahead(GANG, schedulers=()) > 0
    assert not cluster.view().tally(key("gang")).planned
    assert not plans.had_no_room(GANG)


@pytest.mark.usefixtures("plans")
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
    cluster: Cluster, verdicts: GroupMemory, reason: Reason, keeps_its_place: bool
) -> None:
    younger = pod_group("younger", 1, created=0.0005)
    observe(cluster, younger, pods(1, group="younger"))
    for name in ("younger", "gang", "younger"):
        verdicts.failed(key(name), Refuse(Reason.NOT_ENOUGH_RESOURCES, "no room", deny=True))
    verdicts.failed(key("gang"), Refuse(reason, "failed", deny=True))
    assert (next(iter(cluster.view().queue)) == key("gang")) is keeps_its_place
