"""Structured logs on standard error: for people on a terminal, JSON elsewhere.

Lines of libraries have the same form. A line about a group has the id of the gang's start, and one
about a workload that of its admission, by whichever part it is written. A line that cannot be
written is lost, and counted: no decision ends half-way because the disk is full.
"""

import logging
import sys
from collections.abc import Callable
from typing import Final

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger
from typing_extensions import override

from extender.runtime.faults import FAULTS

IdOf = Callable[[str], str | None]
"""Returns the id for a group or a workload, `namespace/name`, or None."""


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


class LineWriter(structlog.PrintLogger):
    """Writes lines to a file; one that cannot be written is an error of the place `logs`.

    The handlers of the standard library do the same with lines of libraries, but for the count.
    """

    @override
    def msg(self, message: str) -> None:
        """Write a line, or lose it."""
        try:
            super().msg(message)
        except OSError:  # a full disk, a pipe without a reader
            FAULTS.count("logs")

    log = debug = info = warn = warning = msg
    fatal = failure = err = error = critical = exception = msg


def configure(level: str, *, as_json: bool) -> None:
    """Set the process up to log at `level` (debug, info, warning, error)."""
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    file = sys.stderr
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
        logger_factory=lambda *_: LineWriter(file),
        cache_logger_on_first_use=False,
    )
    _configure_libraries(max(threshold, logging.WARNING), shared, renderer)


def _configure_libraries(threshold: int, shared: list[Processor], renderer: Processor) -> None:
    """Give the lines of libraries, which use the standard library, the form of ours."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(level=threshold, handlers=[handler])
