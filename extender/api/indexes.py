"""Completion indexes of an Indexed Job in their compressed form, such as `1,3-5,7`.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/#JobStatus
"""

from collections.abc import Iterator


def count_indexes(text: str) -> int:
    """Return how many indexes a list holds; raises ValueError for what is no such list."""
    return sum(_length(part) for part in text.split(",")) if text else 0


def _length(part: str) -> int:
    first, dash, last = part.partition("-")
    length = (int(last) if dash else int(first)) - int(first) + 1
    if length < 1:
        raise ValueError(f"{part!r} is no range of indexes")
    return length


def count_below(end: int, *texts: str) -> int:
    """Return how many indexes below `end` are in any of the lists; what is no range is left out."""
    total = reached = 0
    for first, last in sorted(_ranges(",".join(texts))):
        last = min(last + 1, end)
        total += max(0, last - max(first, reached))
        reached = max(reached, last)
    return total


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first.isdecimal() and (last.isdecimal() or not dash):
            yield int(first), int(last or first)
