"""What becomes of a gang when there is no node for a member."""

from collections.abc import Sequence
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.gang import hold
from extender.gang.verdicts import GangOptions, Refuse, is_ours
from extender.state.cluster import events as ev
from tests.makers import cluster_of, key, nodes, planned, pod, pod_group, pods

NO_NODE = "0/3 nodes are available: 3 Insufficient cpu."
FAILED = pod("failed", 1, group="gang", unschedulable=NO_NODE)
PLAN = planned(failed="n0")


def waiting(count: int) -> list[Any]:
    members = pods(count, 0)
    return [*members, *(ev.PodWaiting(member, "n0") for member in members)]


def refusal(gap: int) -> Refuse:
    text = f"gang ns/gang: no node for one of its pods, and {gap} more are needed"
    return Refuse(Reason.MEMBER_UNSCHEDULABLE, text, deny=True)


WANT: dict[str, tuple[Sequence[Any], int, Refuse | None]] = {
    "the gap is exactly ten per cent": ([pod_group(min_member=10), waiting(9), PLAN], 10, None),
    "the gap is more than ten per cent": (
        [pod_group(min_member=10), waiting(8), PLAN],
        10,
        refusal(2),
    ),
    "ten per cent of nine is less than one pod": (
        [pod_group(min_member=9), waiting(8), PLAN],
        10,
        refusal(1),
    ),
    "ten per cent of nineteen is one pod, not two": (
        [pod_group(min_member=19), waiting(17), PLAN],
        10,
        refusal(2),
    ),
    "ten per cent of twenty is two pods": ([pod_group(min_member=20), waiting(18), PLAN], 10, None),
    "at zero per cent every gap counts": (
        [pod_group(min_member=10), waiting(9), PLAN],
        0,
        refusal(1),
    ),
    "at zero per cent no gap is no failure": (
        [pod_group(min_member=10), waiting(10), PLAN],
        0,
        None,
    ),
    "at a hundred per cent no gap counts": ([pod_group(min_member=10), PLAN], 100, None),
    "no member waits yet": ([pod_group(min_member=10), PLAN], 99, refusal(10)),
    "the pod is being bound": (
        [pod_group(min_member=10), waiting(1), ev.PodBinding(FAILED, "n0")],
        10,
        None,
    ),
    "quorum is there": ([pod_group(min_member=2), waiting(2), PLAN], 10, None),
    "more than quorum is there": ([pod_group(min_member=2), waiting(3), PLAN], 10, None),
    "a member that no plan counts on": ([pod_group(min_member=10), waiting(2)], 10, None),
    "a member that waits again already": (
        [pod_group(min_member=10), waiting(2), ev.PodWaiting(FAILED, "n0")],
        10,
        None,
    ),
    "there is no PodGroup": ([waiting(2), PLAN], 10, None),
}


@pytest.mark.parametrize(("there", "percentage", "want"), WANT.values(), ids=WANT)
def test_post_filter(there: Sequence[Any], percentage: int, want: Refuse | None) -> None:
    view = cluster_of(nodes(8), FAILED, there).view()
    options = GangOptions(reject_percentage=percentage)

    assert hold.no_node(FAILED, key("gang"), view=view, options=options) == want


WANT_OURS: dict[str, tuple[str, bool]] = {
    "a refusal of ours": (
        "0/3 nodes are available: 3 gang ns/gang: 1 of 2 pods got a node before the time-out.",
        True,
    ),
    "a refusal of another gang's": (
        "0/3 nodes are available: 3 gang ns/gang-2: there is no such PodGroup.",
        False,
    ),
    "kube-scheduler's own": (NO_NODE, False),
    "no text": ("", False),
}


@pytest.mark.parametrize(("message", "want"), WANT_OURS.values(), ids=WANT_OURS)
def test_our_own_text_is_known_again(message: str, want: bool) -> None:
    assert is_ours(message, key("gang")) is want


WANT_STUCK: dict[str, tuple[Sequence[Any], str | None]] = {
    "a planned member that had no node": ([FAILED, PLAN], "failed"),
    "a planned member that we had refused": (
        [pod("failed", group="gang", unschedulable="gang ns/gang: no"), PLAN],
        None,
    ),
    "a planned member of which nothing is known": ([pod("failed", group="gang"), PLAN], None),
    "a member that had no node and is not planned": ([FAILED], None),
    "a member that had no node and waits now": ([FAILED, ev.PodWaiting(FAILED, "n0")], None),
}


@pytest.mark.parametrize(("there", "want"), WANT_STUCK.values(), ids=WANT_STUCK)
def test_stuck(there: Sequence[Any], want: str | None) -> None:
    found = hold.stuck_member(key("gang"), view=cluster_of(nodes(8), there).view())

    assert (found and found.uid) == want
