"""Has pods tried again whose preemption failed because no extender answered kube-scheduler.

For such a pod kube-scheduler waits until another one goes, or for five minutes. A nominated node
that is taken back counts for it as a pod that goes, for all pods of that priority or a lower one.
"""

import asyncio
import re
from typing import Final

import structlog

from extender.kube.errors import ApiError
from extender.kube.pods import PodRef
from extender.kube.preemptions import VictimWriter
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster

PAUSES: Final = (1.0, 30.0)
"""The first pause before pods are tried again, and the longest: each is twice the one before, for
the extender may still be away."""
_NO_ANSWER: Final = re.compile(r'preemption: (Post "|failed \S+ with extender at URL)')

_log = structlog.get_logger(__name__)


class FailedCalls:
    """Knows the pods whose PodScheduled condition says so."""

    def __init__(self, cluster: Cluster, writer: VictimWriter) -> None:
        self._view = cluster.view()
        self._writer = writer
        self._failed: set[str] = set()
        self._changed = asyncio.Event()
        cluster.subscribe(self.on_change)

    def on_change(self, change: ClusterChange) -> None:
        """Note the pods that have just failed so."""
        failed = {uid for uid in change.unschedulable if self._has_failed(uid)}
        if failed:
            self._failed |= failed
            self._changed.set()

    async def run(self) -> None:
        """Work until cancelled."""
        first, longest = PAUSES
        pause = first
        while True:
            await self._changed.wait()
            await asyncio.sleep(pause)
            self._failed = {uid for uid in self._failed if self._has_failed(uid)}
            if not self._failed:
                self._changed.clear()
                pause = first
                continue
            pause = min(longest, pause * 2)
            pod = max((self._view.pods[uid] for uid in self._failed), key=lambda pod: pod.priority)
            try:
                await self._try_again(pod)
            except ApiError as error:
                _log.warning("pods are not tried again", pod=pod.key, error=str(error))

    async def _try_again(self, pod: PodInfo) -> None:
        """Nominate a node for a moment."""
        _log.info("tried again: no extender answered", pod=pod.key, pods=len(self._failed))
        ref, node = PodRef(pod.namespace, pod.name, pod.uid), next(iter(self._view.nodes), None)
        if pod.nominated is None and node is not None:
            await self._writer.nominate(ref, node)
        await self._writer.nominate(ref, None)

    def _has_failed(self, uid: str) -> bool:
        pod = self._view.pods.get(uid)
        said = pod.unschedulable if pod is not None and pod.node is None else None
        return said is not None and _NO_ANSWER.search(said) is not None
