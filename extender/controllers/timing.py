"""The times of the controllers, in seconds. Where nothing forces a value, use one of these."""

from typing import Final

LOOK_AGAIN: Final = 1.0
"""The pause between two looks at what no watch reports, and before a failed write is repeated."""
SETTLE: Final = 5.0
"""Enough for an ordinary change to complete: pods are made, an API server reads a changed CRD."""
WATCH_LAG: Final = 10.0
"""The time for which a cache may still show the state before a write."""
UNNOTICED: Final = 30.0
"""The time after which an operator that has not noticed a stop is reported; users know it."""
LATE: Final = 60.0
"""Something is wrong, or needs an administrator: nothing is gained by trying sooner."""
STAND_BACK: Final = 600.0
"""The time for which a job is left to another writer of `suspend`."""
