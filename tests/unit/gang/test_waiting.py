"""Since when a group waits."""

import pytest

from extender.api.wellknown import ConditionType, Phase
from extender.gang.status import Waiting, waiting_of
from extender.state.cluster.records import ConditionInfo, PodGroupStatusInfo
from tests.makers import pod


def status(holds: str = "False", phase: str = Phase.PRE_SCHEDULING) -> PodGroupStatusInfo:
    said = ConditionInfo(ConditionType.SCHEDULED, holds, "NotEnoughResources", "", transition=100)
    return PodGroupStatusInfo(phase=phase, conditions=(said,))


def test_a_group_waits_since_its_condition_says_so() -> None:
    members = [pod("a", created=50), pod("b", created=200)]
    assert waiting_of(status(), members) == Waiting("NotEnoughResources", 100)


def test_a_group_waits_no_longer_than_its_oldest_pod() -> None:
    members = [pod("a", created=300), pod("b", created=200), pod("c", created=1, terminating=True)]
    assert waiting_of(status(), members) == Waiting("NotEnoughResources", 200)


@pytest.mark.parametrize(
    "found", [status("True"), status(phase=Phase.FAILED), PodGroupStatusInfo()], ids=str
)
def test_a_group_that_is_scheduled_or_has_failed_does_not_wait(found: PodGroupStatusInfo) -> None:
    assert waiting_of(found, [pod("a")]) is None


def test_a_group_without_live_pods_does_not_wait() -> None:
    assert waiting_of(status(), []) is None
    assert waiting_of(status(), [pod("a", terminating=True)]) is None
