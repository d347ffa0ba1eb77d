"""How many examples property tests play: `EXAMPLES=100` plays a hundred times as many."""

import os
from typing import Final

FACTOR: Final = int(os.environ.get("EXAMPLES") or "1")


def examples(number: int) -> int:
    """Return how many examples a test plays that plays so many in a common run."""
    return number * FACTOR
