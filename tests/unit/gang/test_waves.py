"""The condition of a group while its Job goes from one wave of pods to the next."""

from typing import Any

import pytest

from extender.gang import status
from extender.gang.verdicts import GangOptions
from extender.state.cluster import events as ev
from extender.state.cluster.records import JobInfo, PodGroupStatusInfo
from tests.makers import cluster_of, key, node, pod, pod_group

KINDS: dict[str, dict[str, Any]] = {
    "new": {},
    "bound": {"on": "n0"},
    "running": {"on": "n0", "phase": "Running"},
    "leaving": {"on": "n0", "phase": "Running", "terminating": True},
    "succeeded": {"on": "n0", "phase": "Succeeded", "finished": True},
    "failed": {"on": "n0", "phase": "Failed", "finished": True},
}
LATE = (0, 1, 2)
"""Of how many of the pods that are through the Job does not know yet."""


def job(succeeded: int, *, wanted: int, parallel: int = 3) -> JobInfo:
    left = min(parallel, max(0, wanted - succeeded))
    return JobInfo("job", key("gang"), parallel, parallel - left, wanted - parallel)


def status_of(work: JobInfo | None, **counts: int) -> PodGroupStatusInfo:
    facts = [
        pod(f"{kind}-{number}", group="gang", controller="job", **KINDS[kind])
        for kind, count in counts.items()
        for number in range(count)
    ]
    jobs = [ev.ObjectApplied(work)] if work else []
    group = pod_group()
    return status.decide(
        group,
        view=cluster_of(node("n0", 100), group, jobs, facts).view(),
        stored=PodGroupStatusInfo(),
        now=0.0,
        options=GangOptions(),
    ).status


def reported(work: JobInfo | None, **counts: int) -> tuple[str, str]:
    """Return the phase and whether the group is scheduled."""
    status = status_of(work, **counts)
    scheduled = status.condition("Scheduled")
    assert scheduled is not None
    return status.phase, scheduled.status


SIX: dict[str, tuple[dict[str, int], tuple[str, str]]] = {
    "the first wave runs": ({"running": 3}, ("Running", "True")),
    "one is through": ({"running": 2, "succeeded": 1}, ("Running", "True")),
    "and another one waits in its place": (
        {"running": 2, "succeeded": 1, "new": 1},
        ("Scheduling", "False"),
    ),
    "has its place": ({"running": 2, "succeeded": 1, "bound": 1}, ("Scheduled", "True")),
    "and runs": ({"running": 3, "succeeded": 1}, ("Running", "True")),
    "all are through": ({"succeeded": 3}, ("Running", "True")),
    "the first of the next wave is there": ({"succeeded": 3, "new": 1}, ("Scheduling", "False")),
    "the next wave waits": ({"succeeded": 3, "new": 3}, ("PreScheduling", "False")),
    "has nodes": ({"succeeded": 3, "bound": 3}, ("Scheduled", "True")),
    "runs": ({"succeeded": 3, "running": 3}, ("Running", "True")),
    "one of it is through for good": ({"succeeded": 4, "running": 2}, ("Running", "True")),
    "one of it is being deleted": (
        {"succeeded": 3, "running": 2, "leaving": 1},
        ("Pending", "False"),
    ),
    "another one of it is being deleted and has been replaced": (
        {"succeeded": 4, "running": 2, "leaving": 1},
        ("Running", "True"),
    ),
    "one failed beside one that is through": (
        {"running": 1, "succeeded": 1, "failed": 1},
        ("Failed", "False"),
    ),
    "only the last is left": ({"succeeded": 5, "running": 1}, ("Running", "True")),
    "it is over, and the Job does not say so yet": ({"succeeded": 6}, ("Running", "True")),
}


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize(("counts", "want"), SIX.values(), ids=SIX)
def test_six_pods_three_at_once(counts: dict[str, int], want: tuple[str, str], late: int) -> None:
    succeeded = max(0, counts.get("succeeded", 0) - late)

    assert reported(job(succeeded, wanted=6), **counts) == want


@pytest.mark.parametrize("late", LATE)
def test_one_wave_has_no_other_after_it(late: int) -> None:
    work = job(max(0, 2 - late), wanted=3)

    assert reported(work, succeeded=2, running=1) == ("Running", "True")
    assert reported(work, succeeded=2, running=1, new=1) == ("Running", "True")


def test_pods_that_were_deleted_are_the_jobs_to_count() -> None:
    assert reported(job(5, wanted=6), succeeded=1, running=1) == ("Running", "True")
    assert reported(job(5, wanted=6), succeeded=1, new=1) == ("Scheduling", "False")


def test_pods_of_no_job_have_no_waves() -> None:
    assert reported(None, succeeded=3, new=3) == ("Running", "True")


def test_a_gang_is_not_partial_because_one_waits_in_the_place_of_another() -> None:
    status = status_of(job(1, wanted=6), running=2, succeeded=1, new=1)

    assert status.condition("Partial") is None
