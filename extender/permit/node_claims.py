"""Claims nodes for groups that have waited long."""

import asyncio
from collections.abc import Collection, Mapping

import structlog

from extender.gang import aging
from extender.gang.options import GangOptions
from extender.permit.timing import LATE_SECONDS, SLICE_SECONDS
from extender.runtime.clock import Clock, in_turns
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as ev
from extender.state.cluster.records import LONGEST_SECONDS
from extender.state.cluster.store import Cluster
from extender.steps import FairShare, Steps

_log = structlog.get_logger(__name__)


class NodeClaims:
    """Looks every other second at groups that have waited long, and sets the cluster's claims."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        options: GangOptions,
        clock: Clock,
        schedulers: Collection[str] | None = None,
    ) -> None:
        self._cluster = cluster
        self._view = cluster.view()
        self._options = options
        self._clock = clock
        self._schedulers = schedulers
        self._entered: dict[str, float] | None = None
        self._share = FairShare(aging.MOST)

    async def run(self) -> None:
        """Work until cancelled, for a short while at once."""
        while True:
            try:
                await in_turns(self.looking(), self._clock, seconds=SLICE_SECONDS)
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("node-claims", error)
            await asyncio.sleep(LATE_SECONDS)

    def looking(self) -> Steps[None]:
        """Make the claims that are due now, and end the others, in steps: it may take long."""
        self._end_grants()
        claims = yield from aging.deciding(
            self._share,
            view=self._view,
            now=self._clock.wall(),
            options=self._options,
            entered=self._when_entered(),
            schedulers=self._schedulers,
        )
        # A group may have got its room since its claim was decided.
        claims = [each for each in claims if each.owner in self._view.queue]
        before = set(self._view.claims)
        self._cluster.apply(ev.Claimed(claims))
        for claim in claims:
            if claim.amounts and claim.owner not in before:
                _log.info("room claimed", group=claim.owner, nodes=len(claim.amounts))

    def _end_grants(self) -> None:
        now, grants = self._clock.wall(), self._view.grants
        # A tenant that writes a grant itself cannot keep room for longer than this.
        latest = now + LONGEST_SECONDS
        ended = [g for g, each in grants.items() if not now < (each.until or 0.0) <= latest]
        if ended:
            _log.info("granted room was not used in time", groups=len(ended), first=ended[0])
            self._cluster.apply(ev.GrantsEnded(ended))

    def _when_entered(self) -> Mapping[str, float]:
        """Return when each group first came into the queue; 0 if it was there from the start.

        A group that leaves the queue with a plan and comes back has waited all the while.
        """
        now = 0.0 if self._entered is None else self._clock.wall()
        there = self._view.groups
        known = {group: at for group, at in (self._entered or {}).items() if group in there}
        self._entered = dict.fromkeys(self._view.queue, now) | known
        return self._entered
