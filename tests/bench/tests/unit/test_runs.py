"""The two clocks of a run."""

from collections.abc import Mapping

from tests.bench.meter import Meter
from tests.bench.results import Result
from tests.bench.runs import Seen, result
from tests.bench.scheduled import Written
from tests.bench.sides import Pages, plain
from tests.bench.tests.unit.results import AUDIT, CASE

BOUND = {"gang-00000-0": 7.0, "gang-00000-1": 9.0}


def of(created: Mapping[str, float]) -> Result:
    """Return what a run comes to in which the scheduler was ready at four."""
    seen = Seen(
        ready=4.0,
        created=created,
        bound=BOUND,
        strays=set(),
        refused=0,
        pods=[],
        written=Written(count=2, repeated=0, ended=9.0, in_time=True),
        audit=AUDIT,
        pages=Pages(),
        notes=[],
    )
    return result(CASE, plain(), seen, Meter(), repeat=1)


def test_both_clocks_end_with_the_last_pod_and_begin_with_the_scheduler_or_the_first_pod() -> None:
    assert (of({}).ready_seconds, of({}).seconds) == (5.0, 2.0)


def test_where_gangs_come_while_the_scheduler_runs_one_begins_with_the_first_of_them() -> None:
    found = of({"gang-00000-0": 6.0, "gang-00000-1": 6.5})

    assert (found.ready_seconds, found.seconds) == (3.0, 2.0)
