"""Asyncio without a loop that nobody closes: see `tests.makers`."""

import tests.makers  # noqa: F401
