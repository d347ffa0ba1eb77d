"""Lists, page by page."""

import sys
from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol, TypeVar
from urllib.parse import quote

import msgspec
import structlog
from msgspec import Raw

from extender.kube.decode import DecodeError, deeply
from extender.kube.errors import LargeAnswerError, UnavailableError
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import Pacer

PAGE_SIZE: Final = 1000
PAGE_BYTES: Final = 16 * 1024 * 1024
"""A page with more is asked for again, with fewer objects."""

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Reader(Protocol):
    """A KubeClient, or a snapshot, which answers the same requests from a file."""

    async def request(self, method: str, path: str, *, most: int = sys.maxsize) -> bytes:
        """Return what is at a path. Raises ApiError."""


class _ListMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, frozen=True, gc=False):
    """Some of the objects of a resource, as raw JSON."""

    metadata: _ListMeta
    items: list[Raw] | None = None


_decode_page = msgspec.json.Decoder(Page).decode


async def pages(client: Reader, path: str, selector: str = "") -> AsyncIterator[Page]:
    """Yield all objects; `selector` is more of the query, from an `&` on. Raises ApiError."""
    token, size = "", PAGE_SIZE
    while True:
        query = f"?limit={size}{selector}"
        if token:
            query += f"&continue={quote(token)}"
        try:
            most = PAGE_BYTES if size > 1 else sys.maxsize
            answer = await client.request("GET", path + query, most=most)
        except LargeAnswerError:
            size = max(1, size // 8)
            continue
        size = min(PAGE_SIZE, 2 * size)
        page = decoded(_decode_page, answer)
        yield page
        token = page.metadata.continue_token
        if not token:
            return


async def everything(
    client: Reader,
    path: str,
    decode: Callable[[bytes], T],
    *,
    selector: str = "",
    pacer: Pacer | None = None,
) -> list[T]:
    """Return all objects of a resource that can be read, decoded with rests. Raises ApiError."""
    found: list[T] = []
    async for page in pages(client, path, selector):
        for item in page.items or ():
            try:
                found.append(decode(bytes(item)))
            except DecodeError as error:
                _log.warning("object ignored", path=path, error=str(error))
            except Exception as error:  # noqa: BLE001 - a bug, which costs this one object
                FAULTS.report("decode", error, key=path)
            if pacer is not None and pacer.is_due:
                await pacer.rest()
    return found


def decoded(decode: Callable[[bytes | Raw], T], raw: bytes | Raw) -> T:
    """Return what the API server sent; raises UnavailableError for what cannot be read.

    One object that is nested deeply must not make the page unreadable in which it comes.
    """
    try:
        return deeply(decode, raw)
    except RecursionError as error:
        raise UnavailableError("the API server sent something nested too deeply") from error
    except msgspec.MsgspecError as error:
        raise UnavailableError(f"the API server sent something unreadable: {error}") from error
