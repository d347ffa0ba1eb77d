"""The condition PodsReady, situation by situation."""

from dataclasses import replace
from typing import Any

import pytest

from extender.jobs.actions import JobProgress, readiness
from extender.jobs.decide import decide
from extender.state.cluster.records import ConditionInfo
from tests.unit.jobs.scene import CONTEXT, job, workload

READY, BEHIND = {"ready": 2, "active": 2}, {"ready": 1, "active": 2}


def reported(
    status: dict[str, Any], *before: str, admitted: bool = True, since: float = 2.0
) -> Any:
    """Return what is said of a job with this status, after (status, reason) was said."""
    runs = job(suspend=False, status=status)
    stored = workload(job(), admitted=admitted)
    conditions = tuple(replace(each, transition=1.0) for each in stored.conditions)
    if before:
        stood, reason = before
        conditions = (*conditions, ConditionInfo("PodsReady", stood, reason, transition=since))
    said = readiness(runs, replace(stored, conditions=conditions), JobProgress())
    return None if said is None else (said.ready, said.reason)


WAIT, RECOVER = ("False", "WaitForStart"), ("False", "WaitForRecovery")
STARTED, RECOVERED = ("True", "Started"), ("True", "Recovered")


@pytest.mark.parametrize("since", [2.0, 0.5], ids=["in order", "after a clock was set back"])
@pytest.mark.parametrize(
    ("status", "before", "want"),
    [
        (BEHIND, (), (False, "WaitForStart")),
        (BEHIND, WAIT, None),
        (READY, WAIT, (True, "Started")),
        (READY, (), (True, "Started")),
        (READY, STARTED, None),
        (BEHIND, STARTED, (False, "WaitForRecovery")),
        (BEHIND, RECOVER, None),
        (READY, RECOVER, (True, "Recovered")),
        (READY, RECOVERED, None),
        (BEHIND, RECOVERED, (False, "WaitForRecovery")),
    ],
)
def test_what_is_said_follows_from_what_was(
    status: dict[str, Any], before: tuple[str, ...], want: Any, since: float
) -> None:
    """The state of pods is reset with each admission; it needs no comparison of times."""
    assert reported(status, *before, since=since) == want


def test_without_admission_nothing_is_ready() -> None:
    assert reported(READY, *STARTED, admitted=False) == (False, "WaitForStart")
    assert reported(READY, *WAIT, admitted=False) is None
    assert reported(READY, admitted=False) is None


def test_readiness_is_reported_only_where_it_is_asked_for() -> None:
    held = job()
    admitted = workload(held, admitted=True)
    running = job(suspend=False, status=READY)
    assert decide(running, [admitted], CONTEXT) == ()
    (said,) = decide(running, [admitted], replace(CONTEXT, wait_for_pods_ready=True))
    assert said.note is None
