"""Sets nodes aside for groups that have waited long."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

import structlog

from extender.gang import aging
from extender.gang.options import Options
from extender.runtime.budget import in_turns
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.state import events as ev
from extender.state.claims import LONGEST_SECONDS
from extender.state.cluster import Cluster
from extender.steps import Steps, at_once

_log = structlog.get_logger(__name__)

EVERY_SECONDS: Final = 2.0
SLICE_SECONDS: Final = 0.01
"""How long a look may take at once, and rests then."""


class Aging:
    """Looks every other second at who has waited long; what it decides are the cluster's claims."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        options: Options,
        clock: Clock,
        schedulers: Collection[str] | None = None,
    ) -> None:
        self._cluster = cluster
        self._snapshot = cluster.snapshot()
        self._options = options
        self._clock = clock
        self._schedulers = schedulers
        self._entered: dict[str, float] | None = None
        self._memory = aging.Memory()

    async def run(self) -> None:
        """Work until cancelled, for a short while at once."""
        while True:
            try:
                await in_turns(self.looking(), self._clock, seconds=SLICE_SECONDS)
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("aging", error)
                # It has taken note of changes that no claim was checked against.
                self._memory = aging.Memory()
            await asyncio.sleep(EVERY_SECONDS)

    def look(self) -> None:
        """Make the claims that are due now, and end the others, however long it takes."""
        at_once(self.looking())

    def looking(self) -> Steps[None]:
        """Do the same step by step: a look may take long, and others wait meanwhile."""
        self._end_grants()
        claims = yield from aging.deciding(
            self._memory,
            snapshot=self._snapshot,
            now=self._clock.wall(),
            options=self._options,
            entered=self._when_entered(),
            schedulers=self._schedulers,
        )
        # A group may have got its room since its claim was decided.
        claims = [each for each in claims if each.group in self._snapshot.queue]
        before = set(self._snapshot.claims)
        self._cluster.apply(ev.Claimed(claims))
        for claim in claims:
            if claim.rooms and claim.group not in before:
                _log.info("room claimed", group=claim.group, nodes=len(claim.rooms))

    def _end_grants(self) -> None:
        now, grants = self._clock.wall(), self._snapshot.grants
        # Nobody has room for as long as they like by writing it down themselves.
        ended = [g for g, grant in grants.items() if not now < grant.until <= now + LONGEST_SECONDS]
        if ended:
            _log.info("granted room was not used in time", groups=len(ended), first=ended[0])
            self._cluster.apply(ev.GrantsEnded(ended))

    def _when_entered(self) -> Mapping[str, float]:
        """Return when groups first came into the queue; 0 for those that were in it at the start.

        A group that leaves the queue with a plan and comes back has waited all the while.
        """
        now = 0.0 if self._entered is None else self._clock.wall()
        known = {group: at for group, at in (self._entered or {}).items() if self._exists(group)}
        self._entered = dict.fromkeys(self._snapshot.queue, now) | known
        return self._entered

    def _exists(self, group: str) -> bool:
        return group in self._snapshot.groups
