"""A cluster whose books are checked when the test is over."""

from collections.abc import Iterator

import pytest

from extender.state.cluster.store import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.validate()
