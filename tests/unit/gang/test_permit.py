"""What bind answers a member of a gang."""

from collections.abc import Sequence
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.gang import hold
from extender.gang.verdicts import Allow, PermitVerdict, Refuse, Wait
from extender.state.cluster import events as ev
from tests.makers import cluster_of, key, nodes, planned, pod, pod_group, pods

A, B, C = pods(3, 4)
ROOM = nodes(4, 4, 4, 4)
WAITING = [ev.PodWaiting(A, "n0"), ev.PodWaiting(B, "n1")]
WAITING_ALL = [A, B, C, *WAITING, ev.PodWaiting(C, "n2")]
DEADLINE = 100.0

WANT: dict[str, tuple[Sequence[Any], float, PermitVerdict]] = {
    "the PodGroup is gone": (
        [A, B, C, *WAITING],
        0.0,
        Refuse(Reason.POD_GROUP_DELETED, "gang ns/gang: its PodGroup was deleted"),
    ),
    "two of three wait": ([pod_group(), A, B, C, *WAITING], 0.0, Wait(2, 3)),
    "planned ones do not count": (
        [pod_group(), A, B, C, *WAITING, planned(gang_2="n2")],
        0.0,
        Wait(2, 3),
    ),
    "all three wait": ([pod_group(), A, B, C, *WAITING, ev.PodWaiting(C, "n2")], 0.0, Allow()),
    "another scheduler has filled the node of one": (
        [pod_group(), *WAITING_ALL, pod("other", 1, on="n1", scheduler="other")],
        0.0,
        Refuse(
            Reason.ROOM_TAKEN,
            "gang ns/gang: another scheduler has filled a node on which one of its pods waits",
        ),
    ),
    "another scheduler has left room on the node of one": (
        [pod_group(), *WAITING_ALL, pod("other", 0, on="n1", scheduler="other")],
        0.0,
        Allow(),
    ),
    "our books are behind, and no other scheduler is there": (
        [pod_group(), *WAITING_ALL, pod("other", 1, on="n1")],
        0.0,
        Allow(),
    ),
    "another scheduler has filled another node": (
        [pod_group(), *WAITING_ALL, pod("other", 5, on="n3", scheduler="other")],
        0.0,
        Allow(),
    ),
    "bound ones count": (
        [pod_group(), A, B, pod("c", 4, group="gang", on="n2"), *WAITING],
        0.0,
        Allow(),
    ),
    "those being bound count": (
        [pod_group(), A, B, C, *WAITING, ev.PodBinding(C, "n2")],
        0.0,
        Allow(),
    ),
    "more than minMember": (
        [pod_group(min_member=1), A, B, C, *WAITING],
        0.0,
        Allow(),
    ),
    "too few pods are left": (
        [pod_group(), A, B, *WAITING],
        0.0,
        Refuse(Reason.NOT_ENOUGH_PODS, "gang ns/gang: 2 of the 3 pods that it needs are left"),
    ),
    "just before the deadline": ([pod_group(), A, B, C, *WAITING], DEADLINE - 0.1, Wait(2, 3)),
    "at the deadline": (
        [pod_group(), A, B, C, *WAITING],
        DEADLINE,
        Refuse(
            Reason.SCHEDULE_TIMEOUT,
            "gang ns/gang: 2 of 3 pods got a node before the time-out",
            deny=True,
        ),
    ),
    "quorum after the deadline is quorum": (
        [pod_group(min_member=2), A, B, C, *WAITING],
        DEADLINE + 1,
        Allow(),
    ),
    "too few pods weighs more than the deadline: the group did not fail": (
        [pod_group(), A, B, *WAITING],
        DEADLINE,
        Refuse(Reason.NOT_ENOUGH_PODS, "gang ns/gang: 2 of the 3 pods that it needs are left"),
    ),
}


@pytest.mark.parametrize(("there", "now", "want"), WANT.values(), ids=WANT)
def test_permit(there: Sequence[Any], now: float, want: PermitVerdict) -> None:
    view = cluster_of(ROOM, there).view()

    assert hold.bind_or_wait(key("gang"), view=view, now=now, deadline=DEADLINE) == want
