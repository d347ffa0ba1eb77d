"""What would become of a job before it is created."""

from copy import deepcopy
from typing import Any

import pytest

from extender.api.wellknown import EXPECTED_RUN
from extender.config.settings import Settings
from gang_tools.simulate.answering import Forecast, UnknownJobError, answer, starts_of, text
from gang_tools.simulate.engine import Simulation
from gang_tools.simulate.from_cluster import TakenState, expected
from gang_tools.simulate.from_scenario import world_of
from gang_tools.simulate.scenario import Scenario
from gang_tools.simulate.world import World
from tests.harness import objects

QUEUE = {"name": "queue", "quota": {"cpu": 4, "memory": "64Gi"}, "requireRoom": True}


def asked(*manifests: dict[str, Any], jobs: tuple[dict[str, Any], ...] = ()) -> Forecast:
    found = Scenario.model_validate(
        {
            "nodes": [{"name": "node", "count": 2, "allocatable": {"cpu": 2, "memory": "4Gi"}}],
            "queues": [QUEUE],
            "jobs": [{"name": "none", "runFor": 1, "arrivals": {"at": [9e6]}},
                     *({"requests": {"cpu": 1}, **job} for job in jobs)],
        }
    )  # fmt: skip
    return answer(world_of(found), deepcopy([*manifests]), assumed=None)


def job(pods: int, **options: Any) -> dict[str, Any]:
    return objects.job("asked", pods, **{"queue": "queue", "cpu": "1", **options})


def test_a_job_with_quota_and_room_would_start_now() -> None:
    found = asked(job(4))
    assert (found.starts_now, found.starts_in_seconds, found.lacks) == (True, 0, "")
    assert "It would start now." in text(found)


def test_one_that_has_to_wait_says_what_it_lacks_and_until_when() -> None:
    found = asked(job(4), jobs=({"name": "first", "queue": "queue", "pods": 2, "runFor": 60},))
    assert not found.starts_now
    assert "insufficient" in found.lacks
    assert found.starts_in_seconds == pytest.approx(60, abs=1)
    assert "Starts in 60 s at the earliest." in text(found)


def test_one_that_never_fits_has_no_time() -> None:
    found = asked(job(1, cpu="3"))
    assert (found.starts_now, found.starts_in_seconds) == (False, None)
    assert "room for 0 of 1" in found.lacks
    assert "Nothing that is known makes room for it." in text(found)


def test_a_gang_of_its_own_without_a_queue_waits_for_nodes() -> None:
    pods = {"name": "pods", "pods": 3, "runFor": 30}
    group = objects.pod_group("train", 2)
    found = asked(group, job(2, queue=None, group="train"), jobs=(pods,))
    assert not found.starts_now
    assert "1 of the 2 pods" in found.lacks
    assert found.starts_in_seconds == pytest.approx(30, abs=1)


@pytest.mark.parametrize(
    ("manifest", "want"),
    [
        ({"apiVersion": "apps/v1", "kind": "Deployment"}, "the manifest has no job"),
        (job(1, labels={"kueue.x-k8s.io/priority-class": "high"}), "no WorkloadPriorityClass high"),
        (job(2, group="train"), "PodGroup train, which is not in the manifest"),
        (job(1, cpu="much"), "the job cannot be read"),
    ],
)
def test_what_cannot_be_answered_is_said(manifest: dict[str, Any], want: str) -> None:
    with pytest.raises(UnknownJobError) as error:
        asked(manifest)
    assert want in str(error.value)


def test_a_queue_that_is_not_there_is_what_it_lacks() -> None:
    found = asked(job(1, queue="other"))
    assert found.lacks == "LocalQueue other doesn't exist"


# --- from the state of a cluster -----------------------------------------------------------------


def full(*jobs: dict[str, Any]) -> Simulation:
    """Return the state of a node that two pods fill, which have run for ten seconds."""
    scenario = Scenario.model_validate(
        {
            "nodes": [{"name": "node", "allocatable": {"cpu": 4, "memory": "4Gi"}}],
            "queues": [QUEUE],
            "jobs": [
                {"name": "queued", "queue": "queue", "requests": {"cpu": 2}, "runFor": 1000},
                {"name": "plain", "requests": {"cpu": 2}, "runFor": 1000},
                *jobs,
            ],
            "until": 10,
        }
    )
    before = Simulation(world_of(scenario))
    before.run(10)
    return before


