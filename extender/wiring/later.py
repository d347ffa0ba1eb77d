"""Settings that concern many workloads: they are noted at once, and followed with rests."""

import asyncio
from dataclasses import dataclass, field

from extender.state.queues.events import Change


@dataclass(slots=True)
class Later:
    """What has changed since it was taken last."""

    cluster_queues: set[str] = field(default_factory=set)
    """ClusterQueues with another spec, other flavors or other cohorts than before."""
    priority_classes: set[str] = field(default_factory=set)
    """WorkloadPriorityClasses whose value is new."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, change: Change) -> None:
        """Add what a change says."""
        if change.structure:
            self.cluster_queues |= change.cluster_queues
        self.priority_classes |= change.priority_classes
        if change.structure or change.priority_classes:
            self._news.set()

    async def take(self) -> tuple[set[str], set[str]]:
        """Return the ClusterQueues and the WorkloadPriorityClasses that changed, once any did."""
        await self._news.wait()
        self._news.clear()
        taken = self.cluster_queues, self.priority_classes
        self.cluster_queues, self.priority_classes = set(), set()
        return taken
