"""A cluster whose books are checked when the test is over."""

from collections.abc import Iterator

import pytest

from extender.state.cluster.store import Cluster
from tests.recount import check_tables


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    check_tables(cluster)
