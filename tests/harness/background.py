"""A coroutine that runs beside synchronous code: an event loop in a thread of its own."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

_ANSWER_SECONDS: Final = 120.0
_CLOSE_SECONDS: Final = 2.0
"""How long the loop may take to close the sockets that the work has left."""

R = TypeVar("R")


class Background:
    """Runs `work` from `start` to `stop`; `what` is its name in errors.

    What ends the work by itself is an error, which the next `check` or `answer` raises.
    """

    def __init__(self, what: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._what, self._work = what, work
        self._error: BaseException | None = None
        self._began = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[None]
        self._thread = threading.Thread(target=self._run, name=what, daemon=True)

    def began(self) -> None:
        """Let `start` return: the work calls this when it has begun."""
        self._began.set()

    def start(self, seconds: float) -> None:
        """Return when the work has begun. RuntimeError where it has not within `seconds`."""
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._work())
        self._thread.start()
        self._began.wait(seconds)
        if self._error or not self._began.is_set():
            raise RuntimeError(f"{self._what} did not begin") from self._error

    def stop(self) -> None:
        """Cancel the work, and return when it has ended."""
        with contextlib.suppress(RuntimeError):  # the loop has ended with an error
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()
        self._loop.close()

    def check(self) -> None:
        """Raise RuntimeError where the work has ended with an error."""
        if self._error:
            raise RuntimeError(f"{self._what} ended: {self._error!r}") from self._error

    def answer(self, question: Callable[[], R]) -> R:
        """Return what `question` does, called between two steps of the work."""
        self.check()

        async def answer() -> R:
            return question()

        return asyncio.run_coroutine_threadsafe(answer(), self._loop).result(_ANSWER_SECONDS)

    @property
    def cpu_seconds(self) -> float:
        """CPU that the thread took so far; 0 where it has ended."""
        ident = self._thread.ident
        if ident is None or not self._thread.is_alive():
            return 0.0
        return time.clock_gettime(time.pthread_getcpuclockid(ident))

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            return
        except BaseException as error:  # noqa: BLE001  # raised by the next check()
            self._error = error
        finally:
            self._loop.run_until_complete(self._sockets_closed())
            self._began.set()

    async def _sockets_closed(self) -> None:
        """Return when the loop waits for nothing but its own wake-up call.

        A busy server would take seconds to answer TLS's goodbye: the connections are cut.
        """
        until = self._loop.time() + _CLOSE_SECONDS
        await asyncio.sleep(0)
        # A loop has no other lists.
        transports: Any = getattr(self._loop, "_transports")  # noqa: B009
        selector: Any = getattr(self._loop, "_selector")  # noqa: B009
        for each in [*transports.values()]:
            each.abort()
        while len(selector.get_map()) > 1 and self._loop.time() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
