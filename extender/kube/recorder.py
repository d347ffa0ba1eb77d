"""Events of events.k8s.io/v1: what people read with `kubectl describe` and `kubectl events`.

Events help people and decide nothing. So recording one never waits and never fails: what would slow
Bindings down is written later, and what is too much for the reader, or to be kept, is dropped and
counted. Namespaces take turns: a tenant whose objects give many Events delays its own. Warnings and
other Events take turns, too: the Warning about one job does not wait for what is to be written
about a thousand others.

The name of an Event is made from the word for its occasion. Notices that have a key are named after
it: a second process, or the same one after a restart, makes no second Event of those. All others
are named after their moment.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

import msgspec
import structlog
from cachetools import LRUCache

from extender.api.core_v1 import Wire
from extender.api.reasons import JobReason
from extender.kube.client import KubeClient
from extender.kube.errors import LONGEST_NOTE, ApiError, ConflictError, UnavailableError
from extender.kube.reflector import Aside
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS, REMEMBERED

CONTROLLER: Final = "scheduling.x-k8s.io/gang-extender"
WRITERS: Final = 8
"""The most Events written at a time. Writers rest while none is late, or while pods are bound."""
_LATE: Final = 1.0
"""Seconds after which an Event is late, and the longest rest of a writer."""
BURST: Final = 10
"""The number of Events of one object at once; later ones come `INTERVAL` seconds apart."""
INTERVAL: Final = 30.0
PAUSES: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before other attempts while the API server is not there."""
_OF_ALL: Final = frozenset((0, 429, 503))
"""Status of answers that may concern all Events; with others another Event may be written."""

_log = structlog.get_logger(__name__)
_encode = msgspec.json.Encoder().encode


class ObjectRef(Wire, frozen=True):
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Event:
    """One Event; another `occasion` makes another Event."""

    about: ObjectRef
    reason: str
    note: str
    action: str
    warning: bool
    occasion: str


class Recorder:
    """Writes a few Events at a time, at most so many about each object.

    `count` gets the outcome of each: written, known already, dropped or failed.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        clock: Clock,
        instance: str,
        count: Callable[[str], None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._instance = instance
        self._count = count
        self._allowed: LRUCache[str, tuple[float, float]] = LRUCache(REMEMBERED)
        """By UID of an object: how many Events it may have, and the time of that number."""
        self._lines: OrderedDict[tuple[str, bool], deque[tuple[float, Event]]] = OrderedDict()
        """The Events that wait, each with its time in seconds since the epoch: a line for each
        namespace and for whether they are Warnings. The line whose turn it is comes first."""
        self._wakeup = asyncio.Event()
        self._away = asyncio.Lock()
        """Held by the one writer that tries again while the API server is not there."""

    def record(self, event: Event) -> None:
        """Queue an Event for writing. Where too many wait, one of the longest line is dropped."""
        now = self._clock.monotonic()
        left, at = self._allowed.get(event.about.uid, (BURST, now))
        left = min(BURST, left + (now - at) / INTERVAL)
        self._allowed[event.about.uid] = left - (left >= 1), now
        if left < 1:
            self._count("dropped")
            return
        line = self._lines.setdefault((event.about.namespace, event.warning), deque())
        line.append((self._clock.wall(), event))
        if sum(map(len, self._lines.values())) > REMEMBERED:
            longest = max(self._lines, key=lambda key: len(self._lines[key]))
            self._lines[longest].pop()
            self._count("dropped")
            if not self._lines[longest]:
                del self._lines[longest]
        self._wakeup.set()

    async def run(self) -> None:
        """Write what was recorded, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(self._write_on())

    async def _write_on(self) -> None:
        while True:
            while not self._lines:
                self._wakeup.clear()
                await self._wakeup.wait()
            key, line = self._lines.popitem(last=False)
            at, event = line.popleft()
            if line:
                self._lines[key] = line  # behind all others
            began = self._clock.wall()
            try:
                async with AsyncExitStack() as alone:
                    self._count(await self._write(event, at, alone))
            except Exception as error:  # noqa: BLE001 - an Event decides nothing
                self._count("failed")
                FAULTS.report("recorder", error, key=event.about.name)
            now, busy = self._clock.wall(), self._client.posting > WRITERS
            rest = min(_LATE, (now - began) * (2 * WRITERS - 1))
            await asyncio.sleep(rest if busy or now - at < _LATE else 0)

    async def _write(self, event: Event, at: float, alone: AsyncExitStack) -> str:
        """Return the outcome of writing an Event, again and again while that may help."""
        path = f"/apis/events.k8s.io/v1/namespaces/{_namespace(event)}/events"
        body = _encode(self._body(event, at))
        for pause in (*PAUSES, None):
            try:
                await self._client.post(path, body)
            except ConflictError:
                return "known"
            except ApiError as error:
                about, text = event.about.name, str(error)
                again = isinstance(error, UnavailableError) and error.status in _OF_ALL
                if pause is None or not again:
                    _log.warning("could not write an Event", about=about, error=text)
                    return "failed"
                _log.debug("event not written yet", about=about, error=text)
                if pause == PAUSES[0]:
                    await alone.enter_async_context(self._away)
                await asyncio.sleep(pause)
            else:
                break
        return "written"

    def _body(self, event: Event, at: float) -> dict[str, object]:
        about = event.about
        said = "\0".join((about.uid, event.reason, event.occasion))
        name = f"{about.name[:200].rstrip('-.')}.{sha256(said.encode()).hexdigest()[:16]}"
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": _namespace(event)},
            "eventTime": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": event.action,
            "reason": event.reason,
            "type": "Warning" if event.warning else "Normal",
            "note": event.note.encode()[:LONGEST_NOTE].decode(errors="ignore"),
            "regarding": about,
        }


def unreadable(aside: Aside) -> Event:
    """Return the Event about an object that is set aside: one for each cause."""
    which = aside.object
    about = ObjectRef(which.api_version, which.kind, which.namespace, which.name, which.uid)
    note = f"It is left out until it is changed: {aside.why}"
    return Event(about, "Unreadable", note, "Read", warning=True, occasion=aside.why)


def refusal(about: ObjectRef, error: ApiError) -> Event:
    """Return the Event about an object that the API server refuses to write: one for each text."""
    note = f"The API server refuses a write: {error}"
    return Event(about, JobReason.INVALID, note, "Write", warning=True, occasion=note)


def _namespace(event: Event) -> str:
    """Return the namespace of an Event: `default` for one about an object without a namespace."""
    return event.about.namespace or "default"
