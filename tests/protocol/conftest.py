"""The service, closed and checked after each test."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.protocol.service import Service


@pytest_asyncio.fixture
async def service() -> AsyncIterator[Service]:
    service = Service()
    async with service.http:
        yield service
    service.scene.idle()
