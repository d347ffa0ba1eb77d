"""Drops pods that only requests have shown: kube-scheduler may be ahead of the watch, not for long.

A pod in a filter request is taken in so that its gang can be planned at once. If no watch shows it
within a bound it was invented, or is gone, and everything that was kept for it is given back.
"""

import asyncio
from typing import Final

import structlog

from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as ev
from extender.state.cluster.store import Cluster

_log = structlog.get_logger(__name__)

LONGEST_SECONDS: Final = 30.0
"""Longer than a list of a large cluster takes, during which no watch shows anything."""
EVERY_SECONDS: Final = 5.0


class Unconfirmed:
    """Looks every few seconds at pods that no watch has shown yet."""

    def __init__(self, cluster: Cluster, *, clock: Clock) -> None:
        self._cluster = cluster
        self._view = cluster.view()
        self._clock = clock
        self._since: dict[str, float] = {}
        """By UID: when this component first found the pod, by the monotonic clock."""

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("unconfirmed", error)
            await asyncio.sleep(EVERY_SECONDS)

    def look(self) -> None:
        """Drop the pods whose time is over."""
        now, before = self._clock.monotonic(), self._since
        self._since = {uid: before.get(uid, now) for uid in self._view.seen}
        over = [uid for uid, since in self._since.items() if now - since >= LONGEST_SECONDS]
        if over:
            _log.warning("pods of requests never came into the watch", pods=len(over))
            self._cluster.apply(ev.SeenEnded(over))
