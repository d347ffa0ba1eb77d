"""Commands configure the log of the whole process, on streams that end with the test."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _log() -> Iterator[None]:
    yield
    structlog.reset_defaults()
