"""Options that several commands take."""

from enum import StrEnum


class Level(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Format(StrEnum):
    """How it is logged."""

    CONSOLE = "console"
    JSON = "json"
