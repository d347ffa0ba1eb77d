"""Percentiles that are values which were measured."""

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], q: float) -> float:
    """Return the smallest of the values that at least the share `q` of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(q * len(ordered)) - 1, 0)]
