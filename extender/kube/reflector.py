"""Keeps one kind of the state in step with the API server, and sets aside what cannot be read.

A list of a hundred thousand objects is decoded and taken in with rests between them: kube-scheduler
waits for the event loop. Nothing of a list counts before it is complete, and nothing else of the
kind arrives in between, because one task reads the list and the watch that follows it.

An object that cannot be read is set aside alone, and everything else goes on. What is believed of
it is what its last readable version said, until it is deleted or can be read again. So a pod that
has a node keeps its room there.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
import structlog
from msgspec import Raw

from extender.kube.decode import DecodeError, deeply, readable
from extender.kube.watch import Apply, Delete, Freshness, Init, InitApply, InitDone, Watcher
from extender.runtime.clock import Pacer
from extender.runtime.faults import FAULTS

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class _IdentityMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: _IdentityMeta = _IdentityMeta()


@dataclass(frozen=True, slots=True)
class Identity:
    """Names one object, and one version of it."""

    name: str
    namespace: str = ""
    uid: str = ""
    version: str = ""
    api_version: str = ""
    kind: str = ""
    """Objects out of a list of a built-in kind do not say these two."""

    @property
    def key(self) -> str:
        """`namespace/name`, or the name of what has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


_decode = readable("object")(msgspec.json.Decoder(_Object).decode)


def identify(raw: bytes | Raw) -> Identity:
    """Return which object it is. Raises DecodeError where not even that can be read."""
    found = deeply(_decode, raw)
    meta = found.metadata
    if not meta.name and not meta.uid:
        raise DecodeError("an object without a name and a UID")
    said = found.api_version, found.kind
    return Identity(meta.name, meta.namespace, meta.uid, meta.resource_version, *said)


@dataclass(frozen=True, slots=True)
class Aside:
    """One object that cannot be read, or not decided about, and why."""

    kind: str
    """The name of its reflector, such as `pods`."""
    object: Identity
    why: str


class ObjectsSetAside:
    """The objects that are set aside now. Listeners get each version once; it is logged once."""

    def __init__(self) -> None:
        self._there: dict[tuple[str, str], Aside] = {}
        self._listeners: list[Callable[[Aside], None]] = []

    def __iter__(self) -> Iterator[Aside]:
        """Return all objects that are set aside."""
        return iter(list(self._there.values()))

    def subscribe(self, listener: Callable[[Aside], None]) -> None:
        """Call a function for each object that is set aside from now on."""
        self._listeners.append(listener)

    def counts(self) -> Counter[str]:
        """Return how many objects are set aside, by kind."""
        return Counter(kind for kind, _ in self._there)

    def has(self, kind: str) -> bool:
        """Return whether objects of a kind are set aside."""
        return bool(self._there) and any(of == kind for of, _ in self._there)

    def put(self, kind: str, which: Identity, why: str) -> None:
        """Set a version of an object aside."""
        before = self._there.get((kind, which.key))
        now = self._there[kind, which.key] = Aside(kind, which, why)
        if before is not None and before.object == which and before.why == why:
            return
        _log.warning(
            "object set aside", kind=kind, object=which.key, version=which.version, error=why
        )
        for listener in self._listeners:
            listener(now)

    def drop(self, kind: str, key: str) -> None:
        """Forget an object that can be read again, or is gone."""
        self._there.pop((kind, key), None)

    def keep(self, kind: str, keys: Collection[str]) -> None:
        """Forget those of a kind that a list does not have any more."""
        for known in [key for of, key in self._there if of == kind and key not in keys]:
            self.drop(kind, known)


@dataclass(frozen=True, slots=True)
class Feed(Generic[T]):
    """The functions that bring decoded objects into a state, and say what the state has of them."""

    listed: Callable[[Sequence[T], int], Iterator[object]]
    """Returns the steps in which it takes in all objects that a list of a version has."""
    applied: Callable[[T], object]
    deleted: Callable[[T], object]
    known: Callable[[Identity], T | None] = lambda _: None
    """Returns the last version of an object that could be read."""


