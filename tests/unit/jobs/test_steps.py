"""The difference of two objects as a merge patch."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.jobs.job import merge_patch, replaces_list
from tests.unit.jobs.scene import merged

SCALARS = st.sampled_from(["a", 1, True, ""])
NAMES = st.sampled_from(["x", "y", "z"])
VALUES = st.recursive(
    SCALARS | st.lists(SCALARS, max_size=2),
    lambda inner: st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=3)


@settings(max_examples=200, deadline=None)
@given(OBJECTS, OBJECTS)
def test_a_patch_makes_the_one_of_the_other(before: Any, after: Any) -> None:
    assert merged(before, merge_patch(before, after)) == after


@settings(max_examples=50, deadline=None)
@given(OBJECTS)
def test_equal_objects_differ_in_nothing(same: Any) -> None:
    assert merge_patch(same, dict(same)) == {}


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
        ({"a": {"b": 1}}, {"a": None}, {"a": None}),
        ({"a": None}, {}, {}),
        ({}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({"a": 1}, {"a": {}}, {"a": {}}),
    ],
)
def test_a_patch_says_no_more_than_it_has_to(before: Any, after: Any, want: Any) -> None:
    assert merge_patch(before, after) == want


@pytest.mark.parametrize(
    ("patch", "want"), [({"a": {"b": [1]}}, True), ({"a": {"b": 1}}, False), ({}, False)]
)
def test_a_list_is_replaced_as_a_whole(patch: Any, want: bool) -> None:
    assert replaces_list(patch) is want
