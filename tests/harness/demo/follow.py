"""Every change of the objects of one kind in a namespace, in the order of the API server.

It is a watch and not a poll because of what must never happen: what was so for a moment between two
looks would not be noticed.
"""

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import httpx

from tests.harness.client import Api

_WATCH_SECONDS = 2  # after each the watch goes on where it was, unless it has been asked to end
_PAUSE_SECONDS = 0.1


class Follower(ABC):
    """Follows from its start on, in a thread of its own."""

    def __init__(self, kubeconfig: Path, path: str) -> None:
        self._api = Api(kubeconfig)
        self._path = path
        self._changed = threading.Condition()
        self._ending = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="follower")
        self._followed: Future[None] | None = None

    def __enter__(self) -> Self:
        found = self._api.request("GET", self._path).json()
        for each in found["items"]:
            self._apply("ADDED", each)
        self._followed = self._pool.submit(self._follow, found["metadata"]["resourceVersion"])
        self._followed.add_done_callback(lambda _: self._print())
        return self

    def __exit__(self, *_: object) -> None:
        # Nothing waits for it: it notices at its next look.
        self._ending.set()
        self._pool.shutdown(wait=False)

    @abstractmethod
    def take(self, kind: str, document: dict[str, Any]) -> None:
        """Take one change: ADDED, MODIFIED or DELETED. The lock is held."""

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Return whether `predicate`, asked after each change, came true within the time."""
        with self._changed:
            reached = self._changed.wait_for(lambda: self._broken() or predicate(), timeout)
        if self._broken():
            assert self._followed is not None
            self._followed.result()  # raises what it died of
        return reached

    def _broken(self) -> bool:
        return self._followed is not None and self._followed.done() and not self._ending.is_set()

    def _print(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _follow(self, version: str) -> None:
        with self._api:
            while not self._ending.is_set():
                try:
                    version = self._read(version)
                except httpx.TransportError:
                    self._ending.wait(_PAUSE_SECONDS)

    def _read(self, version: str) -> str:
        params = {
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        with self._api._http.stream("GET", self._path, params=params) as response:
            response.raise_for_status()
            for line in response.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise RuntimeError(f"the watch of {self._path} broke: {event['object']}")
                self._apply(event["type"], event["object"])
                version = event["object"]["metadata"]["resourceVersion"]
                if self._ending.is_set():
                    break
        return version

    def _apply(self, kind: str, document: dict[str, Any]) -> None:
        with self._changed:
            self.take(kind, document)
            self._changed.notify_all()
