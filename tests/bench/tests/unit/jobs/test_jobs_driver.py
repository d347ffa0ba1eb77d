"""When Jobs are created. Time is virtual."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.bench.jobs.driver import Driver
from tests.bench.jobs.load import Load

ANSWER_SECONDS = 0.25


class Answer:
    ok = True

    async def read(self) -> bytes:
        return b""


class Session:
    """Takes a while to store each Job, and remembers when it was asked to."""

    def __init__(self) -> None:
        self.asked: dict[str, float] = {}

    @asynccontextmanager
    async def post(self, _: str, *, data: bytes, headers: object) -> AsyncIterator[Answer]:
        del headers
        name = json.loads(data)["metadata"]["name"]
        self.asked[name] = asyncio.get_running_loop().time()
        await asyncio.sleep(ANSWER_SECONDS)
        yield Answer()


async def asked(load: Load) -> list[float]:
    """Return when each Job was created, in the order of their names."""
    session: Any = Session()
    await Driver().create(session, load)
    return [at for _, at in sorted(session.asked.items())]


@pytest.mark.looptime
async def test_so_many_jobs_are_created_each_second() -> None:
    """Also while the API server takes longer than that for one."""
    load = Load(jobs=24, pods=1, rate=6)

    assert await asked(load) == pytest.approx([number / 6 for number in range(24)], abs=1e-3)


@pytest.mark.looptime
async def test_without_a_rate_they_are_created_as_fast_as_they_are_taken() -> None:
    load = Load(jobs=40, pods=1)

    assert await asked(load) == pytest.approx(
        [ANSWER_SECONDS * turn for turn in (0, 1, 2) for _ in range(16)][:40], abs=1e-3
    )
