"""Jobs of batch/v1: completion indexes such as `1,3-5,7`, and how many pods a Job runs at once.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/#JobStatus
"""

import re
from functools import lru_cache
from typing import Final

_PART: Final = re.compile(r"(?:^|(?<=,))([0-9]{1,10})(?:-([0-9]{1,10}))?(?=,|\Z)")
"""An index or a range. Longer numbers are not indexes, and slow to read."""
INDEX_END: Final = 10**10
"""No index is so large."""


@lru_cache(maxsize=8)  # a job is asked about several times in a row
def indexes_below(end: int, *texts: str) -> frozenset[int]:
    """Return the indexes below `end` that are in any list, without parts that are not a range."""
    found = set[int]()
    for text in texts:
        for low, high in _PART.findall(text):
            if high:
                found.update(range(int(low), min(int(high) + 1, end)))
            elif int(low) < end:
                found.add(int(low))
    return frozenset(found)


def pods_at_first(parallelism: int, completions: int | None) -> int:
    """Return the number of pods that a Job starts with."""
    return parallelism if completions is None else min(parallelism, completions)


def pods_left(parallelism: int, completions: int | None, *, done: int, active: int) -> int:
    """Return how many pods a Job will run at once, given the number that are done for good.

    A Job without `completions` is a work queue: once a pod has succeeded, no other is created, so
    that only the `active` pods are left.
    """
    if completions is not None:
        return min(parallelism, max(0, completions - done))
    return min(parallelism, active) if done else parallelism
