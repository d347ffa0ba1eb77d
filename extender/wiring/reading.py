"""Reads of single facts, many at a time; what cannot be read is a fact too."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, Final, TypeVar

import msgspec

from extender.check.facts import Unknown
from extender.kube.client import KubeClient
from extender.kube.errors import ApiError

_AT_ONCE: Final = 16
"""Requests that are under way at the same time."""

T = TypeVar("T")


class ApiReader:
    """Requests to the API server whose answers are JSON."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """Return what is at a path. Raises ApiError."""
        return await self.turn(self._read("GET", path, None))

    async def post(self, path: str, body: object) -> Any:  # noqa: ANN401 - JSON
        """Create something, and return it. Raises ApiError."""
        return await self.turn(self._read("POST", path, msgspec.json.encode(body)))

    async def delete(self, path: str) -> None:
        """Delete something. Raises ApiError."""
        await self.turn(self._read("DELETE", path, None))

    async def turn(self, asked: Awaitable[T]) -> T:
        """Return what a request returns, when not too many are under way."""
        async with self._turns:
            return await asked

    async def _read(self, method: str, path: str, body: bytes | None) -> Any:  # noqa: ANN401
        return msgspec.json.decode(await self._client.request(method, path, body=body))


async def known(asked: Awaitable[T]) -> T | Unknown:
    """Return a fact, or why it could not be had."""
    try:
        return await asked
    except (ApiError, msgspec.MsgspecError, LookupError, ValueError, OSError) as error:
        return Unknown(str(error) or type(error).__name__)


async def together(asked: Iterable[Awaitable[T]]) -> list[T]:
    """Return what each returns; raises what the first one raised, when all have ended."""

    async def outcome(each: Awaitable[T]) -> T | Exception:
        try:
            return await each
        except Exception as error:  # noqa: BLE001 - raised below
            return error

    async with asyncio.TaskGroup() as tasks:
        ended = [tasks.create_task(outcome(each)) for each in asked]
    found = []
    for each in ended:
        result = each.result()
        if isinstance(result, Exception):
            raise result
        found.append(result)
    return found
