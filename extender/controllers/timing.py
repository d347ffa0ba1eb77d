"""The times of the controllers, in seconds, and how much they write at a time.

Where nothing forces a value, use one of these.
"""

from typing import Final

LOOK_AGAIN: Final = 1.0
"""The pause between two looks at what no watch reports, and before a failed write is repeated."""
SETTLE: Final = 5.0
"""Enough for an ordinary change to complete: pods are made, an API server reads a changed CRD."""
WATCH_LAG: Final = 10.0
"""The time for which a cache may still show the state before a write."""
UNNOTICED: Final = 30.0
"""How long an operator may take to notice a stop before that is reported. The documentation states
this value."""
LATE: Final = 60.0
"""The pause after a failure that only an administrator can resolve; an earlier attempt would fail
as well. Also the time after which a wait is taken for trouble."""
STAND_BACK: Final = 600.0
"""The time for which a job is left to another writer of `suspend`."""
CONCURRENT_WRITES: Final = 32
"""Writes at a time of one kind: half of the connections that there are by default."""
