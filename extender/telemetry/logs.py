"""Structured logs on standard error: for people on a terminal, JSON elsewhere.

Lines of libraries have the same form. A line about a group has the id of the gang's start, and one
about a workload that of its admission, by whichever part it is written. A line that cannot be
written is lost, and counted: no decision ends half-way because the disk is full.
"""

import atexit
import logging
import sys
import time
from collections.abc import Callable
from io import TextIOBase
from queue import Full, Queue
from threading import Thread
from typing import Final, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger
from typing_extensions import override

from extender.runtime.faults import FAULTS, REMEMBERED

MOST_LINES: Final = REMEMBERED
"""Lines that wait to be written; others are lost until there is a place."""
PLACE: Final = "logs"
IdOf = Callable[[str], str | None]
"""Returns the id for a group or a workload, `namespace/name`, or None."""

_log = structlog.get_logger(__name__)


class Ids:
    """Adds to each line the ids that belong to what it is about."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[str, IdOf]] = {}

    def add(self, field: str, name: str, id_of: IdOf) -> None:
        """Add an id as `name` to the lines that have a `field`; in place of any added before."""
        self._of[field] = name, id_of

    def __call__(self, _logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
        """Return a line with its ids."""
        for field, (name, id_of) in self._of.items():
            about = line.get(field)
            found = id_of(about) if isinstance(about, str) and name not in line else None
            if found is not None:
                line[name] = found
        return line


IDS: Final = Ids()
"""The ids of this process: one table, because any part may log."""


class Lines(TextIOBase):
    """A file whose lines a thread writes, so that a decision never waits for a reader of the log.

    A line that finds no place, or cannot be written, is an error of the place `logs`. How many were
    lost is said with the next line that can be written when no others wait.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._waiting = Queue[str](MOST_LINES)
        self._said = FAULTS.counts.get(PLACE, 0)
        Thread(target=self._write_on, name="log", daemon=True).start()
        atexit.register(self.finish)

    @override
    def write(self, text: str) -> int:
        """Have lines written, or lose them."""
        try:
            self._waiting.put_nowait(text)
        except Full:
            FAULTS.count(PLACE)
        return len(text)

    def finish(self, seconds: float = 1.0) -> None:
        """Return when all lines are written, or after so many seconds."""
        until = time.monotonic() + seconds
        while self._waiting.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.001)

    def _put(self, text: str) -> None:
        # Not by the buffer, whose lock a write that never ends would keep until the process aborts.
        raw = getattr(getattr(self._file, "buffer", None), "raw", None)
        if raw is not None:
            raw.write(text.encode(errors="backslashreplace"))
        else:
            self._file.write(text)

    def _write_on(self) -> None:
        while True:
            text = self._waiting.get()
            try:
                self._put(text)
            except (OSError, ValueError):  # a full disk, a pipe without a reader, a closed file
                FAULTS.count(PLACE)
            else:
                lost = FAULTS.counts.get(PLACE, 0) - self._said
                if lost and self._waiting.empty():  # there is a place for this line then
                    self._said += lost
                    _log.warning("lines of this log were lost", lines=lost)
            self._waiting.task_done()


class LineWriter(structlog.PrintLogger):
    """Writes each line in one go."""

    @override
    def msg(self, message: str) -> None:
        """Write a line."""
        self._file.write(f"{message}\n")

    log = debug = info = warn = warning = msg
    fatal = failure = err = error = critical = exception = msg


def configure(level: str, *, as_json: bool) -> Lines:
    """Set the process up to log at `level` (debug, info, warning, error); return where to."""
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    file = Lines(sys.stderr)
    threshold = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        IDS,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=lambda *_: LineWriter(cast(TextIO, file)),
        cache_logger_on_first_use=False,
    )
    # The lines of libraries, which use the standard library, get the form of ours.
    handler = logging.StreamHandler(file)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(level=max(threshold, logging.WARNING), handlers=[handler])
    return file
