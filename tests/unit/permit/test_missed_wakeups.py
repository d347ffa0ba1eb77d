"""What waits although nothing speaks against another try has one, in turn."""

import pytest

from extender.api.reasons import TOO_LARGE, Reason
from extender.gang.verdicts import GangOptions, Refuse
from extender.permit.group_memory import GroupMemory
from extender.permit.plans import Plans
from extender.permit.timing import BACK_OFF_SECONDS, PATIENCE_SECONDS
from extender.permit.wake import MissedWakeups
from extender.state.cluster import events as ev
from extender.steps import at_once
from tests.makers import ManualClock, cluster_of, deleted, key, node, observe, pod, pod_group, pods

GROUPS = ("a", "b", "c")


class Play:
    """Gangs of two that were refused, and plain pods."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        members = [each for group in GROUPS for each in pods(2, group=group)]
        groups = [pod_group(group, 2) for group in GROUPS]
        self.cluster = cluster_of(node("n0", 99), *groups, members, pod("plain"), pod("other"))
        self.verdicts = GroupMemory(self.cluster, options=GangOptions(), clock=self.clock)
        self.woken: list[str] = []
        plans = Plans(self.cluster, self.verdicts)
        self.overlooked = MissedWakeups(self.cluster, plans, wake=self.woken.append)

    def refuse(self, *names: str, reason: Reason = Reason.RESERVED) -> None:
        """Refuse pods."""
        for name in names:
            self.cluster.apply(ev.PodRefused(self.cluster.view().pods[name], reason))

    def looks(self, count: int = 1) -> list[str]:
        """Return which pods are woken by so many looks."""
        self.woken.clear()
        for _ in range(count):
            self.clock.now += BACK_OFF_SECONDS
            at_once(self.overlooked.looking())
        return [*self.woken]


@pytest.fixture
def play() -> Play:
    return Play()


def test_a_group_that_waits_for_two_looks_is_tried_again(play: Play) -> None:
    play.refuse("a-0", "a-1")

    assert play.looks() == []
    assert play.looks() == ["a-0"]


def test_one_group_and_one_plain_pod_have_their_turn_at_a_time(play: Play) -> None:
    play.refuse("plain", "other", *(f"{group}-{n}" for group in GROUPS for n in range(2)))
    play.looks()

    assert [play.looks() for _ in range(3)] == [["a-0", "plain"], ["b-0", "other"], ["c-0"]]


def test_each_has_its_turn_before_another_has_two(play: Play) -> None:
    play.refuse(*(f"{group}-{n}" for group in GROUPS for n in range(2)))
    play.looks()

    assert play.looks(3) == ["a-0", "b-0", "c-0"]
    assert play.looks(int(PATIENCE_SECONDS / BACK_OFF_SECONDS) - 3) == []
    assert play.looks(3) == ["a-0", "b-0", "c-0"]


def test_one_that_was_tried_meanwhile_is_left_alone(play: Play) -> None:
    play.refuse("a-0", "a-1")
    play.looks()
    play.refuse("a-0", "a-1")

    assert play.looks() == []


def test_a_group_with_a_member_that_is_to_be_tried_is_left_alone(play: Play) -> None:
    play.refuse("a-0")

    assert play.looks(5) == []


def test_a_group_that_is_known_to_have_no_room_is_left_alone(play: Play) -> None:
    play.refuse("a-0", "a-1")
    play.verdicts.found_no_room(key("a"), Refuse(Reason.NOT_ENOUGH_RESOURCES, "no room"))

    assert play.verdicts.has_no_room(key("a"))
    assert play.looks(2) == []


@pytest.mark.parametrize("reason", sorted(TOO_LARGE))
def test_a_group_that_never_fitted_is_tried_when_a_node_is_uncordoned_that_our_watch_shows_late(
    play: Play, reason: Reason
) -> None:
    """kube-scheduler tried it when it saw the node, and tries no more when we see it."""
    observe(play.cluster, node("cordoned", 99, unschedulable=True))
    play.refuse("a-0", "a-1", reason=reason)
    play.verdicts.found_no_room(key("a"), Refuse(reason, "too small", deny=True))
    assert play.looks(3) == []

    observe(play.cluster, node("cordoned", 99))

    assert play.looks(2) == ["a-0"]


def test_a_member_that_kube_scheduler_rejected_itself_is_not_the_one(play: Play) -> None:
    view = play.cluster.view()
    rejected = view.pods["a-0"]
    play.cluster.apply(ev.ObjectApplied(pod("a-0", group="a", unschedulable="no such volume")))
    assert view.pods["a-0"] != rejected
    play.refuse("a-0", "a-1")

    assert play.looks(2) == ["a-1"]


def test_a_group_that_has_started_or_lacks_pods_is_left_alone(play: Play) -> None:
    play.refuse("a-0", "a-1", "b-0", "b-1")
    play.cluster.apply(ev.ObjectApplied(pod("a-1", group="a", on="n0")))
    play.cluster.apply(ev.ObjectApplied(pod("a-0", group="a", on="n0")))
    play.cluster.apply(deleted("b-1"))

    assert play.looks(5) == []


@pytest.mark.parametrize(
    "reason",
    [
        Reason.WAITING_FOR_TURN,
        Reason.NOT_ADMITTED,
        Reason.NOT_ENOUGH_PODS,
        Reason.NATIVE_GROUP_WAITS,
    ],
)
def test_what_something_known_speaks_against_is_left_alone(play: Play, reason: Reason) -> None:
    play.refuse("a-0", "a-1", "plain", reason=reason)

    assert play.looks(2) == []


def test_while_room_is_reserved_what_it_is_kept_from_is_left_alone(play: Play) -> None:
    play.refuse("a-0", "a-1", "plain")
    play.cluster.apply(ev.Planned({"b-0": "n0"}))

    assert play.cluster.view().keeps_room
    assert play.looks(2) == []


def test_a_namespace_has_its_turn_however_many_wait_in_another(play: Play) -> None:
    many = [pod(f"many-{number}", namespace="tenant") for number in range(50)]
    observe(play.cluster, many)
    play.refuse(*(each.uid for each in many), "plain", "other")
    play.looks()

    woken = [name for _ in range(4) for name in play.looks()]
    assert {"plain", "other"} < {*woken}
    assert len(woken) == 4
