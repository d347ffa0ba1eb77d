"""List and watch as a stream of five events, after kube-rs.

A watch sends ADDED, MODIFIED and DELETED, but it can end at any moment, and with `410 Gone` the
events in between are lost. A cache must then list again *and* drop what the list lacks. So the
stream does not expose the watch's events: it yields `Init`, one `InitApply` for each object there
is, `InitDone`, and from then on `Apply` and `Delete`; after a `410`, or too long a silence, it
starts over with `Init`. A consumer that replaces its cache at `InitDone` is right in every case.

States: empty -> listing (page by page) -> watching -> (end of stream, trouble) watching again from
the last resource version -> (410, silence, no API server) empty. Trouble is waited out with growing
pauses and never ends the stream; only the consumer does.

`pages` and `everything` read a list without a watch; `Freshness` says how long ago a
watch last heard of the API server.
"""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar
from urllib.parse import quote

import msgspec
import structlog
from msgspec import Raw

from extender.kube.client import KubeClient
from extender.kube.credentials import LOOK_SECONDS
from extender.kube.decode import DecodeError, deeply
from extender.kube.errors import (
    ApiError,
    ForbiddenError,
    GoneError,
    InvalidError,
    LargeAnswerError,
    NotFoundError,
    SilentError,
    UnavailableError,
    from_response,
)
from extender.runtime.clock import Clock, Pacer, SystemClock
from extender.runtime.faults import FAULTS, Backoff, asked_pause

PAGE_SIZE: Final = 1000
PAGE_BYTES: Final = 16 * 1024 * 1024
"""A page with more is asked for again, with fewer objects."""

WATCH_SECONDS: Final = 290
"""The server ends a watch after this; bookmarks keep the resource version fresh until then."""
IDLE_SECONDS: Final = 100.0
"""Bookmarks come about once a minute, so a longer silence says that a watch may be broken."""

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


@dataclass(slots=True)
class Freshness:
    """The time since a watch last heard something, and what has gone wrong since.

    What counts is what the API server sends: a page of a list, an event, a bookmark. A connection
    that stands and says nothing does not.
    """

    clock: Clock = field(default_factory=SystemClock)
    trouble: str = ""
    """The last error, until something comes again."""
    _heard: float = 0.0

    def __post_init__(self) -> None:
        """Count from now where nothing comes at all."""
        self._heard = self.clock.monotonic()

    def heard(self) -> None:
        """Record that something came."""
        self._heard = self.clock.monotonic()
        self.trouble = ""

    def failed(self, error: Exception) -> None:
        """Record an error."""
        self.trouble = str(error)

    @property
    def age(self) -> float:
        """Seconds since something came, or since the beginning where nothing ever did."""
        return self.clock.monotonic() - self._heard

    def stale(self, limit: float) -> str | None:
        """Return what is wrong once nothing has come for `limit` seconds, or None."""
        age = self.age
        if age <= limit:
            return None
        since = f"nothing heard for {age:.0f} s, the limit is {limit:.0f} s"
        return f"{since}: {self.trouble}" if self.trouble else since


@dataclass(frozen=True, slots=True)
class Init:
    """A list begins; what is cached stays valid until InitDone."""


@dataclass(frozen=True, slots=True)
class InitApply:
    """One object of the list, as raw JSON."""

    object: bytes


@dataclass(frozen=True, slots=True)
class InitDone:
    """The list is whole: replace the cache."""

    version: int = 0
    """The resource version of the list; 0 where whatever was known of later ones is void."""


@dataclass(frozen=True, slots=True)
class Apply:
    """An object was created or changed."""

    object: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    """An object is gone, or no longer selected."""

    object: bytes


WatchEvent = Init | InitApply | InitDone | Apply | Delete


class _Event(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: Raw


class _EventMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct, frozen=True, gc=False):
    metadata: _EventMeta = _EventMeta()


class _WatchStatus(msgspec.Struct, frozen=True, gc=False):
    code: int = 0
    message: str = ""


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_version = msgspec.json.Decoder(_Versioned).decode
_decode_status = msgspec.json.Decoder(_WatchStatus).decode


