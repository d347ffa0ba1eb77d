"""What amounts that come and go add up to on average."""

from collections.abc import Iterable


def mean(changes: Iterable[tuple[float, str, int]], *, start: float, end: float) -> float:
    """Return the mean of the sum of all amounts between two times; 0.0 where none is between.

    `changes` are in their order: from that time on the thing of that name has that amount. What
    came before the start counts, what comes after the end does not.
    """
    if end <= start:
        return 0.0
    amounts: dict[str, int] = {}
    total, area, before = 0, 0.0, start
    for time, name, amount in changes:
        now = min(max(time, start), end)
        area += total * (now - before)
        before = now
        total += amount - amounts.get(name, 0)
        amounts[name] = amount
    return (area + total * (end - before)) / (end - start)
