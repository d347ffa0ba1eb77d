"""Jobs of batch/v1: completion indexes such as `1,3-5,7`, and how many pods a Job runs at once.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/#JobStatus
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, pairwise
from operator import lt
from typing import Final

import msgspec

_PART: Final = re.compile(r"(?:^|(?<=,))([0-9]{1,10})(?:-([0-9]{1,10}))?(?=,|\Z)")
"""An index or a range. Longer numbers are not indexes, and slow to read."""
INDEX_END: Final = 10**10
"""No index is so large."""
_CHARACTERS: Final = b"0123456789,-"
_TWO_DASHES: Final = re.compile(r"-[0-9]*-")
_numbers = msgspec.json.Decoder(list[int]).decode

Bounds = tuple[list[int], list[int]]
"""The first and the last index of each part."""


@lru_cache(maxsize=8)  # a job is asked about several times in a row
def count_below(end: int, *texts: str) -> int:
    """Count the indexes below `end` that are in any list, without parts that are not a range."""
    found = [_bounds(text) for text in texts if text]
    firsts = [index for each, _ in found for index in each]
    lasts = [index for _, each in found for index in each]
    pairs = (firsts, lasts) if len(found) < 2 else (sorted(firsts), sorted(lasts))
    if _are_apart(*pairs):
        return _sum_below(end, *pairs)
    return _sweep(end, firsts, lasts)


def indexes_below(end: int, *texts: str) -> frozenset[int]:
    """Return the indexes below `end` that are in any list."""
    found = (zip(*_bounds(text), strict=True) for text in texts if text)
    return frozenset(
        index
        for each in found
        for first, last in each
        for index in range(first, min(last + 1, end))
    )


def _bounds(text: str) -> Bounds:
    """Return the parts of a list.

    A list as the job controller writes it is read as JSON, with the last index of each range as a
    negative number, which is much faster than taking it apart as text.
    """
    if text.isascii() and not text.encode().translate(None, _CHARACTERS):
        try:
            return _signed(text)
        except (msgspec.MsgspecError, ValueError):
            pass
    pairs = [*_ranges(text)]
    return [first for first, _ in pairs], [last for _, last in pairs]


def _signed(text: str) -> Bounds:
    """Return the parts of a list. Raises MsgspecError or ValueError if a part is not a range."""
    numbers = _numbers(f"[{text.replace('-', ',-')}]")
    if "-" not in text:
        firsts, lasts = numbers, numbers
    elif _TWO_DASHES.search(text):
        raise ValueError("a part with two dashes")
    else:
        firsts = [number for number in numbers if number >= 0]
        numbers.append(0)
        lasts = [-then if then < 0 else number for number, then in pairwise(numbers) if number >= 0]
    backward = firsts is not lasts and any(map(lt, lasts, firsts))
    if backward or len(firsts) != text.count(",") + 1 or max(lasts) >= INDEX_END:
        raise ValueError("a part that is no range")
    return firsts, lasts


def _are_apart(firsts: list[int], lasts: list[int]) -> bool:
    """Return whether the parts are in order and do not overlap."""
    return all(map(lt, lasts, islice(firsts, 1, None)))


def _sum_below(end: int, firsts: list[int], lasts: list[int]) -> int:
    count = bisect_left(firsts, end)
    beyond = max(0, lasts[count - 1] + 1 - end) if count else 0
    return sum(lasts[:count]) - sum(firsts[:count]) + count - beyond


def _sweep(end: int, firsts: list[int], lasts: list[int]) -> int:
    total = reached = 0
    for first, last in sorted(zip(firsts, lasts, strict=True)):
        after = min(last + 1, end)
        if after > reached:
            total += max(0, after - max(first, reached))
            reached = after
    return total


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    for low, high in _PART.findall(text):
        first, last = int(low), int(high or low)
        if first <= last:
            yield first, last


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
