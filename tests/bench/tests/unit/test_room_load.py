"""What a load may be."""

from typing import Any

import pytest

from tests.bench.queue.load import LoadError
from tests.bench.room import load as loads
from tests.bench.tests.unit.test_room import document, load


@pytest.mark.parametrize("file", [loads.FRAGMENTED, loads.IN_TURN, loads.TWO_QUEUES, loads.SMALL])
def test_the_loads_that_are_there_have_more_quota_than_room_for_the_wide(file: Any) -> None:
    found = loads.read(file)
    wide = found.kind("wide")

    places = sum(each.count * (each.free // wide.cpu) for each in found.nodes)
    assert found.quota_of(wide) // wide.request > places // wide.pods


def test_what_is_free() -> None:
    found = load()

    assert found.free == 12_000
    assert (found.kind("wide").request, found.kind("wide").runtime) == (8000, 3.0)


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({"quota": 7}, "wide asks for more than the quota", id="quota"),
        pytest.param(
            {"nodes": [{"className": "half", "count": 9, "cpu": 4, "used": 2}]},
            "wide has 2 pods, and there are 0 places",
            id="room",
        ),
        pytest.param(
            {"nodes": [{"className": "full", "count": 1, "cpu": 4, "used": 5}]},
            "5000m of 4000m cannot be used",
            id="used",
        ),
        pytest.param({"windowSeconds": 0}, "windowSeconds", id="window"),
        pytest.param({"quota": None}, "of every class, or of all together", id="no quota"),
        pytest.param({"waiting": 3}, "of every class, or of all together", id="waiting twice"),
        pytest.param({"classes": []}, "classes", id="no class"),
    ],
)
def test_loads_that_mean_nothing_are_errors(changes: dict[str, Any], want: str) -> None:
    with pytest.raises(LoadError, match=want):
        loads.parse(document(**changes))


def test_two_classes_of_one_name() -> None:
    each = document()["classes"][0]

    with pytest.raises(LoadError, match="the same name"):
        loads.parse(document(classes=[each, each]))
