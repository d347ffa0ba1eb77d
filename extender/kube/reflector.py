"""Keeps one kind of the state in step with the API server.

A list of a hundred thousand objects is decoded and taken in with rests between them: kube-scheduler
waits for the event loop. Nothing of a list counts before it is complete, and nothing else of the
kind arrives in between, because one task reads the list and the watch that follows it.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import structlog

from extender.kube.decode import DecodeError
from extender.kube.watch import Apply, Delete, Init, InitApply, InitDone, Watcher
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
        self._listing: list[T] = []
        self._watcher = watcher
        self._decode_raw = decode
        self._listed = listed
        self._applied = applied
        self._deleted = deleted

    @property
    def synced(self) -> bool:
        """Whether all objects have been seen once."""
        return self.first_list.is_set()

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
        await pacer.go_through(self._listed(listing))
        if listing or not self.synced:
            _log.info("listed", kind=self.kind, objects=len(listing))
        self.first_list.set()

    def _handle(self, event: Init | InitApply | Apply | Delete) -> None:
        match event:
            case Init():
                self._listing = []
            case InitApply(raw):
                self._listing.extend(self._decode(raw))
            case Apply(raw) | Delete(raw):
                tell = self._applied if isinstance(event, Apply) else self._deleted
                for found in self._decode(raw):
                    tell(found)

    def _decode(self, raw: bytes) -> list[T]:
        """Return the object, or nothing where it cannot be read: one bad object stops nobody."""
        try:
            return [self._decode_raw(raw)]
        except DecodeError as error:
            _log.warning("object ignored", kind=self.kind, error=str(error))
            return []
