"""How many examples property tests play: `EXAMPLES=100` plays a hundred times as many."""

import os
from typing import Final

FACTOR: Final = float(os.environ.get("EXAMPLES") or "1")


def examples(number: int) -> int:
    """Return how many examples a test plays whose full number is `number`: at least five."""
    return max(round(number * FACTOR), min(number, 5))
