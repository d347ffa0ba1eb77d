"""A loop for each of many keys: something may have changed, look and act, look again if it failed.

Notices of one key that come close together are one look. Several keys are worked on at the same
time, but never one key twice at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, Protocol, TypeVar

from extender.runtime.backoff import Backoff
from extender.runtime.faults import FAULTS
from extender.runtime.retry import asked_pause
from extender.runtime.workqueue import WorkQueue

K = TypeVar("K", bound=Hashable)


class Observer(Protocol):
    """Is told how each look went."""

    def done(self, seconds: float) -> None:
        """Take a look that went well."""
        ...

    def failed(self, key: object, error: Exception, retry_in: float) -> None:
        """Take one that did not."""
        ...


class Controller(Generic[K]):
    """Calls `reconcile` for keys; it may return in how many seconds it wants to look again.

    Errors are waited out with growing pauses of that key alone. Those of the kind `retried` are
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

    def notice(self, key: K) -> None:
        """Have a key looked at soon."""
        settle = self._settle
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
                # A look that has nothing to write awaits nothing: others get their turn here.
                await asyncio.sleep(0)
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
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this key's alone
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
