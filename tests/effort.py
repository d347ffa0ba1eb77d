"""How many examples property tests play: `EXAMPLES=100` plays a hundred times as many."""

import os
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Final

from hypothesis import example

FACTOR: Final = float(os.environ.get("EXAMPLES") or "1")


def examples(number: int) -> int:
    """Return how many examples a test plays whose full number is `number`: at least five."""
    return max(round(number * FACTOR), min(number, 5))


def played(each: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return a decorator that has a test play these examples, too, which are named."""

    def decorate(test: Any) -> Any:
        return reduce(lambda found, one: example(one)(found), each.values(), test)

    return decorate
