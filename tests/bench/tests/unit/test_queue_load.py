"""A load says what it is made of, and a bad file what is wrong with it."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.bench.queue import load as loads
from tests.bench.queue.load import LoadError
from tests.bench.tests.unit.queue_makers import document


def test_the_default_is_fifteen_thousand_workloads_in_thirty_queues() -> None:
    load = loads.read(loads.BASELINE)

    queues = list(load.queues())
    assert (load.workloads, len(queues), load.nominal) == (15_000, 30, 600_000)
    assert len({queue.name for queue in queues}) == 30
    assert {queue.cohort for queue in queues} == {f"cohort-{number}" for number in range(5)}
    assert {queue.limit for queue in queues} == {120_000}
    assert {queue.count for queue in queues} == {500}
    asked = [
        (kind.class_name, stream.count, stream.creation_interval_ms, kind.request, kind.runtime_ms)
        for stream in queues[0].settings.workloads_sets
        for kind in stream.workloads
    ]
    assert asked == [
        ("small", 350, 100, 1000, 200),
        ("medium", 100, 500, 5000, 500),
        ("large", 50, 1200, 20_000, 1000),
    ]
    assert {name: kind.priority for name, kind in load.classes().items()} == {
        "small": 50,
        "medium": 100,
        "large": 200,
    }
    assert load.planned_seconds == pytest.approx(58.8)


def test_the_small_one_is_a_few_dozen_in_seconds() -> None:
    load = loads.read(loads.SMALL)

    assert 20 <= load.workloads <= 100
    assert load.planned_seconds < 2


def test_quantities_are_written_as_kubernetes_does() -> None:
    load = loads.parse(document(nominalQuota="4500m", borrowingLimit="0.5"))

    queue = next(load.queues())
    assert (queue.settings.nominal_quota, queue.limit) == (4500, 5000)


def test_without_a_borrowing_limit_the_cohort_alone_limits() -> None:
    (first, _) = loads.parse(document(borrowingLimit=None)).queues()

    assert first.limit is None


_QUEUES = ("cohorts", 0, "queuesSets", 0)
_SMALL = (*_QUEUES, "workloadsSets", 0, "workloads", 0)


@pytest.mark.parametrize(
    ("where", "value", "want"),
    [
        pytest.param(
            (*_QUEUES, "count"),
            0,
            "cohorts[0].queuesSets[0].count: Input should be greater than or equal to 1",
            id="no queue",
        ),
        pytest.param(
            (*_QUEUES, "nominalQuota"),
            "4 cores",
            "cohorts[0].queuesSets[0].nominalQuota: '4 cores' is not a quantity",
            id="no quantity",
        ),
        pytest.param(
            (*_QUEUES, "nominalQuota"),
            None,
            "cohorts[0].queuesSets[0].nominalQuota: not a quantity of CPU",
            id="nothing for a quantity",
        ),
        pytest.param(
            (*_SMALL, "runtime"),
            5,
            "cohorts[0].queuesSets[0].workloadsSets[0].workloads[0].runtime: Extra inputs",
            id="a word that means nothing",
        ),
        pytest.param(
            (*_SMALL, "runtimeMs"),
            -1,
            "workloads[0].runtimeMs: Input should be greater than or equal to 0",
            id="a time before it began",
        ),
        pytest.param(
            (*_SMALL, "className"),
            "Small",
            "workloads[0].className: String should match pattern",
            id="no name of an object",
        ),
        pytest.param(
            (*_SMALL, "className"),
            "large",
            "the file: two different classes are called large",
            id="one name for two",
        ),
        pytest.param(
            (*_SMALL, "request"),
            7,
            "cohorts[0]: small requests 7000m of CPU, a queue of queue never has more than 6000m",
            id="what never fits",
        ),
        pytest.param(
            (*_QUEUES, "workloadsSets"),
            [],
            "the file: 0 Workloads, not between 1 and 100000",
            id="nothing to do",
        ),
        pytest.param(
            (*_QUEUES, "reclaimWithinCohort"),
            "Sometimes",
            "queuesSets[0].reclaimWithinCohort: Input should be 'Never', 'LowerPriority' or 'Any'",
            id="no policy",
        ),
        pytest.param(("cohorts",), [], "cohorts: List should have at least 1 item", id="empty"),
    ],
)
def test_a_fault_is_named_with_its_place(where: tuple[Any, ...], value: object, want: str) -> None:
    changed = deepcopy(document())
    place: Any = changed
    for step in where[:-1]:
        place = place[step]
    place[where[-1]] = value

    with pytest.raises(LoadError) as caught:
        loads.parse(changed)

    assert want in str(caught.value)


def test_queues_of_one_name_are_refused() -> None:
    twice = document()
    twice["cohorts"] *= 2

    with pytest.raises(LoadError, match="two queues would have the same name"):
        loads.parse(twice)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a: [", "not YAML", id="broken"),
        pytest.param("", "the file: Input should be", id="empty"),
    ],
)
def test_a_file_that_is_no_document_is_an_error(tmp_path: Path, text: str, want: str) -> None:
    file = tmp_path / "load.yaml"
    file.write_text(text)

    with pytest.raises(LoadError, match=want):
        loads.read(file)
