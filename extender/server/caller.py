"""Whether the kube-scheduler that called filter or preempt last is still there.

Its loop calls these for one pod after the other, by one connection that stays open in between. The
connection ends with the process, also with one that gives its lease back before it ends.

Where one entry of kube-scheduler's configuration has all verbs, they share connections. Of those of
many binds at a time kube-scheduler keeps two and closes the others, the last one of filter perhaps.
Such a caller is there as long as any of its connections is open: a process that ends ends them all.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from starlette.types import Scope

STATE: Final = "connection"
"""Where the state of a request has its connection."""
VERBS: Final = frozenset(("filter", "bind"))
"""With filter and bind by one connection, all verbs share."""
_OF_LOOP: Final = frozenset(("filter", "preempt"))
"""The verbs that kube-scheduler's loop waits for. Where no node has room by its own filters, it
calls preempt alone."""


class ClientConnection(Protocol):
    """A connection of a client."""

    @property
    def is_open(self) -> bool:
        """Whether it has not ended, and is not about to."""


@dataclass(slots=True)
class _Use:
    """What a connection is used for."""

    host: str
    verbs: set[str] = field(default_factory=set)


class Caller:
    """The connection of the last call of filter or preempt, or one that stands for it."""

    def __init__(self, lost: Callable[[], None]) -> None:
        """`lost` is called when the last connection has ended that shows the caller."""
        self._lost = lost
        self._connection: ClientConnection | None = None
        self._open: dict[ClientConnection, _Use] = {}
        self._sharing: set[str] = set()
        """Addresses from which filter and bind have come by one connection."""

    @property
    def is_there(self) -> bool:
        """Whether that connection is open."""
        return self._connection is not None

    def called(self, scope: Scope, verb: str = "filter") -> None:
        """Take note of a call of a verb."""
        if verb not in VERBS | _OF_LOOP:
            return
        connection: ClientConnection | None = scope.get("state", {}).get(STATE)
        if connection is not None and not connection.is_open:
            connection = None  # it ended before its request was read
        if connection is not None:
            host, _ = scope.get("client") or ("", 0)
            use = self._open.setdefault(connection, _Use(host))
            use.verbs.add(verb)
            if use.verbs >= VERBS:
                self._sharing.add(host)
        if verb in _OF_LOOP:
            self._connection = connection

    def gone(self, connection: ClientConnection) -> None:
        """Take note that a connection has ended."""
        use = self._open.pop(connection, None)
        if use is None:
            return
        others = [other for other, used in self._open.items() if used.host == use.host]
        shares = use.host in self._sharing
        if not others:
            self._sharing.discard(use.host)
        if connection is not self._connection:
            return
        self._connection = others[-1] if others and shares else None
        if self._connection is None:
            self._lost()
