"""A cluster whose books are checked when the test is over."""

from collections.abc import Iterator

import pytest

from extender.permit import ahead, plans
from extender.permit import filter as filtering
from extender.runtime.clock import advance
from extender.state.cluster.store import Cluster
from tests.recount import check_tables


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no plan go on later because the machine is slow, whatever clock it has."""
    monkeypatch.setattr(ahead, "SLICE_SECONDS", 60.0)
    monkeypatch.setattr(plans, "PLAN_SECONDS", 60.0)
    monkeypatch.setattr(filtering, "PLAN_SECONDS", 60.0)
    monkeypatch.setattr(filtering, "TURN_SECONDS", 60.0)


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each piece of a group that begins take a turn of the event loop of its own."""
    monkeypatch.setattr(
        ahead, "advance", lambda steps, clock, **_: advance(steps, clock, seconds=0.0)
    )


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    check_tables(cluster)
