"""The service, closed and checked after each test."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from extender.permit import filter as filtering
from extender.permit import plans
from tests.protocol.service import Service


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no plan go on later because the machine is slow."""
    monkeypatch.setattr(plans, "PLAN_SECONDS", 60.0)
    monkeypatch.setattr(filtering, "PLAN_SECONDS", 60.0)
    monkeypatch.setattr(filtering, "TURN_SECONDS", 60.0)


@pytest_asyncio.fixture
async def service() -> AsyncIterator[Service]:
    service = Service()
    async with service.http:
        yield service
    service.scene.idle()