class Watcher:
    """The stream of one resource, such as `/api/v1/pods`, or of its versions: the first one served.

    It is narrowed by `selectors`: a `fieldSelector`, a `labelSelector`, or both. With `optional`,
    a resource that the server does not have counts as one without objects, and is looked for again
    every five seconds. One with versions is absent too where the client may not read it, until it
    has been listed once: later a refusal is trouble as any other, and its objects stay.
    """

    def __init__(
        self,
        client: KubeClient,
        path: str | Sequence[str],
        *,
        sleep: Callable[[float], Awaitable[None]],
        backoff: Backoff,
        selectors: Mapping[str, str] | None = None,
        optional: bool = False,
    ) -> None:
        self._client = client
        self._versions = (path,) if isinstance(path, str) else tuple(path)
        self._path = self._versions[0]
        self._misses = 0
        """The number of versions that were not there, one after the other."""
        self._has_listed = False
        """True if there was a list since the resource was absent."""
        self.is_absent = False
        """True if it counts as a resource without objects."""
        self.forbidden = ""
        """The refusal, where it is absent because the client may not read it."""
        self._sleep = sleep
        self._backoff = backoff
        self._optional = optional
        given = (selectors or {}).items()
        self._selector = "".join(f"&{name}={quote(text)}" for name, text in given if text)
        self._version = ""
        """The version from which the watch goes on; none if it has to list first."""
        self._highest = 0
        """The highest version before the last list."""
        self.freshness = Freshness()

    @property
    def served(self) -> str:
        """The path of the version that it has listed; empty where the server has none."""
        return self._path if self._has_listed and not self.is_absent else ""

    async def events(self) -> AsyncIterator[WatchEvent]:
        """Yield events forever; errors are logged and retried."""
        while True:
            try:
                async for event in self._once():
                    yield event
            except (NotFoundError, ForbiddenError) as error:
                refused = str(error) if isinstance(error, ForbiddenError) else ""
                several = len(self._versions) > 1 and not self._has_listed
                if not self._optional or (refused and not several):
                    await self._interrupted(error)
                    continue
                self._go_on_from("")
                known, self._misses = len(self._versions), self._misses + 1
                self._path = self._versions[(self._versions.index(self._path) + 1) % known]
                if self._misses == known and self._has_listed:
                    # A server that has just started may not serve it for a moment.
                    await self._sleep(self._backoff.next())
                if self._misses < known + self._has_listed:
                    continue  # each version is looked for, and what was served once more
                if refused and not self.forbidden:
                    _log.warning("may not be read, so it counts as absent", error=refused)
                self.forbidden, self.is_absent = refused, True
                self._misses, self._has_listed, self._path = 0, False, self._versions[0]
                self.freshness.heard()
                yield Init()
                yield InitDone()
                await self._sleep(LOOK_SECONDS)
            except (GoneError, InvalidError, SilentError) as error:
                # Invalid is a version that this server cannot read: it is another one's. Silent is
                # a watch that is broken, or one of a kind that never changed since the server
                # began: without etcd's progress notices it sends no bookmarks for it either.
                _log.info("watch starts over with a list", path=self._path, error=str(error))
                self.freshness.failed(error)
                self._go_on_from("")
                await self._sleep(self._backoff.next())
            except ApiError as error:
                await self._interrupted(error)

    async def _interrupted(self, error: ApiError) -> None:
        self.freshness.failed(error)
        if getattr(error, "is_unsent", False):
            # It may come back with an older store, whose watches send nothing until it has gone
            # past our version: what is not in it any more would be kept forever.
            self._go_on_from("")
        pause = max(self._backoff.next(), asked_pause(error))
        _log.warning(
            "watch interrupted", path=self._path, error=str(error), retry_in=round(pause, 2)
        )
        await self._sleep(pause)

    def _go_on_from(self, version: str) -> None:
        self._highest = max(self._highest, _number(self._version))
        self._version = version

    async def _once(self) -> AsyncIterator[WatchEvent]:
        if not self._version:
            async for event in self._list():
                yield event
        async for event in self._watch():
            yield event
        # The server ends every watch some time; one that does so at once is not hammered.
        await self._sleep(self._backoff.base)

    async def _list(self) -> AsyncIterator[WatchEvent]:
        yield Init()
        version = ""
        async for page in pages(self._client, self._path, self._selector):
            self.freshness.heard()
            for item in page.items or ():
                yield InitApply(bytes(item))
            version = page.metadata.resource_version
        self._go_on_from(version)
        self._backoff.reset()
        self._misses, self._has_listed = 0, True
        self.is_absent, self.forbidden = False, ""
        number, highest = _number(version), self._highest
        if number < highest:
            _log.warning("the store was set back", path=self._path, version=number, was=highest)
        self._highest = number
        yield InitDone(number if number >= highest else 0)

    async def _watch(self) -> AsyncIterator[WatchEvent]:
        query = (
            f"?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}"
            f"&resourceVersion={self._version}{self._selector}"
        )
        async with self._client.stream(self._path + query, idle_seconds=IDLE_SECONDS) as chunks:
            async for line in _lines(chunks):
                event = self._event(line)
                if event is not None:
                    self._backoff.reset()
                    yield event

    def _event(self, line: bytes) -> WatchEvent | None:
        raw = decoded(_decode_event, line)
        if raw.type == "ERROR":
            status = decoded(_decode_status, raw.object)
            self._go_on_from("")  # whatever it is: it may be about the version
            raise from_response(status.code, bytes(raw.object), doing=f"WATCH {self._path}")
        self._version = decoded(_decode_version, raw.object).metadata.resource_version
        self.freshness.heard()
        match raw.type:
            case "ADDED" | "MODIFIED":
                return Apply(bytes(raw.object))
            case "DELETED":
                return Delete(bytes(raw.object))
            case _:  # BOOKMARK: only the version counts
                return None


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
