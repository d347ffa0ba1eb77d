"""Whether the kube-scheduler that called filter last is still there.

Its loop calls filter for one pod after the other, by one connection that stays open in between. The
connection ends with the process, also with one that gives its lease back before it ends.
"""

from collections.abc import Callable
from typing import Final

from starlette.types import Scope

STATE: Final = "connection"
"""Where the state of a request has its connection."""


class Caller:
    """The connection by which filter was called last."""

    def __init__(self, lost: Callable[[], None]) -> None:
        """`lost` is called when that connection has ended."""
        self._lost = lost
        self._connection: object | None = None

    @property
    def is_there(self) -> bool:
        """Whether that connection is open."""
        return self._connection is not None

    def called(self, scope: Scope) -> None:
        """Take note of a call of filter."""
        self._connection = scope.get("state", {}).get(STATE)

    def gone(self, connection: object) -> None:
        """Take note that a connection has ended."""
        if connection is self._connection:
            self._connection = None
            self._lost()
