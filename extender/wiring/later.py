"""Changes that concern many workloads: noted at once, and followed in steps."""

import asyncio
from dataclasses import dataclass, field

from extender.state.queue.events import QueueChange


@dataclass(slots=True)
class Later:
    """The changes since the last `take`."""

    cluster_queues: set[str] = field(default_factory=set)
    """ClusterQueues with another spec, other flavors or other cohorts than before."""
    priority_classes: set[str] = field(default_factory=set)
    """WorkloadPriorityClasses whose value is new."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, change: QueueChange) -> None:
        """Add a change."""
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