def going_on(before: Simulation, runs: dict[str, float], assumed: float | None = None) -> World:
    """Return the world of a cluster with that state."""
    state = TakenState(
        before.view,
        before.queue_view,
        Settings(),
        now=before.clock.wall(),
        runs=runs,
        assumed=assumed,
    )
    return state.world()


def taken_over(runs: dict[str, float], assumed: float | None = None) -> Forecast:
    """Return what becomes of a job where that is the state of a cluster."""
    world = going_on(full(), runs, assumed)
    assert [len(each.pods) for each in world.running] == [1, 1]
    return answer(world, [job(1, cpu="2")], assumed=assumed)


def test_what_runs_in_a_cluster_ends_by_what_it_says() -> None:
    found = taken_over({"job-0": 100, "job-1": 300})
    assert found.starts_in_seconds == pytest.approx(90, abs=1)  # it has run for ten seconds
    assert "it waits" not in text(found)


def test_what_says_nothing_runs_for_ever_or_for_the_assumed_time() -> None:
    found = taken_over({"job-0": 100})
    assert found.starts_in_seconds == pytest.approx(90, abs=1)
    assert any("1 job runs on forever" in each for each in found.assumptions)
    assert taken_over({}).starts_in_seconds is None
    assert taken_over({}, assumed=60).starts_in_seconds == pytest.approx(50, abs=1)


def test_a_workload_that_is_there_starts_when_there_is_room_for_it() -> None:
    late = {"name": "late", "queue": "queue", "requests": {"cpu": 2}, "runFor": 5}
    before = full({**late, "arrivals": {"at": [5]}})
    [key] = [key for key in before.queue_view.workloads if not before.queue_view.admission(key)]

    def start(runs: dict[str, float], *, late: bool = False) -> dict[str, float | None]:
        world = going_on(before, runs)
        found = starts_of(world, gives_up=lambda: late)
        return {name: at and at - world.began for name, at in found.items()}

    assert start({"job-1": 100}) == {key: pytest.approx(90, abs=1)}
    assert start({}) == {key: None}
    assert start({"job-1": 100}, late=True) == {}


def test_what_waits_starts_one_after_the_other_and_what_is_found_in_time_is_told() -> None:
    late = [
        {"name": f"late-{cpu}", "queue": "queue", "requests": {"cpu": cpu}, "runFor": 50,
         "arrivals": {"at": [cpu]}}
        for cpu in (1, 2, 9)
    ]  # fmt: skip
    before = full(*late)
    waiting = [key for key in before.queue_view.workloads if not before.queue_view.admission(key)]

    def starts(looks: int) -> list[float | None]:
        world, left = (
            going_on(before, {"job-0": 100, "job-1": 300, "job-2": 50}),
            iter(range(looks)),
        )
        found = starts_of(world, gives_up=lambda: next(left, None) is None)
        times = [found[key] for key in waiting if key in found]
        return [at and at - world.began for at in times]

    assert starts(10**6) == [pytest.approx(90, abs=1), pytest.approx(140, abs=1), None]
    assert any(starts(looks) == [pytest.approx(90, abs=1)] for looks in range(40))


@pytest.mark.parametrize(
    ("annotations", "deadline", "want"),
    [
        ({EXPECTED_RUN: "45m"}, None, 2700),
        ({EXPECTED_RUN: "45m"}, 60, 2700),
        ({EXPECTED_RUN: "soon"}, 60, 60),
        ({}, None, None),
    ],
)
def test_an_annotation_says_how_long_a_job_runs_and_else_its_deadline(
    annotations: dict[str, str], deadline: int | None, want: float | None
) -> None:
    spec = {} if deadline is None else {"activeDeadlineSeconds": deadline}
    source = {"metadata": {"annotations": annotations}, "spec": spec}
    assert expected(source, []) == want
    assert expected({}, [source]) == want
