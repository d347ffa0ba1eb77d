"""Allows data that is nested deeper than Python's default stack."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

DEEPEST: Final = 12_000
"""The API server takes objects that are nested 10,000 levels deep."""


@contextmanager
def deep_stack() -> Iterator[None]:
    """Allow as many nested calls as the deepest object needs; nothing may be awaited inside."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
