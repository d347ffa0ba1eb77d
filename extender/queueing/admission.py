"""The core of admission: it places workloads, begins cycles, and checks the victims of a cycle.

The reconciler's loop and the simulator both drive it. They report changes of the state, run the
cycles and carry out the decisions. The core does no I/O, starts no task and reads no clock.
"""

from collections.abc import Callable, Iterable
from typing import Final

from extender.queueing.cycle import Cycle, Result
from extender.queueing.pending import PendingQueues
from extender.queueing.quota import QuotaTree
from extender.queueing.rules import AdmissionRules
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.view import QueueView

RELEASE_DELAY: Final = 0.5
"""Seconds before ClusterQueues are tried again whose provisional quota was released."""
ROOM_PERIOD: Final = 10.0
"""Seconds after which workloads that lack room on nodes are tried in any case."""


class AdmissionCore:
    """The pending workloads and the quota tree of one process.

    `now` returns seconds since the epoch, `after` calls a function after so many seconds, and
    `wake` asks for another cycle.
    """

    def __init__(
        self,
        view: QueueView,
        rules: AdmissionRules,
        *,
        now: Callable[[], float],
        after: Callable[[float, Callable[[], None]], object],
        wake: Callable[[], object],
    ) -> None:
        self.view, self.rules = view, rules
        self.pending = PendingQueues(rules.options)
        self.tree = QuotaTree(view)
        self._now, self._after, self._wake = now, after, wake
        self._freed: set[str] = set()
        """ClusterQueues whose provisional quota was released, until their workloads are tried."""

    def place(self, key: str) -> None:
        """Place a workload in its queue, or remove it where it waits no more."""
        self.pending.update(key, self.view, self._now())

    def retry_sharing(self, cluster_queues: Iterable[str]) -> None:
        """Try all workloads that share quota with these ClusterQueues."""
        self.pending.requeue_sharing(cluster_queues, self.view, self._now())
        self._wake()

    def cycle(self) -> Cycle:
        """Return a cycle on the state as it is now."""
        self.tree = QuotaTree.current(self.view, self.tree)
        return Cycle(self.view, self.pending, tree=self.tree, rules=self.rules, now=self._now())

    def end(self, result: Result) -> None:
        """Arrange what has to follow a cycle."""
        if result.freed and not self._freed:
            self._after(RELEASE_DELAY, self._retry_freed)
        self._freed |= result.freed
        if result.more:
            self._wake()

    def _retry_freed(self) -> None:
        freed, self._freed = self._freed, set()
        self.retry_sharing(freed)

    def still_evicts(self, victim: str, *, preemptor: str) -> WorkloadInfo | None:
        """Return a victim as it is now, or None where it is not to be evicted any more.

        Later in the cycle the preemptor may have got quota without this victim, may have been
        deleted, or may have given up. Other preemptors that still count on it choose again.
        """
        before = self.view.workloads.get(victim)
        if before is None or self.view.admission(victim) is None:
            return None
        if before.evicted and not self.view.is_assumed(victim):  # else it is being admitted again
            return None
        if victim in self.pending.preemptors.victims(preemptor):
            return before
        self.pending.drop_victim(victim)
        self._wake()
        return None
