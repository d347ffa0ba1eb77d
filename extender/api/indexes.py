"""Completion indexes of an Indexed Job in their compressed form, such as `1,3-5,7`.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/#JobStatus
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

_PART: Final = re.compile(r"(?:^|(?<=,))([0-9]{1,10})(?:-([0-9]{1,10}))?(?=,|$)")
"""An index or a range. Longer numbers are nobody's, and those of thousands of digits no numbers."""


def count_indexes(text: str) -> int:
    """Return how many indexes a list holds; raises ValueError for what is no such list."""
    return sum(_length(part) for part in text.split(",")) if text else 0


def _length(part: str) -> int:
    first, dash, last = part.partition("-")
    length = (int(last) if dash else int(first)) - int(first) + 1
    if length < 1:
        raise ValueError(f"{part!r} is no range of indexes")
    return length


@lru_cache(maxsize=8)  # one look at a job asks several times
def count_below(end: int, *texts: str) -> int:
    """Return how many indexes below `end` are in any of the lists; what is no range is left out."""
    total = reached = 0
    for first, last in sorted(_ranges(",".join(texts))):
        last = min(last + 1, end)
        if last > reached:
            total += max(0, last - max(first, reached))
            reached = last
    return total


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    for first, last in _PART.findall(text):
        low = int(first)
        high = int(last) if last else low
        if low <= high:
            yield low, high
