"""The Events `Scheduled`: when the last one was written, and how many there are.

kube-scheduler, and whatever else binds, writes them behind its back and at a rate of its own, so
they cost CPU after the last pod has its node.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

from tests.bench.load import NAMESPACE
from tests.harness.sessions import session

_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/events"
_FIELDS: Final = "reason=Scheduled"
_PAGE: Final = 1000
QUIET_SECONDS: Final = 4.0
"""Without one more Event after which no more come: some are written late on purpose."""
LONG_QUIET_SECONDS: Final = 15.0
"""The same where pods have none yet: kube-scheduler may be about to bind them, and then is waited
for."""
MOST_LATE_SECONDS: Final = 150.0
"""After so long it is waited no more, whatever comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was written of these Events."""

    count: int
    repeated: int
    """Pods with more than one."""
    ended: float
    """Monotonic time of the last one that came after this was asked, or of the question."""
    in_time: bool
    """Whether they came to an end before it was waited no longer."""


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    next: str = msgspec.field(default="", name="continue")


class _About(msgspec.Struct):
    uid: str = ""


class _Event(msgspec.Struct, rename="camel"):
    involved_object: _About


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[_Event]


def await_written(kubeconfig: Path, pods: int) -> Written:
    """Return what was written about so many pods, once no more Events come."""
    return asyncio.run(_await_written(kubeconfig, pods))


async def _await_written(kubeconfig: Path, pods: int) -> Written:
    began = time.monotonic()
    async with session(kubeconfig, connections=2) as http:
        version = (await _page(http, limit=1)).metadata.resource_version
        params = {"watch": "true", "fieldSelector": _FIELDS, "resourceVersion": version}
        async with http.get(_PATH, params=params) as answer:
            answer.raise_for_status()
            last = await _last(answer, QUIET_SECONDS, began)
            found = await _by_pod(http)
            if len(found) < pods:
                last = await _last(answer, LONG_QUIET_SECONDS, last)
                found = await _by_pod(http)
    # Quiet, and not closed by the API server, which closes the watch of one that is late.
    return Written(
        count=found.total(),
        repeated=sum(count > 1 for count in found.values()),
        ended=last,
        in_time=time.monotonic() - last >= QUIET_SECONDS,
    )


async def _last(answer: aiohttp.ClientResponse, quiet: float, last: float) -> float:
    """Return when the last Event came before none came for so long; `last` without any."""
    until = time.monotonic() + MOST_LATE_SECONDS
    while await _next(answer, quiet) and time.monotonic() < until:
        last = time.monotonic()
    return last


async def _next(answer: aiohttp.ClientResponse, quiet: float) -> bytes:
    """Return the next event; nothing where none comes for so long."""
    try:
        async with asyncio.timeout(quiet):
            return await answer.content.readline()
    except (TimeoutError, aiohttp.ClientPayloadError):
        return b""


async def _by_pod(http: aiohttp.ClientSession) -> Counter[str]:
    """Return how many Events there are, by the UID of the pod."""
    return Counter([event.involved_object.uid async for event in _all(http)])


async def _all(http: aiohttp.ClientSession) -> AsyncIterator[_Event]:
    token = ""
    while True:
        page = await _page(http, limit=_PAGE, token=token)
        for event in page.items:
            yield event
        token = page.metadata.next
        if not token:
            return


async def _page(http: aiohttp.ClientSession, *, limit: int, token: str = "") -> _List:
    params = {"fieldSelector": _FIELDS, "limit": str(limit)}
    if token:
        params["continue"] = token
    async with http.get(_PATH, params=params) as answer:
        answer.raise_for_status()
        return msgspec.json.decode(await answer.read(), type=_List)
