"""Wakes pods that were refused, when the reason for it has gone away."""

import asyncio
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from extender.controllers.patches import Failure, Patches
from extender.gang import wake
from extender.gang.options import Options
from extender.gang.wake_for_room import Kind
from extender.kube.pods import PodRef
from extender.runtime.budget import in_turns
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.runtime.workqueue import WorkQueue
from extender.state import events as ev
from extender.state.cluster import Cluster
from extender.state.events import Change
from extender.state.pods import PodInfo
from extender.telemetry.metrics import Metrics

ROOM: Final = ""
"""The queue's key for "room was given back"; no group has an empty name."""
ROOM_REST: Final = "*"
"""The key for those that are still to be woken for it."""
ROOM_SECONDS: Final = 0.1
FAULT_SECONDS: Final = 10.0
"""Seconds until a group is looked at again after an internal error."""
ROOM_AT_ONCE: Final = 20
"""So many are woken for room at a time, each ROOM_SECONDS: kube-scheduler tries some hundred pods
a second, and most of these in vain."""
DEFAULTS: Final = Options()


def is_group(key: str) -> bool:
    """Return whether a key of the queue names a group; others are UIDs of pods, or about room."""
    return "/" in key


class PodPatcher(Protocol):
    """Makes kube-scheduler try pods again; raises ApiError."""

    async def wake(self, pod: PodRef, *, at: str) -> None:
        """Touch a pod's metadata."""
        ...

    async def ungate(self, pod: PodRef) -> None:
        """Take our gate away."""
        ...


@dataclass(frozen=True, slots=True)
class _Patch:
    """Why a pod was refused that is woken; None for one that is ungated."""

    reason: str | None

    @property
    def how(self) -> str:
        """The word in metrics."""
        return "gate" if self.reason is None else "annotation"


class Waker:
    """Decides for one key at a time; the patches are made beside it, so none holds up a decision.

    A pod that could not be patched is tried again after a pause of its own, and its group picks
    another one meanwhile.
    """

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
        self._for_room: deque[PodInfo] = deque()
        """Those that are still to be woken for room that was given back, in their order."""
        self._looked: frozenset[Kind] = frozenset()
        """Kinds of pods whose turn in the decision about room is over, while others had none."""
        self._patches = Patches[_Patch](self._write, done=self._done, failed=self._failed)
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
        if self._for_room:
            # All have their turn before the first ones have another.
            asyncio.get_running_loop().call_later(ROOM_SECONDS, self._look_for_room)
            return
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

    def after(self, key: str, seconds: float) -> None:
        """Have a group looked at later, a pod by its UID, or ROOM."""
        if seconds <= 0:
            self._queue.add(key)  # a timer would take the place of a later one
        else:
            self._queue.add_after(key, seconds)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                key = await self._queue.get()
                try:
                    await self._look(key)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is this key's alone
                    FAULTS.report("waker", error, key=key)
                    self.after(key, FAULT_SECONDS)
                await asyncio.sleep(0)  # many keys may be due at once
        finally:
            await self._patches.end()

    async def _look(self, key: str) -> None:
        resting = self._patches.resting()
        if key == ROOM:
            await self._decide_room(resting)
        elif key == ROOM_REST:
            self._wake_for_room()
        elif is_group(key):
            self._look_at_group(key, resting)
        else:
            self._look_at_pod(key)

    async def _decide_room(self, resting: Collection[str]) -> None:
        steps = wake.deciding_room(
            snapshot=self._snapshot,
            strict=self._options.strict_order,
            resting=resting,
            looked=self._looked,
        )
        found = await in_turns(steps, self._clock)
        self._looked = found.looked
        self._for_room.extend(found.retry)
        self._wake_for_room()

    def _look_at_group(self, group: str, resting: Collection[str]) -> None:
        decision = wake.decide_group(
            group, snapshot=self._snapshot, hold_back=self._options.hold_back, resting=resting
        )
        self._wake(group, decision.retry)
        self._patches.add(group, ((pod, _Patch(None)) for pod in decision.ungate))

    def _look_at_pod(self, uid: str) -> None:
        """Try a pod again that could not be patched, or that was to be looked at alone."""
        pod, refusal = self._snapshot.pods.get(uid), self._snapshot.refused.get(uid)
        if pod is None:
            self._patches.forget(uid)
        elif refusal is not None:
            self._wake(pod.group or uid, (refusal.pod,))
        elif pod.group is not None and pod.is_held_back:
            self._queue.add(pod.group)
        else:
            self._patches.forget(uid)

    def _wake_for_room(self) -> None:
        """Wake the next ones; the others have their turn a moment later."""
        count = min(ROOM_AT_ONCE, len(self._for_room))
        self._wake(ROOM, [self._for_room.popleft() for _ in range(count)])
        if self._for_room:
            self._queue.add_after(ROOM_REST, ROOM_SECONDS)

    def _wake(self, batch: str, pods: Collection[PodInfo]) -> None:
        refused = self._snapshot.refused
        reasons = {pod.uid: refused[pod.uid].reason for pod in pods if pod.uid in refused}
        if reasons:
            self._cluster.apply(ev.PodsTried(list(reasons)))
            patches = [(pod, _Patch(reasons[pod.uid])) for pod in pods if pod.uid in reasons]
            # A pod that is being patched was tried since, or it would not be refused again.
            self._patches.add(batch, patches, again=True)

    async def _write(self, pod: PodInfo, patch: _Patch) -> None:
        ref = PodRef(pod.namespace, pod.name, pod.uid)
        if patch.reason is None:
            await self._patcher.ungate(ref)
        else:
            at = datetime.fromtimestamp(self._clock.wall(), UTC).isoformat()
            await self._patcher.wake(ref, at=at)

    def _done(self, patch: _Patch) -> None:
        self._metrics.woken_pods.labels(patch.how).inc()

    def _failed(self, failure: Failure[_Patch]) -> None:
        pod, patch = failure.pod, failure.patch
        kind = type(failure.error).__name__.removesuffix("Error")
        self._metrics.wake_failures.labels(kind).inc()
        if patch.reason is not None:
            self._refuse_again(pod.uid, patch.reason)
        self._queue.add_after(pod.uid, failure.pause)
        if failure.is_of_this_pod and pod.group is not None and patch.reason is not None:
            self._queue.add(pod.group)
            # A sibling that lacks room is picked where it is about room.
            self.on_change(ev.Change(room=True))

    def _refuse_again(self, uid: str, reason: str) -> None:
        """Keep the reason of a pod that has neither a node nor a newer refusal by now."""
        now = self._snapshot.pods.get(uid)
        if now is not None and now.node is None and uid not in self._snapshot.refused:
            self._cluster.apply(ev.PodRefused(now, reason))
