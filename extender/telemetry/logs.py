"""Structured logs on standard error: for people on a terminal, JSON elsewhere.

Lines of libraries have the same form. A line about a group has the id of the gang's start, and one
about a workload that of its admission, by whichever part it is written.
"""

import logging
import sys
from collections.abc import Callable
from typing import Final

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

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


def configure(level: str, *, as_json: bool) -> None:
    """Set the process up to log at `level` (debug, info, warning, error)."""
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
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
