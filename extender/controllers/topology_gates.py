"""Gives pods without a PodGroup of the queue their domain, and removes the gate of the topology."""

from typing import Final

import structlog
from cachetools import TTLCache

from extender.kube.pods import PodRef, TopologyGateWriter
from extender.room import gated
from extender.runtime.clock import Clock
from extender.state.cluster.view import ClusterView
from extender.state.queue.view import QueueView
from extender.state.topology import Domain

_log = structlog.get_logger(__name__)
_KNOWN: Final = 100_000
_SECONDS: Final = 60.0


class TopologyGates:
    """Looks at one workload at a time."""

    def __init__(
        self, queues: QueueView, cluster: ClusterView, writer: TopologyGateWriter, *, clock: Clock
    ) -> None:
        self._queues, self._cluster, self._writer = queues, cluster, writer
        self._given: TTLCache[str, Domain] = TTLCache(_KNOWN, _SECONDS, clock.monotonic)
        """By UID: what was written, until the watch has shown it."""

    async def reconcile(self, key: str) -> None:
        """Let the gated pods of a workload go to their domains. Raises ApiError."""
        workload = self._queues.workloads.get(key)
        if workload is None:
            return
        for each in gated.due(workload, cluster=self._cluster, given=self._given):
            self._given[each.pod.uid] = each.domain
            pod = PodRef(each.pod.namespace, each.pod.name, each.pod.uid)
            try:
                await self._writer.open(pod, each.selector)
            except BaseException:
                self._given.pop(each.pod.uid, None)
                raise
            _log.debug("pod goes to its domain", pod=each.pod.key, workload=key)
