"""A limit for expensive requests: few at a time, few of one caller."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from extender.server.status import StatusError

RETRY_SECONDS: Final = 1


class Turnstile:
    """Serves requests one after the other, and refuses those beyond the limits at once."""

    def __init__(self, *, at_once: int = 1, most: int = 16, each: int = 4) -> None:
        """Serve `at_once` requests; `most` may be here, and `each` of one named caller."""
        self._slots = asyncio.Semaphore(at_once)
        self._most = most
        self._each = each
        self._here: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, caller: str = "") -> AsyncIterator[None]:
        """Wait for a turn; raises StatusError 429 where too many wait already."""
        if self._here.total() >= self._most or (caller and self._here[caller] >= self._each):
            raise StatusError(
                429,
                "too many requests are being answered, try again later",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        self._here[caller] += 1
        try:
            async with self._slots:
                yield
        finally:
            self._here[caller] -= 1
            if not self._here[caller]:
                del self._here[caller]
