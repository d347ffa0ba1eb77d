"""Sets nodes aside for groups that have waited long."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from extender.gang import aging
from extender.gang.options import Options
from extender.runtime.clock import Clock
from extender.state import events as ev
from extender.state.cluster import Cluster

_log = structlog.get_logger(__name__)

EVERY_SECONDS: Final = 1.0


class Aging:
    """Looks once a second at who has waited long; what it decides are the cluster's claims."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        options: Options,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._cluster = cluster
        self._snapshot = cluster.snapshot()
        self._options = options
        self._clock = clock
        self._sleep = sleep

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            self.look()
            await self._sleep(EVERY_SECONDS)

    def look(self) -> None:
        """Make the claims that are due now, and end the others."""
        before = set(self._snapshot.claims)
        claims = aging.decide(
            snapshot=self._snapshot, now=self._clock.wall(), options=self._options
        )
        self._cluster.apply(ev.Claimed(claims))
        for claim in claims:
            if claim.group not in before:
                _log.info("room claimed", group=claim.group, nodes=len(claim.rooms))
