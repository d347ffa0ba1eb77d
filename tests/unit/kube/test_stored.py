"""Domains of pods as Kueue stores them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.kube.stored import (
    assignment_as_json,
    assignments_as_annotation,
    read_assignment,
    read_assignments,
)
from extender.state.cluster.records import DomainAssignment

LEVELS = ("block", "rack")
ASSIGNMENTS = st.integers(1, 3).flatmap(
    lambda depth: st.lists(
        st.tuples(st.tuples(*[st.text("ab-1", min_size=1, max_size=6)] * depth), st.integers(1, 9)),
        min_size=1,
        max_size=6,
    ).map(lambda found: DomainAssignment(tuple("abc"[:depth]), tuple(found)))
)


def test_what_domains_have_in_common_is_written_once() -> None:
    domains = ((("b", "rack-1-x"), 2), (("b", "rack-12-x"), 2))
    assert assignment_as_json(DomainAssignment(LEVELS, domains)) == {
        "levels": ["block", "rack"],
        "slices": [
            {
                "domainCount": 2,
                "valuesPerLevel": [
                    {"universal": "b"},
                    {"individual": {"prefix": "rack-1", "suffix": "-x", "roots": ["", "2"]}},
                ],
                "podCounts": {"universal": 2},
            }
        ],
    }


@given(ASSIGNMENTS)
def test_what_is_written_is_read(found: DomainAssignment) -> None:
    assert read_assignment(msgspec.json.encode(assignment_as_json(found))) == found
    assert read_assignments(assignments_as_annotation({"main": found})) == {"main": found}


@pytest.mark.parametrize(
    "slices",
    [
        [{"domainCount": 1, "valuesPerLevel": [], "podCounts": {"universal": 1}}],
        [{"domainCount": 2, "valuesPerLevel": [{"universal": "a"}], "podCounts": {}}],
        [
            {
                "domainCount": 2,
                "valuesPerLevel": [{"individual": {"roots": ["a"]}}],
                "podCounts": {"universal": 1},
            }
        ],
        [
            {
                "domainCount": 60_000,
                "valuesPerLevel": [{"universal": "a"}],
                "podCounts": {"universal": 1},
            }
        ]
        * 2,
        [
            {
                "domainCount": 1,
                "valuesPerLevel": [{"universal": "a"}],
                "podCounts": {"universal": 10**9},
            }
        ],
    ],
    ids=["no values", "no counts", "too few values", "too many domains", "too many pods"],
)
def test_contradictions_are_no_assignment(slices: list[Any]) -> None:
    said = {"levels": ["l"], "slices": slices}
    with pytest.raises(ValueError, match=r"slice|domain|argument"):
        read_assignment(msgspec.json.encode(said))
    assert read_assignments(msgspec.json.encode({"main": said}).decode()) == {}


def test_there_may_be_none() -> None:
    assert read_assignment(b"") is None
    assert read_assignments(None) == read_assignments("{") == read_assignments("[]") == {}
