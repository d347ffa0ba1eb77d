"""The samples of a simulation, from which charts over time are drawn."""

from bisect import bisect
from math import inf

from gang_tools.simulate import scenario as scenarios
from gang_tools.simulate.books import Books, Moment
from gang_tools.simulate.from_scenario import world_of
from gang_tools.simulate.report import Lines, play_all
from gang_tools.simulate.scenario import Scenario
from gang_tools.simulate.world import SimJob
from tests.documents import ROOT

TWO = ROOT / "docs/examples/two-gangs.yaml"
QUEUED = Scenario.model_validate(
    {
        "nodes": [{"count": 2, "allocatable": {"cpu": 4, "memory": "2Gi"}}],
        "queues": [
            {"name": "q", "quota": {"cpu": 4, "memory": "1Gi"}},
            {"name": "idle", "quota": {"cpu": 1}},
        ],
        "jobs": [
            {
                "name": "j",
                "queue": "q",
                "count": 2,
                "requests": {"cpu": 3, "memory": "256Mi"},
                "runFor": 100,
            }
        ],
    }
)


def at(lines: list[tuple[float, float]], time: float) -> float:
    """Return the value of a line at a time."""
    return lines[bisect(lines, (time, inf)) - 1][1]


def test_lines_say_what_is_used_and_what_waits_at_each_time() -> None:
    found = play_all(world_of(scenarios.load(TWO)))
    assert found.alone is not None
    use, waiting = (
        found.gang_extender.over_time[name] for name in ("Use of nodes, %", "Waiting jobs")
    )

    assert use == {"cpu": [(0.0, 50.0), (600.0, 50.0), (900.0, 0.0)]}
    assert waiting["train"] == [(0.0, 0), (600.0, 0), (900.0, 0)]
    assert waiting["render"] == [(0.0, 1), (600.0, 0), (900.0, 0)]
    assert found.alone.over_time == {
        "Use of nodes, %": {"cpu": [(0.0, 75.0), (900.0, 75.0)]},
        "Waiting jobs": {name: [(0.0, 1), (900.0, 1)] for name in ("train", "render")},
    }


def test_use_of_quota_is_that_of_the_busiest_resource() -> None:
    found = play_all(world_of(QUEUED)).gang_extender.over_time
    quota: Lines = found["Use of nominal quota, %"]
    assert quota == {"q": [(0.0, 75.0), (100.0, 75.0), (200.0, 0.0)]}


def test_json_has_no_lines() -> None:
    assert "overTime" not in play_all(world_of(QUEUED)).model_dump_json(by_alias=True)


def test_a_job_that_is_preempted_waits_again() -> None:
    low = {"name": "low", "requests": {"cpu": 3}, "runFor": 100}
    high = {**low, "pods": 2, "name": "high", "priority": 5, "gang": {}, "arrivals": {"at": [10]}}
    nodes = [{"count": 2, "allocatable": {"cpu": 4}}]
    world = world_of(Scenario.model_validate({"nodes": nodes, "jobs": [low, high]}))

    waiting = play_all(world).gang_extender.over_time["Waiting jobs"]["low"]
    assert [at(waiting, time) for time in (5, 60, 150)] == [0, 1, 0]


def test_few_samples_stay_and_none_that_lasts_long_is_lost() -> None:
    books = Books([])
    times = [day * 86400.0 + n for day in range(20) for n in range(500)]  # busy, and then idle
    for number, (since, until) in enumerate(zip(times, [*times[1:], inf], strict=True)):
        books.used["cpu"] = number
        books.sample(since, until)

    idle = [day * 86400.0 + 499 for day in range(20)]
    assert len(books.samples) < 500
    assert {each.at for each in books.samples} >= {*idle}
    assert [each.used["cpu"] for each in books.samples] == [
        times.index(s.at) for s in books.samples
    ]


def test_the_end_is_the_last_sample() -> None:
    books = Books([])
    books.sample(0, 5)
    books.waits(SimJob("n", "ns", "kind", 5, None))
    books.sample(5, inf)
    books.close(5)
    assert books.samples == [Moment(0, {}, {}, {}), Moment(5, {}, {}, {"kind": 1})]
    assert [each.at for each in books.samples] == [0, 5]
