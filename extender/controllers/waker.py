"""Wakes pods that were refused, when the reason for it has gone away."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Final, Protocol

import structlog

from extender.gang import wake
from extender.gang.options import Options
from extender.kube.errors import ApiError
from extender.kube.pods import PodRef
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.runtime.workqueue import WorkQueue
from extender.state import events as ev
from extender.state.cluster import Cluster
from extender.state.events import Change
from extender.state.pods import PodInfo
from extender.telemetry.metrics import Metrics

_log = structlog.get_logger(__name__)

ROOM: Final = ""
"""The queue's key for "room was given back"; no group has an empty name."""
RETRY_SECONDS: Final = 1.0
ROOM_SECONDS: Final = 0.1
FAULT_SECONDS: Final = 10.0
"""Seconds until a group is looked at again after an internal error."""
PARALLEL: Final = 32
DEFAULTS: Final = Options()


class PodPatcher(Protocol):
    """Makes kube-scheduler try pods again; raises ApiError."""

    async def wake(self, pod: PodRef, *, at: str) -> None:
        """Touch a pod's metadata."""
        ...

    async def ungate(self, pod: PodRef) -> None:
        """Take our gate away."""
        ...


class Waker:
    """Decides for one group at a time and patches its pods in parallel."""

    def __init__(
        self,
        cluster: Cluster,
        patcher: PodPatcher,
        *,
        clock: Clock,
        metrics: Metrics,
        options: Options = DEFAULTS,
    ) -> None:
        self._cluster = cluster
        self._snapshot = cluster.snapshot()
        self._patcher = patcher
        self._clock = clock
        self._metrics = metrics
        self._queue: WorkQueue[str] = WorkQueue()
        self._options = options
        self._room_soon = False
        cluster.subscribe(self.on_change)

    def on_change(self, change: Change) -> None:
        """Have the groups that a change touched looked at."""
        for group in change.groups:
            self._queue.add(group)
        # In strict order a group that starts, or that lost a pod, lets the next one have its turn.
        turn = self._options.strict_order and bool(change.groups)
        if (change.room or turn) and not self._room_soon:
            # A plan that moves gives room back at every step; once in a while is enough.
            self._room_soon = True
            asyncio.get_running_loop().call_later(ROOM_SECONDS, self._look_for_room)

    def _look_for_room(self) -> None:
        self._room_soon = False
        self._queue.add(ROOM)

    def recover(self) -> Iterator[None]:
        """Take up the refusals of an earlier run, once the whole cluster has been seen."""
        for uid in [*self._snapshot.pods]:
            pod = self._snapshot.pods.get(uid)
            reason = wake.refused_before(pod) if pod is not None else None
            yield
            if pod is not None and reason is not None:
                self._cluster.apply(ev.PodRefused(pod, reason))
                self._queue.add(pod.group or ROOM)

    def after(self, group: str, seconds: float) -> None:
        """Have a group looked at later."""
        self._queue.add_after(group, seconds)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            key = await self._queue.get()
            try:
                await self._act(self._decide(key))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this group's alone
                FAULTS.report("waker", error, key=key)
                self.after(key, FAULT_SECONDS)

    def _decide(self, key: str) -> wake.Wake:
        if key == ROOM:
            return wake.decide_room(snapshot=self._snapshot, strict=self._options.strict_order)
        return wake.decide_group(key, snapshot=self._snapshot, hold_back=self._options.hold_back)

    async def _act(self, decision: wake.Wake) -> None:
        if not decision.retry and not decision.ungate:
            return
        reasons = {pod.uid: self._snapshot.refused[pod.uid].reason for pod in decision.retry}
        self._cluster.apply(ev.PodsTried(list(reasons)))
        at = datetime.fromtimestamp(self._clock.wall(), UTC).isoformat()
        limit = asyncio.Semaphore(PARALLEL)

        async def patch(pod: PodInfo, how: str, write: Callable[[PodRef], Awaitable[None]]) -> None:
            async with limit:
                if not await self._patched(pod, how, write) and pod.uid in reasons:
                    self._cluster.apply(ev.PodRefused(pod, reasons[pod.uid]))

        async with asyncio.TaskGroup() as tasks:
            for pod in decision.retry:
                tasks.create_task(patch(pod, "annotation", lambda p: self._patcher.wake(p, at=at)))
            for pod in decision.ungate:
                tasks.create_task(patch(pod, "gate", self._patcher.ungate))

    async def _patched(
        self, pod: PodInfo, how: str, write: Callable[[PodRef], Awaitable[None]]
    ) -> bool:
        try:
            await write(PodRef(pod.namespace, pod.name, pod.uid))
        except ApiError as error:
            _log.warning("could not wake a pod", pod=pod.key, error=str(error))
            self.after(pod.group or ROOM, RETRY_SECONDS)
            if pod.group:
                self.after(ROOM, RETRY_SECONDS)  # it may have lacked nothing else
            return False
        self._metrics.woken_pods.labels(how).inc()
        return True
