"""Measures each step of an event loop: the CPU that its thread used until the next one began.

Callbacks of asyncio's own loop are timed, and tasks are those written in Python, which can be asked
where they stand. Both cost a microsecond or two a step. uvloop, which the processes use otherwise,
runs the same callbacks out of sight.
"""

import asyncio
import gc
import os
import time
from asyncio import events, tasks
from collections.abc import Coroutine, Generator
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any, Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
SLOW_SECONDS: Final = 0.05
_FRAMES: Final = 4


@dataclass(slots=True)
class Steps:
    """What happened since it was asked last; seconds of CPU."""

    count: int = 0
    total: float = 0.0
    longest: float = 0.0
    where: str = ""
    slow: int = 0
    """Steps longer than `SLOW_SECONDS`."""
    longest_collection: float = 0.0
    """The longest pause of the garbage collector."""


class Meter:
    """Times the callbacks of all loops of this process."""

    def __init__(self) -> None:
        self._steps = Steps()
        self._collecting = 0.0

    def install(self) -> None:
        """Begin."""
        plain = events.Handle._run
        meter = self

        def timed(handle: asyncio.Handle) -> None:
            callback = handle._callback  # type: ignore[attr-defined]
            began = time.thread_time()
            plain(handle)
            meter._note(time.thread_time() - began, callback)

        events.Handle._run = timed  # type: ignore[method-assign, assignment]
        gc.callbacks.append(self._collected)

    def take(self) -> dict[str, Any]:
        """Return what was measured since the last call, and the memory that is used now."""
        steps, self._steps = self._steps, Steps()
        with open("/proc/self/statm") as file:
            resident = int(file.read().split()[1]) * _PAGE
        return {**asdict(steps), "resident": resident}

    def _note(self, seconds: float, callback: object) -> None:
        steps = self._steps
        steps.count += 1
        steps.total += seconds
        steps.slow += seconds > SLOW_SECONDS
        if seconds > steps.longest:
            steps.longest = seconds
            steps.where = _where(callback)

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        del info
        if phase == "start":
            self._collecting = time.thread_time()
            return
        seconds = time.thread_time() - self._collecting
        self._steps.longest_collection = max(self._steps.longest_collection, seconds)


def new_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    **more: Any,
) -> asyncio.Future[Any]:
    """Make a task that can be asked where it stands."""
    task: asyncio.Future[Any] = tasks._PyTask(  # type: ignore[attr-defined]
        coroutine, loop=loop, **more
    )
    return task


def _where(callback: object) -> str:
    task = getattr(callback, "__self__", None)
    if not isinstance(task, tasks._PyTask):  # type: ignore[attr-defined]
        return getattr(callback, "__qualname__", repr(callback))
    names: list[str] = []
    at = task.get_coro()
    while at is not None and len(names) < _FRAMES:
        frame: FrameType | None = getattr(at, "cr_frame", None) or getattr(at, "ag_frame", None)
        name = getattr(at, "__qualname__", type(at).__name__)
        names.append(f"{name}:{frame.f_lineno}" if frame else name)
        at = getattr(at, "cr_await", None) or getattr(at, "ag_await", None)
    return " > ".join(names)
