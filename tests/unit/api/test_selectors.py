"""What labels meet which requirements."""

import pytest

from extender.api.core_v1 import LabelSelector, Requirement, matches, matches_selector

WANT_MATCH: dict[str, tuple[Requirement, bool, bool]] = {
    "In, one of the values": (Requirement("k", "In", ["5", "6"]), True, False),
    "In, none of the values": (Requirement("k", "In", ["6"]), False, False),
    "In, no values": (Requirement("k", "In"), False, False),
    "NotIn, one of the values": (Requirement("k", "NotIn", ["5"]), False, True),
    "NotIn, none of the values": (Requirement("k", "NotIn", ["6"]), True, True),
    "Exists": (Requirement("k", "Exists"), True, False),
    "DoesNotExist": (Requirement("k", "DoesNotExist"), False, True),
    "Gt, larger": (Requirement("k", "Gt", ["4"]), True, False),
    "Gt, equal": (Requirement("k", "Gt", ["5"]), False, False),
    "Gt, compared as numbers": (Requirement("k", "Gt", ["10"]), False, False),
    "Lt, smaller": (Requirement("k", "Lt", ["10"]), True, False),
    "Lt, equal": (Requirement("k", "Lt", ["5"]), False, False),
    "Gt, a word": (Requirement("k", "Gt", ["many"]), False, False),
    "Lt, no values": (Requirement("k", "Lt"), False, False),
    "an operator of the future": (Requirement("k", "Resembles", ["5"]), False, False),
}


@pytest.mark.parametrize(
    ("requirement", "want", "want_absent"), WANT_MATCH.values(), ids=WANT_MATCH
)
def test_matches_a_label_of_5_and_none(
    requirement: Requirement, want: bool, want_absent: bool
) -> None:
    assert matches(requirement, {"k": "5"}) is want
    assert matches(requirement, {"other": "5"}) is want_absent


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_a_label_that_is_no_number_compares_with_nothing(operator: str) -> None:
    assert not matches(Requirement("k", operator, ["5"]), {"k": "five"})


WANT_SELECTED: dict[str, tuple[LabelSelector | None, bool]] = {
    "no selector": (None, False),
    "an empty selector": (LabelSelector(), True),
    "the label": (LabelSelector({"team": "a"}), True),
    "another value": (LabelSelector({"team": "b"}), False),
    "an expression": (LabelSelector(None, [Requirement("team", "Exists")]), True),
    "a label and an expression that fails": (
        LabelSelector({"team": "a"}, [Requirement("team", "NotIn", ["a"])]),
        False,
    ),
}


@pytest.mark.parametrize(("selector", "want"), WANT_SELECTED.values(), ids=WANT_SELECTED)
def test_selects_team_a(selector: LabelSelector | None, want: bool) -> None:
    assert matches_selector(selector, {"team": "a"}) is want
