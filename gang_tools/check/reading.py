"""Reads JSON from the API server, many paths at a time."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, Final, TypeVar

import msgspec

from extender.kube.client import KubeClient
from extender.kube.errors import ApiError, NotFoundError

UNREADABLE: Final = (ApiError, msgspec.MsgspecError, LookupError, ValueError, OSError)
"""The errors of something that cannot be read; each costs the findings about it alone."""

T = TypeVar("T")


class ApiReader:
    """Requests to the API server whose answers are JSON; all raise ApiError."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """Return what is at a path."""
        return msgspec.json.decode(await self._client.request("GET", path))

    async def find(self, path: str) -> dict[str, Any] | None:
        """Return the object at a path, None where there is none."""
        try:
            found: dict[str, Any] = await self.get(path)
        except NotFoundError:
            return None
        return found

    async def items(self, path: str) -> list[dict[str, Any]]:
        """Return the objects at a path, none where the API server does not know the kind."""
        found = await self.find(path) or {}
        return [*found.get("items", ())]

    async def post(self, path: str, body: object) -> None:
        """Create something."""
        await self._client.request("POST", path, body=msgspec.json.encode(body))

    async def delete(self, path: str) -> None:
        """Delete something."""
        await self._client.request("DELETE", path)


async def together(asked: Iterable[Awaitable[T]]) -> list[T]:
    """Return what each returns, or raise what the first one raises, when all have ended.

    None is cancelled: a request that is cancelled may leave its connection open.
    """

    async def outcome(each: Awaitable[T]) -> T | Exception:
        try:
            return await each
        except Exception as error:  # noqa: BLE001 - raised below
            return error

    async with asyncio.TaskGroup() as tasks:
        ended = [tasks.create_task(outcome(each)) for each in asked]
    found = []
    for task in ended:
        result = task.result()
        if isinstance(result, Exception):
            raise result
        found.append(result)
    return found
