"""Completion indexes of an Indexed Job in their compressed form, such as `1,3-5,7`.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/#JobStatus
"""


def count_indexes(text: str) -> int:
    """Return how many indexes a list holds; raises ValueError for what is no such list."""
    return sum(_length(part) for part in text.split(",")) if text else 0


def _length(part: str) -> int:
    first, dash, last = part.partition("-")
    length = (int(last) if dash else int(first)) - int(first) + 1
    if length < 1:
        raise ValueError(f"{part!r} is no range of indexes")
    return length
