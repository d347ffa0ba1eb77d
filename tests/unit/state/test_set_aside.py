"""What is set aside by node is what groups have."""

import pytest

from extender.state.claims import Claim, Grant
from extender.state.set_aside import SetAside
from tests.makers import node, requests

ROOMS = {"n0": requests(1), "n1": requests(2)}


@pytest.fixture
def aside() -> SetAside:
    """Two claims and two grants, which share a node."""
    aside = SetAside()
    aside.claim((Claim("old", 0, {"n9": requests(1)}),))
    aside.claim((Claim("a", 5, ROOMS), Claim("b", 0, {"n1": requests(1)})))
    aside.grant("c", Grant(ROOMS, 9.0))
    aside.grant("d", Grant({"n1": requests(1)}, 9.0))
    return aside


def free(aside: SetAside, *, least: int = 0, group: str | None = None) -> list[int]:
    """Return what is left of eight CPUs of `n1` beside claims, and beside grants."""
    left = [requests(8), requests(8)]
    aside.subtract_claims(left[0], "n1", least=least, group=group)
    aside.subtract_grants(left[1], node("n1", 8), group=group)
    return [each["cpu"] // 1000 for each in left]


def test_what_others_have_is_taken_off(aside: SetAside) -> None:
    assert free(aside) == [5, 5]
    assert free(aside, least=5) == [6, 5]
    assert free(aside, group="a") == [7, 5]
    assert free(aside, group="c") == [5, 7]


def test_new_claims_replace_those_before(aside: SetAside) -> None:
    aside.validate()
    assert aside.claims.keys() == {"a", "b"}
    assert aside.claimed.keys() == {"n0", "n1"}


def test_what_ends_leaves_the_others(aside: SetAside) -> None:
    assert aside.end_claim("a")
    assert aside.end_grant("c")
    assert not aside.end_claim("a")
    assert not aside.end_grant("c")
    aside.validate()
    assert aside.claimed.keys() == aside.granted.keys() == {"n1"}
    assert free(aside) == [7, 7]


@pytest.mark.parametrize("table", ["claims", "claimed", "grants", "granted"])
def test_validate_finds_what_is_missing(aside: SetAside, table: str) -> None:
    del getattr(aside, table)[next(iter(getattr(aside, table)))]
    with pytest.raises(AssertionError):
        aside.validate()
