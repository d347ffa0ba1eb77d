"""One run of a load, driven from one process: watches, requests, and the wait for the end.

aiohttp takes 0.3 ms of CPU for each request; httpx takes ten times that, which the measured ones
would lack.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp

from tests.bench import watching
from tests.bench.queue.measures import JobSeen, Seen
from tests.bench.series import Limits
from tests.harness.sessions import session

JSON = "application/json"
CONFLICT, MISSING = 409, 404
CONNECTIONS = 32
_TICK_SECONDS = 0.2


class Driver(ABC):
    """What is asked and seen in a run. A request that fails ends it."""

    def __init__(self, http: aiohttp.ClientSession, tasks: asyncio.TaskGroup) -> None:
        self.writes: Counter[str] = Counter()
        """Requests by "VERB resource", whatever came of them."""
        self.seen: list[Seen | JobSeen] = []
        """What the watches showed."""
        self.late_seconds = 0.0
        """How much later the load came than it says."""
        self.tasks = tasks
        self._http = http
        self._slots = asyncio.Semaphore(CONNECTIONS)

    @abstractmethod
    def watched(self) -> Mapping[str, tuple[type[Any], Callable[[Any], None]]]:
        """Return what is watched, by path: the type of an event, and what takes it in."""

    @abstractmethod
    def begin(self) -> None:
        """Begin to create the load; the watches show all that follows."""

    @abstractmethod
    def standing(self) -> str:
        """Return how far it is."""

    @abstractmethod
    def done(self) -> bool:
        """Return whether the run is at its end."""

    async def send(self, method: str, path: str, body: bytes, content_type: str = JSON) -> int:
        """Return the status of an answer, of one that was too late too. RuntimeError otherwise."""
        headers = {"Content-Type": content_type}
        async with (
            self._slots,
            self._http.request(method, path, data=body, headers=headers) as answer,
        ):
            if not answer.ok and answer.status not in {CONFLICT, MISSING}:
                raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
            await answer.read()
            return answer.status


Make = Callable[[aiohttp.ClientSession, asyncio.TaskGroup], Driver]


async def drive(
    kubeconfig: Path,
    make: Make,
    *,
    limits: Limits,
    say: Callable[[str], None],
    gone: Callable[[], str],
) -> tuple[Driver, str]:
    """Return the driver after its run, and "" or why its end was not waited for.

    `gone` returns which process ended before its time, if one did. Raises RuntimeError when a
    request fails.
    """
    reason, drivers = "", list[Driver]()
    # More connections, which the watches keep.
    async with session(kubeconfig, connections=CONNECTIONS + 2) as http:
        try:
            async with asyncio.TaskGroup() as tasks:
                drivers.append(make(http, tasks))
                await _run(http, drivers[0], limits, gone, say)
        except* _EndedError as group:
            reason = str(group.exceptions[0])
        except* (RuntimeError, aiohttp.ClientError) as group:
            raise RuntimeError(str(group.exceptions[0])) from group
    return drivers[0], reason


class _EndedError(Exception):
    """There is nothing more to wait for; the text says why, "" where the run was at its end."""


async def _run(
    http: aiohttp.ClientSession,
    driver: Driver,
    limits: Limits,
    gone: Callable[[], str],
    say: Callable[[str], None],
) -> None:
    """Raise _EndedError at the end of the run: that ends whatever else is under way."""
    for path, (of, take) in driver.watched().items():
        version = await watching.newest(http, path)
        driver.tasks.create_task(_follow(http, path, version, of, take))
    driver.begin()
    began = changed = time.monotonic()
    before = ""
    while not driver.done():
        await asyncio.sleep(_TICK_SECONDS)
        now, standing = time.monotonic(), driver.standing()
        if standing != before:
            before, changed = standing, now
        say(f"{standing} in {now - began:.0f} s")
        if which := gone():
            raise _EndedError(f"{which}: {standing}")
        if now - began > limits.run:
            raise _EndedError(f"ended at the limit of {limits.run:g} s: {standing}")
        if now - changed > limits.stall:
            raise _EndedError(f"stalled for {limits.stall:g} s: {standing}")
    raise _EndedError("")


async def _follow(
    http: aiohttp.ClientSession,
    path: str,
    version: str,
    of: type[Any],
    take: Callable[[Any], None],
) -> None:
    async for event in watching.events(http, path, version, of=of):
        take(event)
