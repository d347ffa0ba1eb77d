"""Keeps one kind of the state in step with the API server.

A list of a hundred thousand objects is decoded and taken in with rests between them: kube-scheduler
waits for the event loop. Nothing of a list counts before it is complete, and nothing else of the
kind arrives in between, because one task reads the list and the watch that follows it.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

import structlog

from extender.kube.decode import DecodeError
from extender.kube.freshness import Freshness
from extender.kube.identity import Identity, identify
from extender.kube.set_aside import SetAside
from extender.kube.watch import Apply, Delete, Init, InitApply, InitDone, Watcher
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import Pacer

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Reflector(Generic[T]):
    """Feeds decoded objects to three callbacks: all there are, one that changed, one that went.

    `listed` returns the steps in which it takes all of them in.
    """

    def __init__(
        self,
        kind: str,
        watcher: Watcher,
        decode: Callable[[bytes], T],
        *,
        listed: Callable[[Sequence[T]], Iterator[object]],
        applied: Callable[[T], None],
        deleted: Callable[[T], None],
    ) -> None:
        self.kind = kind
        self.first_list = asyncio.Event()
        """Set when the first list has been taken in whole."""
        self.version = 0
        """That of the last list; what is newer came or changed after it."""
        self.aside = SetAside()
        """Where objects are put that cannot be read."""
        self.known: Callable[[Identity], T | None] = _unknown
        """Returns what the state has of an object: its last version that could be read."""
        self._listing: list[T] = []
        self._unread: set[str] = set()
        """Keys of the objects of a list that cannot be read."""
        self._watcher = watcher
        self._decode_raw = decode
        self._listed = listed
        self._applied = applied
        self._deleted = deleted
        self.on_list: Callable[[], None] = lambda: None
        """Called before a list is asked for."""

    @property
    def synced(self) -> bool:
        """Whether all objects have been seen once."""
        return self.first_list.is_set()

    @property
    def freshness(self) -> Freshness:
        """When the API server was last heard of."""
        return self._watcher.freshness

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
        """Take a whole list in."""
        self.version = version
        listing, self._listing = self._listing, []
        try:
            await pacer.go_through(self._listed(listing))
        except Exception as error:  # noqa: BLE001 - a bug, which costs one object and no more
            FAULTS.report("state", error, key=self.kind)
            await pacer.go_through(self._one_by_one(listing))
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
                self._tell(self._applied, self._decode(raw))
            case Delete(raw):
                self._tell(self._deleted, self._decode(raw) or self._last_read(raw))
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
        """Return what the state knows of an object that cannot be read any more."""
        try:
            found = self.known(identify(raw))
        except DecodeError:
            return []
        return [found] if found is not None else []

    def _one_by_one(self, listing: Sequence[T]) -> Iterator[None]:
        for each in listing:
            self._tell(self._applied, [each])
            yield

    def _tell(self, callback: Callable[[T], None], found: Sequence[T]) -> None:
        for each in found:
            try:
                callback(each)
            except Exception as error:  # noqa: BLE001 - a bug, which costs this one object
                FAULTS.report("state", error, key=self.kind)


def _unknown(_: Identity) -> None:
    return None
