"""What `gang-extender explain podgroup` works out by itself, as the extender would."""

from dataclasses import replace
from typing import Any

import pytest

from extender.api.explanations import GroupExplanation
from extender.explain.gang import explain_group
from extender.gang.verdicts import GangOptions
from extender.runtime.clock import SystemClock
from extender.state.cluster.records import NominatedRoom, PreemptedRoom, VictimInfo
from extender.state.cluster.store import Cluster
from extender.steps import at_once
from gang_tools.explanations import facts_of, no_group
from tests.makers import cluster_of, key, nodes, pod, pod_group, pods

OLDER = [pod_group("older", 2, created=-1.0), pods(2, 4, group="older")]


def explained(cluster: Cluster, **options: Any) -> GroupExplanation:
    """Return the explanation of the gang."""
    facts = facts_of(cluster, key("gang"), GangOptions(**options))
    found = at_once(explain_group(key("gang"), facts))
    assert found is not None
    return found


def test_room_is_kept_for_groups_that_go_first() -> None:
    cluster = cluster_of(pod_group(), pods(3, 4), nodes(4, 4, 4), OLDER)

    found = explained(cluster)

    assert found.reason == "WaitingForTurn"
    [kept] = found.kept_from_it
    assert (kept.kind, kept.name, kept.pods) == ("Plan", "older", 2)
    assert found.room is not None
    assert (found.room.fit, found.room.fit_if_nothing_were_kept) == (1, 3)


def test_a_group_that_lacks_one_pod_comes_as_a_plain_pod_does() -> None:
    one = [pod_group("older", 1, created=-1.0), pods(1, 4, group="older")]
    cluster = cluster_of(pod_group(), pods(3, 4), nodes(4, 4, 4), one)

    found = explained(cluster)

    assert (found.kept_from_it, [each.name for each in found.ahead]) == ([], ["older"])


def test_nodes_are_set_aside_for_groups_that_have_waited_long() -> None:
    now = SystemClock().wall()
    waiting = [replace(each, created=now - 1000) for each in pods(3, 4)]
    busy = [pod(f"x{n}", 4, on=f"n{n}") for n in range(3)]
    cluster = cluster_of(pod_group(created=now - 1000), waiting, nodes(4, 4, 4, 4, 4, 4), busy)
    assert not facts_of(cluster, key("gang"), GangOptions(aging=1e9)).view.claims

    full = [pod(f"y{n}", 4, on=f"n{n}") for n in range(3, 6)]
    cluster = cluster_of(
        pod_group(created=now - 1000), waiting, nodes(4, 4, 4, 4, 4, 4), busy, full
    )
    found = explained(cluster)

    assert [(each.kind, len(each.nodes)) for each in found.kept] == [("Claim", 3)]
    assert found.claim_due is None


def test_room_that_victims_leave_is_read_from_the_status() -> None:
    room = PreemptedRoom(
        1.0,
        {"n0": NominatedRoom(("gang-0",), {"cpu": 4000})},
        (VictimInfo("Pod", "victim", ("victim",)),),
    )
    group = pod_group("older", 2, nomination=room)
    cluster = cluster_of(group, pods(2, 4, group="older"), nodes(4), pod_group(), pods(3, 4))

    found = explained(cluster)

    assert [(each.kind, each.name) for each in found.kept_from_it] == [("Preemption", "older")]


def test_in_strict_order_a_group_that_never_fits_holds_up_no_other() -> None:
    large = [pod_group("large", 1, created=-1.0), pods(1, 99, group="large")]
    cluster = cluster_of(pod_group(), pods(3, 4), nodes(4, 4, 4), large)

    found = explained(cluster, strict_order=True)

    assert [each.answer for each in found.gates if each.gate == "Turn"] == ["Passed"]


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ([], "that namespace has none"),
        ([pod_group("a"), pods(1, group="b")], "there are a, b"),
    ],
)
def test_what_is_there_is_said_of_what_is_not(there: list[object], words: str) -> None:
    view = cluster_of(there).view()
    assert no_group(key("gang"), view) == (
        f"there is no PodGroup ns/gang, and no pod names it; {words}"
    )
