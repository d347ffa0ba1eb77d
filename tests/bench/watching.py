"""One watch of all objects of a kind, continued where the API server closed it."""

import contextlib
from collections.abc import AsyncIterator
from typing import Protocol, TypeVar

import aiohttp
import msgspec

_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class _Metadata(Protocol):
    @property
    def resource_version(self) -> str: ...


class _Kept(Protocol):
    @property
    def metadata(self) -> _Metadata: ...


class _Watched(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def object(self) -> _Kept: ...


E = TypeVar("E", bound=_Watched)


class _Version(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _List(msgspec.Struct):
    metadata: _Version


async def newest(http: aiohttp.ClientSession, path: str) -> str:
    """Return the resourceVersion from which a watch shows all that comes."""
    async with http.get(path, params={"limit": "1"}) as answer:
        answer.raise_for_status()
        return msgspec.json.decode(await answer.read(), type=_List).metadata.resource_version


async def events(
    http: aiohttp.ClientSession,
    path: str,
    version: str,
    *,
    of: type[E],
    fields: str = "",
    metadata_only: bool = False,
) -> AsyncIterator[E]:
    """Yield every event after that version, without end. RuntimeError when some are lost.

    A young API server has room for some ten events per watcher and closes the watch of one that is
    late (the bench may well wait for a core): it is then continued where it ended.
    """
    selected = {"fieldSelector": fields} if fields else {}
    headers = {"Accept": _METADATA} if metadata_only else {}
    while True:
        params = {"watch": "true", "resourceVersion": version, **selected}
        async with http.get(path, params=params, headers=headers) as answer:
            answer.raise_for_status()
            async for event in _decoded(answer, of):
                version = event.object.metadata.resource_version
                yield event


async def _decoded(answer: aiohttp.ClientResponse, of: type[E]) -> AsyncIterator[E]:
    """Yield the events of one answer until the API server closes it."""
    decoder = msgspec.json.Decoder(of)
    # Closed in the middle of the stream: what is missing is asked for.
    with contextlib.suppress(aiohttp.ClientPayloadError):
        async for line in answer.content:
            event = decoder.decode(line)
            if event.type == "ERROR":
                raise RuntimeError(f"events were lost: {line.decode()}")
            yield event
