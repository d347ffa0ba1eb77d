"""Events of events.k8s.io/v1: what people read with `kubectl describe` and `kubectl events`.

Events help people and decide nothing. So recording one never waits and never fails: what is too
much for the API server is written later, and what is too much for the reader, or to be kept, is
dropped and counted. Namespaces take turns: a tenant whose objects give many Events delays its own.
Warnings and other Events take turns, too: the Warning about one job does not wait for what is to be
written about a thousand others.

The name of an Event is made from the word for its occasion. Notices that have a key are named after
it: a second process, or the same one after a restart, makes no second Event of those. All others
are named after their moment.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

import msgspec
import structlog

from extender.api.reasons import JobReason
from extender.kube.client import KubeClient
from extender.kube.errors import ApiError, ConflictError, UnavailableError
from extender.kube.set_aside import Aside
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.runtime.waiting_lines import WaitingLines

CONTROLLER: Final = "scheduling.x-k8s.io/gang-extender"
LONGEST_INSTANCE: Final = 128
LONGEST_NOTE: Final = 1024
"""The API server counts both in bytes."""
REST_SECONDS: Final = 0.1
"""The least wait of Events that are too many: a process that wakes for each costs more."""
LONGEST_REST: Final = 2.0
"""Most seconds from one Event to the next that waits."""
LONGEST_WAY: Final = 10.0
"""The longest time that an Event gives way to other writes, in seconds."""
WAY_SECONDS: Final = 0.02
"""The time between two looks whether the other writes are done."""
_GROUPS_REMEMBERED: Final = 10_000
_OF_ALL: Final = frozenset((0, 429, 503))
"""Status of answers that may concern all Events; with others another Event may be written."""

_log = structlog.get_logger(__name__)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class ObjectRef:
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


@dataclass(frozen=True, slots=True)
class Limit:
    """A number of Events at once, and one more after each interval, in seconds."""

    burst: int
    interval: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLimits:
    """The number of Events that are allowed for each object and for all, and that may wait.

    What is too much for an object is dropped, what is too much for all waits. Writing takes no more
    than `share` of the time: a slow API server has more important things to write. `pauses` are
    those before other attempts where the API server is not there, in seconds.
    """

    per_object: Limit | None = None
    overall: Limit
    waiting: int
    share: float = 1.0
    pauses: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)


PER_OBJECT: Final = Limit(10, 30.0)
NOTICES: Final = EventLimits(
    per_object=PER_OBJECT, overall=Limit(250, 0.02), waiting=2000, share=0.2
)
"""The limits for Events about the same objects again and again."""
ONE_OF_EACH: Final = EventLimits(overall=Limit(100, 0.01), waiting=20_000)
"""The limits for Events of which each object has one."""


@dataclass(slots=True)
class _Bucket:
    limit: Limit
    left: float
    at: float

    def take(self, now: float) -> bool:
        self.left = min(self.limit.burst, self.left + (now - self.at) / self.limit.interval)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Recorder:
    """Writes Events one after the other, at most so many for each object and for all.

    `count` gets the outcome of each: written, known already, dropped or failed.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        clock: Clock,
        instance: str,
        count: Callable[[str], None],
        limits: EventLimits = NOTICES,
        gives_way: Callable[[], bool] = lambda: False,
    ) -> None:
        """`gives_way` says that something is being written that matters more.

        An Event takes the API server as long as that does.
        """
        self._client = client
        self._clock = clock
        self._instance = instance
        self._count = count
        self._limits = limits
        self._all = _Bucket(limits.overall, limits.overall.burst, clock.monotonic())
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._waiting = WaitingLines[tuple[str, bool], tuple[float, Event]](limits.waiting)
        """By namespace, and whether they are Warnings; with the time of each, in seconds since the
        epoch."""
        self._wakeup = asyncio.Event()
        self._gives_way = gives_way

    def record(self, event: Event) -> None:
        """Queue an Event for writing, or drop it where there are too many."""
        if not self._is_within_limits(event):
            self._drop(event)
            return
        line = (event.about.namespace, event.warning)
        too_many = self._waiting.add(line, (self._clock.wall(), event))
        if too_many is not None:
            self._drop(too_many[1])
        self._wakeup.set()

    def _drop(self, event: Event) -> None:
        self._count("dropped")
        _log.debug("event dropped", about=event.about.name, reason=event.reason)

    def _is_within_limits(self, event: Event) -> bool:
        limit = self._limits.per_object
        if limit is None:
            return True
        now = self._clock.monotonic()
        return self._bucket(event.about.uid, now, limit).take(now)

    async def run(self) -> None:
        """Write what was recorded, until cancelled."""
        while True:
            while self._waiting:
                if not self._all.take(self._clock.monotonic()):
                    await asyncio.sleep(max(REST_SECONDS, self._limits.overall.interval))
                    self._all.take(self._clock.monotonic())
                await self._give_way()
                at, event = self._waiting.take()
                began = self._clock.monotonic()
                try:
                    await self._write(event, at)
                except Exception as error:  # noqa: BLE001 - an Event decides nothing
                    self._count("failed")
                    FAULTS.report("recorder", error, key=event.about.name)
                took = self._clock.monotonic() - began
                if self._limits.share < 1:
                    await asyncio.sleep(min(LONGEST_REST, took * (1 / self._limits.share - 1)))
            self._wakeup.clear()
            await self._wakeup.wait()

    async def _give_way(self) -> None:
        """Wait while something else is being written, until any Event has waited for long."""
        if not self._gives_way():
            return
        until = min(at for at, _ in self._waiting.heads()) + LONGEST_WAY
        while self._gives_way() and self._clock.wall() < until:  # noqa: ASYNC110 - two conditions
            await asyncio.sleep(WAY_SECONDS)

    def _bucket(self, uid: str, now: float, limit: Limit) -> _Bucket:
        bucket = self._buckets.pop(uid, None) or _Bucket(limit, limit.burst, now)
        self._buckets[uid] = bucket
        while len(self._buckets) > _GROUPS_REMEMBERED:
            self._buckets.popitem(last=False)
        return bucket

    async def _write(self, event: Event, at: float) -> None:
        try:
            await self._post(event, at)
        except ConflictError:
            self._count("known")
            return
        except ApiError as error:
            self._count("failed")
            _log.warning("could not write an Event", about=event.about.name, error=str(error))
            return
        self._count("written")

    async def _post(self, event: Event, at: float) -> None:
        path = f"/apis/events.k8s.io/v1/namespaces/{_namespace(event)}/events"
        body = _encode(self._body(event, at))
        for pause in self._limits.pauses:
            try:
                await self._client.post(path, body)
            except UnavailableError as error:
                if error.status not in _OF_ALL:
                    raise
                _log.debug("event not written yet", about=event.about.name, error=str(error))
                await asyncio.sleep(pause)
            else:
                return
        await self._client.post(path, body)

    def _body(self, event: Event, at: float) -> dict[str, object]:
        about = event.about
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": _name(event), "namespace": _namespace(event)},
            "eventTime": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": CONTROLLER,
            "reportingInstance": _cut(self._instance, LONGEST_INSTANCE),
            "action": event.action,
            "reason": event.reason,
            "type": "Warning" if event.warning else "Normal",
            "note": _cut(event.note, LONGEST_NOTE),
            "regarding": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
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


def _cut(text: str, size: int) -> str:
    """Return the start of a text that takes no more than so many bytes."""
    return text.encode()[:size].decode(errors="ignore")


def _namespace(event: Event) -> str:
    """Return the namespace of an Event: `default` for one about an object without a namespace."""
    return event.about.namespace or "default"


def _name(event: Event) -> str:
    said = "\0".join((event.about.uid, event.reason, event.occasion))
    return f"{event.about.name[:200].rstrip('-.')}.{sha256(said.encode()).hexdigest()[:16]}"
