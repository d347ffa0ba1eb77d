"""Workloads under quota: waits, rates, use of the quota, and that none holds what is not there."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.bench.queue import writes
from tests.bench.queue.__main__ import app
from tests.bench.queue.measures import Ledger, Seen, Times, measure
from tests.bench.series import percentile
from tests.bench.tests.unit.queue_makers import QUEUES, admitted, finished, load, seen

LARGE: dict[str, Any] = {"kind": "large", "held": 4000, "granted": 4000}


def test_a_history() -> None:
    history = [
        seen(10.0, "a"),
        seen(10.5, "b", kind="large", queue=1),
        admitted(11.0, "a"),
        admitted(13.0, "b", **LARGE, queue=1),
        finished(14.0, "a"),
        finished(16.0, "b", kind="large", queue=1),
    ]

    got = measure(history, load())

    assert (got.start, got.end) == (10.0, 16.0)
    assert (got.created, got.admitted, got.finished, got.evictions) == (2, 2, 2, 0)
    assert got.waits == {
        "small, created to admitted": Times(1, 1.0, 1.0, 1.0),
        "small, created to finished": Times(1, 4.0, 4.0, 4.0),
        "small, admitted to finished": Times(1, 3.0, 3.0, 3.0),
        "large, created to admitted": Times(1, 2.5, 2.5, 2.5),
        "large, created to finished": Times(1, 5.5, 5.5, 5.5),
        "large, admitted to finished": Times(1, 3.0, 3.0, 3.0),
    }
    assert (got.broken, got.violations) == (0, ())


def test_quota_is_used_as_long_as_a_workload_waits_for_it() -> None:
    history = [
        seen(0.0, "a"),
        admitted(0.5, "a", **LARGE, admitted=False),  # reserved is not used
        admitted(2.0, "a", **LARGE),  # 4 of 8 CPU for one second
        admitted(3.0, "b", **LARGE, queue=1),  # 8 of 8 for one
        finished(4.0, "a", kind="large"),  # 4 of 8 for four
        admitted(8.0, "c"),  # the last one to be admitted
        admitted(50.0, "c"),
    ]

    assert measure(history, load()).usage == pytest.approx((4 + 8 + 4 * 4) / 8 / 8)


def test_the_first_admission_ends_the_wait_and_evictions_are_counted_once() -> None:
    history = [
        seen(0.0, "a"),
        admitted(1.0, "a"),
        admitted(2.0, "a", evicted=True),
        seen(3.0, "a", evicted=True),
        admitted(5.0, "a"),
        admitted(6.0, "a", evicted=True),
    ]

    got = measure(history, load())

    assert got.waits["small, created to admitted"] == Times(1, 1.0, 1.0, 1.0)
    assert (got.admitted, got.finished, got.evictions) == (1, 0, 2)


@pytest.mark.parametrize("history", [[], [seen(1.0, "a"), seen(2.0, "b")]], ids=["empty", "waits"])
def test_nothing_was_admitted(history: list[Seen]) -> None:
    got = measure(history, load())

    assert (got.created, got.admitted, got.usage, got.waits) == (len(history), 0, 0.0, {})
    assert got.end == got.start


@pytest.mark.parametrize(
    ("values", "q", "want"),
    [
        pytest.param([3.0], 0.99, 3.0, id="one"),
        pytest.param(range(100, 0, -1), 0.99, 99, id="one in a hundred is above"),
        pytest.param(range(1, 51), 0.99, 50, id="of fifty the highest"),
        pytest.param([2.0, 1.0, 4.0, 3.0], 0.5, 2.0, id="half of four"),
    ],
)
def test_a_percentile_is_taken_of_values(values: list[float], q: float, want: float) -> None:
    assert percentile(values, q) == want


def ledger(history: Sequence[Seen], **queues: object) -> Ledger:
    made = Ledger(load(**queues))
    for each in history:
        made.apply(each)
    return made


FULL = [admitted(1, "a", **LARGE), admitted(2, "b", **LARGE, queue=1)]


@pytest.mark.parametrize(
    ("history", "want"),
    [
        pytest.param(FULL, [], id="all that there is"),
        pytest.param(
            [admitted(1, "a", **LARGE), admitted(2, "b"), admitted(2, "c")],
            [],
            id="what may be borrowed",
        ),
        pytest.param(
            [
                admitted(1, "a", **LARGE),
                finished(2, "a", kind="large"),
                admitted(3, "b", **LARGE),
                seen(4, "b", kind="large", evicted=True),
                admitted(5, "c", **LARGE),
            ],
            [],
            id="one after the other",
        ),
        pytest.param([admitted(1, "a")] * 9, [], id="the same one again"),
        pytest.param(
            [admitted(1, "a", **LARGE), admitted(2, "b", **LARGE)],
            [f"{QUEUES[0]} holds 8000m of at most 6000m with b"],
            id="more than a queue may borrow",
        ),
        pytest.param(
            [*FULL, admitted(3, "c")],
            ["team-0 holds 9000m of 8000m with c"],
            id="more than the cohort has",
        ),
        pytest.param(
            [
                admitted(1, "a", **LARGE),
                admitted(2, "a", **LARGE, evicted=True),
                admitted(3, "b", **LARGE),
            ],
            [f"{QUEUES[0]} holds 8000m of at most 6000m with b"],
            id="an eviction frees nothing while the quota is held",
        ),
        pytest.param(
            [admitted(1, "a", kind="large")],
            ["a requests 4000m and was granted 1000m"],
            id="less than it asked for",
        ),
        pytest.param(
            [admitted(1, "a", held_in=QUEUES[1])],
            [f"a of queue {QUEUES[0]} holds quota of '{QUEUES[1]}'"],
            id="another queue's",
        ),
    ],
)
def test_more_than_there_is_is_named_at_the_event(history: Sequence[Seen], want: list[str]) -> None:
    found = ledger(history)

    assert (found.violations, found.broken) == (want, len(want))


def test_without_a_borrowing_limit_only_the_cohort_counts() -> None:
    history = [admitted(1, "a", **LARGE), admitted(2, "b", **LARGE), admitted(3, "c")]

    found = ledger(history, borrowingLimit=None)

    assert found.violations == ["team-0 holds 9000m of 8000m with c"]


def test_cohorts_do_not_share() -> None:
    two = load()
    two = two.model_copy(
        update={"cohorts": [two.cohorts[0].model_copy(update={"count": 2})]}, deep=True
    )
    found = Ledger(two)
    elsewhere: dict[str, Any] = {"queue": "team-1-queue-0", "held_in": "team-1-queue-0"}
    for each in (*FULL, Seen(time=2, name="c", **LARGE, **elsewhere)):
        found.apply(each)

    assert found.broken == 0


def test_all_are_counted_and_the_first_are_named() -> None:
    found = ledger([admitted(1, f"w-{number}") for number in range(30)])

    assert (found.broken, len(found.violations)) == (24, 5)
    assert found.violations[0] == f"{QUEUES[0]} holds 7000m of at most 6000m with w-6"


def line(verb: str, resource: str, value: int, **labels: str) -> str:
    fields = {"code": "200", "dry_run": "", "resource": resource, "subresource": "", "verb": verb}
    text = ",".join(f'{name}="{label}"' for name, label in {**fields, **labels}.items())
    return f"apiserver_request_total{{{text}}} {value}"


def test_only_what_others_write_is_counted_refused_or_not() -> None:
    page = "\n".join(
        [
            "# TYPE apiserver_request_total counter",
            line("APPLY", "workloads", 5, subresource="status"),
            line("PATCH", "workloads", 2, subresource="status", code="409"),
            line("POST", "events", 3, code="201"),
            line("LIST", "pods", 9),
            line("PUT", "pods", 9, dry_run="All"),
            line("PUT", "leases", 9),
            'apiserver_request_duration_seconds_count{resource="pods",verb="POST"} 9',
        ]
    )
    found = writes.parse(page)

    assert found == {"PATCH workloads/status": 7, "POST events": 3}
    assert writes.between(Counter({"POST events": 3}), found, {"PATCH workloads/status": 5}) == {
        "PATCH workloads/status": 2
    }


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param(["--repeat", "0"], "--repeat", id="no run"),
        pytest.param(["--config", "no-such-file.yaml"], "no-such-file.yaml", id="no file"),
        pytest.param(["--config", "LOAD"], "List should have at least", id="no load"),
    ],
)
def test_wrong_use_is_an_error_before_anything_starts(
    tmp_path: Path, options: list[str], want: str
) -> None:
    file = tmp_path / "load.yaml"
    file.write_text("cohorts: []")
    given = [str(file) if each == "LOAD" else each for each in options]

    done = CliRunner().invoke(app, given, env={"COLUMNS": "200"})

    assert done.exit_code == 2
    assert want in done.output
