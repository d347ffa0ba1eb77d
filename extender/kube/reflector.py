"""Keeps one kind of the state in step with the API server."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import structlog

from extender.kube.decode import DecodeError
from extender.kube.watch import Apply, Delete, Init, InitApply, InitDone, Watcher, WatchEvent

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Reflector(Generic[T]):
    """Feeds decoded objects to three callbacks: all there are, one that changed, one that went."""

    def __init__(
        self,
        kind: str,
        watcher: Watcher,
        decode: Callable[[bytes], T],
        *,
        listed: Callable[[Sequence[T]], None],
        applied: Callable[[T], None],
        deleted: Callable[[T], None],
    ) -> None:
        self.kind = kind
        self.first_list = asyncio.Event()
        """Set from the first whole list on."""
        self.version = 0
        """That of the list that is being told; what is newer came or changed after it."""
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

    async def run(self) -> None:
        """Follow the watch until cancelled."""
        async for event in self._watcher.events():
            self._handle(event)

    def _handle(self, event: WatchEvent) -> None:
        match event:
            case Init():
                self._listing = []
            case InitApply(raw):
                self._listing.extend(self._decode(raw))
            case InitDone(version):
                self.version = version
                self._listed(self._listing)
                if self._listing or not self.synced:
                    _log.info("listed", kind=self.kind, objects=len(self._listing))
                self._listing = []
                self.first_list.set()
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
