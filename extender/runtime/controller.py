"""A controller: it reconciles keys when they may have changed, and again after an error.

Notices of one key that come close together cause one reconciliation. Several keys are reconciled at
the same time, but never one key twice at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, Protocol, TypeVar

from extender.runtime.clock import Pacer, SystemClock
from extender.runtime.faults import FAULTS, Backoff, asked_pause

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys to handle, in order of arrival; adding one that waits already changes nothing."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()
        self._timers: dict[K, tuple[float, asyncio.Handle]] = {}
        """The time of the loop at which each key is due. For a pause that rounds to zero uvloop
        returns a handle without a time."""

    def add(self, key: K) -> None:
        """Add a key."""
        if key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Add a key after so many seconds, or earlier where that was requested before."""
        loop = asyncio.get_running_loop()
        at, known = loop.time() + seconds, self._timers.get(key)
        if known is not None:
            before, timer = known
            if before <= at:
                return
            timer.cancel()
        self._timers[key] = at, loop.call_at(at, self._due, key)

    def _due(self, key: K) -> None:
        del self._timers[key]
        self.add(key)

    async def get(self) -> K:
        """Return the next key, waiting for one."""
        # A worker that handles many keys without a write awaits nothing else.
        await asyncio.sleep(0)
        key = await self._ready.get()
        self._waiting.discard(key)
        return key


class Observer(Protocol):
    """Observes reconciliations."""

    def done(self, seconds: float) -> None:
        """Count a successful reconciliation."""

    def failed(self, key: object, error: Exception, retry_in: float) -> None:
        """Count a failed reconciliation."""


class Controller(Generic[K]):
    """Calls `reconcile` for keys; it may return in how many seconds to reconcile again.

    An error is retried after growing pauses, for its key alone. Errors of the kind `retried` are
    expected; any other one is reported as an internal error.
    """

    def __init__(
        self,
        reconcile: Callable[[K], Awaitable[float | None]],
        *,
        new_backoff: Callable[[], Backoff],
        retried: type[Exception],
        observer: Observer,
        settle: float | Callable[[K], float] = 0.1,
        parallel: int = 8,
    ) -> None:
        self._name = getattr(reconcile, "__qualname__", "controller")
        self._reconcile = reconcile
        self._new_backoff = new_backoff
        self._retried = retried
        self._observer = observer
        self._settle = settle
        self._parallel = parallel
        self._queue: WorkQueue[K] = WorkQueue()
        self._backoffs: dict[K, Backoff] = {}
        self._busy: set[K] = set()
        self._again: set[K] = set()
        # Its own: beside longer work a worker that asks until it has its turn might never have one.
        self._pacer = Pacer(SystemClock())

    def notice(self, key: K, *, within: float | None = None) -> None:
        """Reconcile a key soon, or `within` so many seconds: what is asked for earlier counts."""
        settle = self._settle if within is None else within
        self._queue.add_after(key, settle(key) if callable(settle) else settle)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._parallel):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            if key in self._busy:
                self._again.add(key)
                continue
            self._busy.add(key)
            try:
                # Up to its first write a reconciliation awaits nothing, and many may be ready.
                while self._pacer.is_due:
                    await self._pacer.rest()
                await self._look(key)
            finally:
                self._busy.discard(key)
            if key in self._again:
                self._again.discard(key)
                self._queue.add(key)

    async def _look(self, key: K) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            again = await self._reconcile(key)
        except Exception as error:  # noqa: BLE001 - an error concerns its key alone
            if not isinstance(error, self._retried):
                FAULTS.report(self._name, error, key=key)
            backoff = self._backoffs.setdefault(key, self._new_backoff())
            pause = max(backoff.next(), asked_pause(error))
            self._observer.failed(key, error, pause)
            self._queue.add_after(key, pause)
            return
        self._backoffs.pop(key, None)
        self._observer.done(loop.time() - began)
        if again is not None:
            self._queue.add_after(key, again)