class Reflector(Generic[T]):
    """Feeds the decoded objects of one watch to a state."""

    def __init__(
        self, kind: str, watcher: Watcher, decode: Callable[[bytes], T], *, feed: Feed[T]
    ) -> None:
        self.kind = kind
        self.first_list = asyncio.Event()
        """Set when the first list has been taken in whole."""
        self.needed = True
        """True if nothing can be decided without it."""
        self.aside = ObjectsSetAside()
        """The objects that cannot be read."""
        self._listing: list[T] = []
        self._unread: set[str] = set()
        """Keys of the objects of a list that cannot be read."""
        self._watcher = watcher
        self._decode_raw = decode
        self.feed = feed
        self.on_list: Callable[[], object] = lambda: None
        """Called before a list is asked for."""

    @property
    def synced(self) -> bool:
        """True if all objects have been seen once."""
        return self.first_list.is_set()

    @property
    def freshness(self) -> Freshness:
        """The time since the API server was last heard of."""
        return self._watcher.freshness

    @property
    def forbidden(self) -> str:
        """The refusal, where the kind counts as absent because it may not be read."""
        return self._watcher.forbidden

    async def run(self, pacer: Pacer) -> None:
        """Follow the watch until cancelled, and rest when the pacer says so."""
        async for event in self._watcher.events():
            if isinstance(event, InitDone):
                await self._take(event.version, pacer)
            else:
                self._handle(event)
            if pacer.is_due:
                await pacer.rest()

    async def _take(self, version: int, pacer: Pacer) -> None:
        """Replace the state by a whole list."""
        listing, self._listing = self._listing, []
        try:
            await pacer.go_through(self.feed.listed(listing, version))
        except Exception as error:  # noqa: BLE001 - a bug, which costs one object and no more
            FAULTS.report("state", error, key=self.kind)
            for each in listing:
                self._report(self.feed.applied, [each])
                if pacer.is_due:
                    await pacer.rest()
        if listing or not self.synced:
            _log.info("listed", kind=self.kind, objects=len(listing))
        self.aside.keep(self.kind, self._unread)
        self.first_list.set()

    def _handle(self, event: Init | InitApply | Apply | Delete) -> None:
        match event:
            case Init():
                self.on_list()
                self._listing, self._unread = [], set()
            case InitApply(raw):
                # One that cannot be read is there all the same: the list must not delete it.
                self._listing.extend(self._decode(raw) or self._last_read(raw))
            case Apply(raw):
                self._report(self.feed.applied, self._decode(raw))
            case Delete(raw):
                self._report(self.feed.deleted, self._decode(raw) or self._last_read(raw))
                self._forget(raw)

    def _decode(self, raw: bytes) -> list[T]:
        """Return the object, or nothing where it cannot be read: then it is set aside alone."""
        try:
            found = self._decode_raw(raw)
        except DecodeError as error:
            self._put_aside(raw, str(error))
            return []
        except Exception as error:  # noqa: BLE001 - a bug, which costs this one object
            FAULTS.report("decode", error, key=self.kind)
            self._put_aside(raw, repr(error))
            return []
        odd = getattr(found, "unreadable", "")  # what was read of it is all that can be
        if odd:
            self._put_aside(raw, odd)
        else:
            self._forget(raw)
        return [found]

    def _put_aside(self, raw: bytes, why: str) -> None:
        try:
            which = identify(raw)
        except DecodeError:
            which = Identity("")
        self._unread.add(which.key)
        self.aside.put(self.kind, which, why)

    def _forget(self, raw: bytes) -> None:
        if not self.aside.has(self.kind):
            return
        with suppress(DecodeError):
            self.aside.drop(self.kind, identify(raw).key)

    def _last_read(self, raw: bytes) -> list[T]:
        """Return the last readable version of an object that cannot be read any more."""
        try:
            found = self.feed.known(identify(raw))
        except DecodeError:
            return []
        return [found] if found is not None else []

    def _report(self, callback: Callable[[T], object], found: Sequence[T]) -> None:
        for each in found:
            try:
                callback(each)
            except Exception as error:  # noqa: BLE001 - a bug, which costs this one object
                FAULTS.report("state", error, key=self.kind)
