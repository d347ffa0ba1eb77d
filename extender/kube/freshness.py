"""How long ago the API server was last heard of, by each watch."""

from dataclasses import dataclass, field

from extender.runtime.clock import Clock, SystemClock


@dataclass(slots=True)
class Freshness:
    """Of one watch: when something came last, and what has gone wrong since.

    What counts is what the API server sends: a page of a list, an event, a bookmark. A connection
    that stands and says nothing does not.
    """

    clock: Clock = field(default_factory=SystemClock)
    trouble: str = ""
    """The last error, until something comes again."""
    _heard: float | None = None
    _began: float = 0.0

    def __post_init__(self) -> None:
        """Count from now where nothing comes at all."""
        self._began = self.clock.monotonic()

    def heard(self) -> None:
        """Record that something came."""
        self._heard = self.clock.monotonic()
        self.trouble = ""

    def failed(self, error: Exception) -> None:
        """Record an error."""
        self.trouble = str(error)

    @property
    def age(self) -> float:
        """Seconds since something came, or since the beginning where nothing ever did."""
        last = self._began if self._heard is None else self._heard
        return self.clock.monotonic() - last

    def stale(self, limit: float) -> str | None:
        """Return what is wrong once nothing has come for `limit` seconds, or None."""
        age = self.age
        if age <= limit:
            return None
        since = f"nothing heard for {age:.0f} s, the limit is {limit:.0f} s"
        return f"{since}: {self.trouble}" if self.trouble else since
