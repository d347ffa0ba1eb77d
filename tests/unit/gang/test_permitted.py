"""What the extender says of a group that it holds or has denied, and when it says nothing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from extender.api.reasons import Reason
from extender.gang.status import permitted_condition
from extender.gang.verdicts import Refuse
from extender.state.cluster import events as ev
from extender.state.cluster.records import ConditionInfo, PodGroupStatusInfo
from tests.makers import cluster_of, key, nodes, planned, pod_group, pods

A, B, C = pods(3)
HELD = ConditionInfo(
    "Permitted", "False", "WaitingForBind", "1/3 pods have a node and wait for the others", 50.0, 7
)
DENIED = ConditionInfo(
    "Permitted", "False", "RecentlyDenied", "failed recently, 1 of 3 got a node", 90.0, 7
)
QUORUM = ConditionInfo("Permitted", "True", "QuorumReached", "", 90.0, 7)
TIMEOUT = Refuse(Reason.SCHEDULE_TIMEOUT, "gang ns/gang: 1 of 3 got a node", deny=True)
ONE_WAITS = [A, B, C, ev.PodWaiting(A, "n0")]
WHOLE = [A, B, C, *(ev.PodBinding(each, "n0") for each in (A, B, C))]

WANT: dict[str, tuple[Sequence[Any], ConditionInfo | None, Refuse | None, ConditionInfo | None]] = {
    "nothing has happened": ([A, B, C], None, None, None),
    "planned, and no member waits yet": ([A, B, C, planned(gang_0="n0")], None, None, None),
    "one waits": (ONE_WAITS, None, None, replace(HELD, transition=90.0)),
    "the same again": (ONE_WAITS, HELD, None, None),
    "another waits: the time of the change is kept": (
        [*ONE_WAITS, ev.PodWaiting(B, "n0")],
        HELD,
        None,
        replace(HELD, message="2/3 pods have a node and wait for the others"),
    ),
    "denied": ([A, B, C], None, TIMEOUT, DENIED),
    "denied after a wait": ([A, B, C], HELD, TIMEOUT, replace(DENIED, transition=50.0)),
    "waiting again after a denial": (ONE_WAITS, DENIED, TIMEOUT, replace(HELD, transition=90.0)),
    "no member waits any more": (
        [A, B, C],
        HELD,
        None,
        ConditionInfo("Permitted", "Unknown", "NotTried", "no pod waits with a node now", 90.0, 7),
    ),
    "a denial has had its time": (
        [A, B, C],
        DENIED,
        None,
        ConditionInfo("Permitted", "Unknown", "NotTried", "no pod waits with a node now", 90.0, 7),
    ),
    "denied, and it has too few pods since": (
        [A, B],
        DENIED,
        TIMEOUT,
        ConditionInfo("Permitted", "Unknown", "NotTried", "no pod waits with a node now", 90.0, 7),
    ),
    "it started as it should": (WHOLE, None, None, None),
    "it started after a wait": (WHOLE, HELD, None, QUORUM),
    "that it started is known": (WHOLE, QUORUM, None, None),
}


@pytest.mark.parametrize(("there", "stored", "denied", "want"), WANT.values(), ids=WANT)
def test_decide(
    there: Sequence[Any],
    stored: ConditionInfo | None,
    denied: Refuse | None,
    want: ConditionInfo | None,
) -> None:
    status = PodGroupStatusInfo(conditions=(stored,) if stored else ())
    group = pod_group(generation=7, status=status)
    view = cluster_of(nodes(8), group, there).view()

    assert permitted_condition(key("gang"), view=view, denied=denied, now=90.0) == want


def test_nothing_is_said_of_a_group_without_a_pod_group() -> None:
    view = cluster_of(ONE_WAITS).view()

    assert permitted_condition(key("gang"), view=view, denied=TIMEOUT, now=90.0) is None


def test_a_replica_that_was_not_asked_withdraws_no_denial() -> None:
    status = PodGroupStatusInfo(conditions=(HELD,))
    view = cluster_of(nodes(8), pod_group(generation=7, status=status), A, B, C).view()

    assert permitted_condition(key("gang"), view=view, denied=None, now=90.0, asked=False) is None
    assert (
        permitted_condition(key("gang"), view=view, denied=None, now=90.0, asked=True) is not None
    )
