"""Wakes pods that were refused, once the reason for the refusal has gone.

`Waker` wakes pods after watched events and at times that `filter.py` sets, and `MissedWakeups`
tries pods again that nothing has woken.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

import structlog
from cachetools import TTLCache

from extender.gang import wake
from extender.gang.release import ANYWHERE, Release, choosing
from extender.gang.wake import PodKind
from extender.kube.errors import ApiError, UnavailableError
from extender.kube.pods import PodRef, PodWriter
from extender.permit.plans import Plans
from extender.permit.timing import (
    BACK_OFF_SECONDS,
    FEW,
    LONG_SECONDS,
    LOOK_SECONDS,
    MOMENT_SECONDS,
    PATIENCE_SECONDS,
    REMEMBERED,
    ROOM_AT_ONCE,
    SPARED_SECONDS,
)
from extender.runtime.clock import in_turns
from extender.runtime.controller import WorkQueue
from extender.runtime.faults import FAULTS, asked_pause
from extender.state.cluster import events as ev
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodInfo, Refusal
from extender.state.cluster.store import Cluster
from extender.steps import PIECE, FairShare, Steps
from extender.telemetry.metrics import Metrics

_log = structlog.get_logger(__name__)

ROOM: Final = ""
"""The queue's key for "room was given back"; no group has an empty name."""
ROOM_REST: Final = "*"
"""The key for the pods that are still to be woken for that room."""


def is_group(key: str) -> bool:
    """Return whether a key of the queue names a group; others are UIDs of pods, or ROOM keys."""
    return "/" in key


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch of a pod, its kind by the word in metrics, and the reason of the refusal it ends."""

    pod: PodInfo
    how: Literal["annotation", "label", "spread", "gate"]
    reason: str | None = None
    domain: tuple[str, str] | None = None
    """The label of nodes that it asks for from then on, and its value."""


class Waker:
    """Decides about one key at a time; patches run on the side, so that none holds up a decision.

    A pod that could not be patched is tried again after a pause of its own, and its group picks
    another member meanwhile: soon if the API server is unavailable, and rarely if it rejects the
    patch, because a retry does not change the answer.
    """

    def __init__(
        self,
        cluster: Cluster,
        patcher: PodWriter,
        plans: Plans,
        *,
        metrics: Metrics,
    ) -> None:
        self._cluster = cluster
        self._view = cluster.view()
        self._patcher = patcher
        self._clock = plans.clock
        self._awaiting_bind = plans.verdicts.awaiting_bind
        self._metrics = metrics
        self._queue: WorkQueue[str] = WorkQueue()
        self._options = plans.verdicts.options
        self._for_room: deque[PodInfo] = deque()
        """The pods that are still to be woken for room that was given back, in their order."""
        self._room_rests = False
        """True while the last pods were woken for room less than MOMENT_SECONDS ago."""
        self._looked: frozenset[PodKind] = frozenset()
        """The kinds of pods that had their turn in the decision about room before others."""
        self._patches: dict[str, dict[str, Patch]] = {}
        """The patches that are to be made, by namespace and UID; the first namespace is next."""
        self._running: dict[str, asyncio.Task[None]] = {}
        """The patches that are under way, by UID."""
        self._again: dict[str, Patch] = {}
        """The patch that a pod gets after the one under way, by UID."""
        self._rests: dict[str, tuple[float, float]] = {}
        """The last pause of each pod that could not be patched, and its end, in the loop's time."""
        self._spared: dict[str, float] = {}
        """The time until which members that can be bound with another are not woken, by group."""
        cluster.subscribe(self.on_change)
        plans.planner.on_end(self.after)

    def on_change(self, change: ClusterChange) -> None:
        """Queue the groups that a change touched, and ROOM if it may have given room back."""
        for group in change.groups:
            self._queue.add(group)
            if group in self._spared:
                tally = self._view.tally(group)
                if not tally.waiting and not tally.planned:
                    del self._spared[group]
        # In strict order a group that starts, or that lost a pod, lets the next one have its turn.
        turn = self._options.strict_order and bool(change.groups)
        if change.room or turn:
            # A plan that moves gives room back at every step; to look now and then is enough.
            self._queue.add_after(ROOM, MOMENT_SECONDS)

    def recover(self) -> Iterator[None]:
        """Repeat the refusals of an earlier run, once the whole cluster has been seen."""
        for uid in [*self._view.pods]:
            pod = self._view.pods.get(uid)
            reason = wake.refused_before(pod) if pod is not None else None
            yield
            if pod is not None and reason is not None:
                self._cluster.apply(ev.PodRefused(pod, reason))
                self._queue.add(pod.group or ROOM)

    def after(self, key: str, seconds: float) -> None:
        """Look at a key after this many seconds: a group, a pod by its UID, or ROOM."""
        if seconds <= 0:
            self._queue.add(key)  # a timer would take the place of a later one
        else:
            self._queue.add_after(key, seconds)

    def again(self, uid: str) -> None:
        """Have a refused pod tried again, unless it rests because it could not be patched."""
        if uid not in self._resting():
            self._queue.add(uid)

    def try_beside(self, pods: Mapping[str, bool]) -> None:
        """Have members, by UID, tried again that kube-scheduler refused itself.

        The value is True if a member is to be spread.
        """
        resting, known = self._resting(), self._view.pods
        able = [(known[uid], spread) for uid, spread in pods.items() if uid not in resting]
        self._patch((Patch(pod, "spread" if each else "label") for pod, each in able), again=True)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                key = await self._queue.get()
                try:
                    await self._look(key)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is this key's alone
                    FAULTS.report("waker", error, key=key)
                    self.after(key, BACK_OFF_SECONDS)
                await asyncio.sleep(0)  # many keys may be due at once
        finally:
            for task in self._running.values():
                task.cancel()
            if self._running:
                await asyncio.wait(self._running.values())

    async def _look(self, key: str) -> None:
        resting = self._resting()
        if key == ROOM and self._room_rests:
            # Every pod has its turn before the first ones have another.
            self._queue.add_after(ROOM, MOMENT_SECONDS)
        elif key == ROOM:
            steps = wake.deciding_room(
                view=self._view,
                strict=self._options.strict_order,
                resting=resting,
                looked=self._looked,
            )
            found = await in_turns(steps, self._clock)
            self._looked = found.looked
            self._for_room.extend(found.retry)
            self._wake_for_room()
        elif key == ROOM_REST:
            self._wake_for_room()
        elif is_group(key):
            release = ANYWHERE
            if self._view.growing:
                release = await in_turns(choosing(key, view=self._view), self._clock)
            self._look_at_group(key, resting, release)
        else:
            self._look_at_pod(key)

    def _look_at_group(self, group: str, resting: Collection[str], release: Release) -> None:
        decision = wake.decide_group(
            group,
            view=self._view,
            gate_until_fit=self._options.gate_until_fit,
            resting=resting,
            probes=release.probes,
        )
        if release.probes or wake.is_not_admitted(group, view=self._view):
            self._queue.add_after(group, LOOK_SECONDS)
        retry = self._to_wake(group, decision.retry)
        if len(retry) < len(decision.retry):
            self._queue.add_after(group, SPARED_SECONDS)
        self._wake(retry)
        self._patch(Patch(pod, "gate", None, release.domain) for pod in decision.ungate)

    def _to_wake(self, group: str, pods: Sequence[PodInfo]) -> Sequence[PodInfo]:
        """Return the refused members that are to be woken now.

        Members that can be bound together with another one are left alone for a moment.
        """
        if not pods or not self._options.bind_equal:
            return pods
        now = self._clock.monotonic()
        if now >= self._spared.setdefault(group, now + SPARED_SECONDS):
            return pods
        return wake.not_spared(group, pods, view=self._view, coming=self._awaiting_bind.coming)

    def _look_at_pod(self, uid: str) -> None:
        """Try a pod again that could not be patched, or that was to be looked at alone."""
        pod, refusal = self._view.pods.get(uid), self._view.refused.get(uid)
        if pod is None:
            self._forget(uid)
        elif refusal is not None:
            self._wake((refusal.pod,))
        elif pod.is_gated_by_us and (pod.group or pod.native):
            for group in filter(None, (pod.group, pod.native)):
                self._queue.add(group)
        else:
            self._forget(uid)

    def _wake_for_room(self) -> None:
        """Wake the next pods for room; the others have their turn a moment later."""
        count = min(ROOM_AT_ONCE, len(self._for_room))
        self._wake([self._for_room.popleft() for _ in range(count)])
        self._room_rests = count > 0
        if count:
            self._queue.add_after(ROOM_REST, MOMENT_SECONDS)

    def _wake(self, pods: Collection[PodInfo]) -> None:
        refused = self._view.refused
        patches = [
            Patch(pod, "annotation", refused[pod.uid].reason) for pod in pods if pod.uid in refused
        ]
        if patches:
            self._cluster.apply(ev.PodsTried([each.pod.uid for each in patches]))
            # A pod that is refused again while it is being patched was tried in between.
            self._patch(patches, again=True)

    # --- patches -----------------------------------------------------------------------------

    def _resting(self) -> Collection[str]:
        """Return the UIDs of the pods that could not be patched and may not be tried yet."""
        if not self._rests:
            return ()
        now = asyncio.get_running_loop().time()
        return {uid for uid, (_, until) in self._rests.items() if until > now}

    def _forget(self, uid: str) -> None:
        """Drop the pause of a pod that needs no patch, unless a patch waits or is under way."""
        waits = any(uid in patches for patches in self._patches.values())
        if not waits and uid not in self._running:
            self._rests.pop(uid, None)

    def _patch(self, patches: Iterable[Patch], *, again: bool = False) -> None:
        """Patch pods as soon as some may run, one of each namespace in turn.

        A pod that waits for a patch gets no second one. A pod that is being patched gets none
        either, unless `again`: then it is patched once more afterwards. The API server may have
        stored the first patch long before its answer arrives, and the cause of the second one may
        lie in between.
        """
        for each in patches:
            if each.pod.uid not in self._running:
                self._patches.setdefault(each.pod.namespace, {}).setdefault(each.pod.uid, each)
            elif again:
                self._again[each.pod.uid] = each
        while self._patches and len(self._running) < FEW:
            namespace = next(iter(self._patches))
            waiting = self._patches.pop(namespace)
            uid = next(iter(waiting))
            work = self._make(waiting.pop(uid))
            self._running[uid] = asyncio.get_running_loop().create_task(work)
            if waiting:
                self._patches[namespace] = waiting  # behind the others

    async def _make(self, patch: Patch) -> None:
        pod = patch.pod
        error: ApiError | None = None
        try:
            await self._write(patch)
        except ApiError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - whatever it is, it is this pod's alone
            FAULTS.report("waker", failure, key=pod.key)
            error = ApiError(f"internal error: {failure}")
        del self._running[pod.uid]
        again = self._again.pop(pod.uid, None)
        if error is not None:
            self._failed(again or patch, error)  # a newer patch is tried after the pause
        else:
            self._rests.pop(pod.uid, None)
        self._patch([again] if again is not None and error is None else [])

    async def _write(self, patch: Patch) -> None:
        pod, now = patch.pod, self._view.pods.get(patch.pod.uid)
        if now is not None and self._view.bound_node(now) is not None:
            # It found a node meanwhile, and needs the patch only if its Binding fails.
            self._refuse_again(patch)
            return
        ref = PodRef(pod.namespace, pod.name, pod.uid)
        if patch.how == "gate":
            if patch.domain is None:
                await self._patcher.ungate(ref)
            else:
                await self._patcher.release(ref, *patch.domain)
        elif patch.how != "annotation":
            node = self._view.planned_node(pod.uid) if patch.how == "spread" else None
            await self._patcher.try_beside(ref, at=int(self._clock.wall() * 1000), node=node)
        else:
            at = datetime.fromtimestamp(self._clock.wall(), UTC).isoformat()
            await self._patcher.wake(ref, at=at)
        self._metrics.woken_pods.labels(patch.how).inc()

    def _failed(self, patch: Patch, error: ApiError) -> None:
        """Let a pod rest after an error, each time in a row for twice as long."""
        pod, passes = patch.pod, isinstance(error, UnavailableError)
        first = LOOK_SECONDS if passes else PATIENCE_SECONDS
        longest = PATIENCE_SECONDS if passes else LONG_SECONDS
        before, _ = self._rests.get(pod.uid, (0.0, 0.0))
        pause = min(longest, max(first, 2 * before))
        wait = max(pause, asked_pause(error))
        self._rests[pod.uid] = pause, asyncio.get_running_loop().time() + wait
        _log.warning(
            "could not wake a pod",
            pod=pod.key,
            group=pod.group,
            error=str(error),
            retry_in=round(wait, 2),
        )
        self._metrics.wake_failures.labels(type(error).__name__.removesuffix("Error")).inc()
        self._refuse_again(patch)
        self._queue.add_after(pod.uid, wait)
        if not passes and pod.group is not None and patch.reason is not None:
            self._queue.add(pod.group)
            # A sibling that lacks room is picked in the decision about room.
            self.on_change(ev.ClusterChange(room=True))

    def _refuse_again(self, patch: Patch) -> None:
        """Keep the reason of a pod that has neither a node nor a newer refusal by now."""
        now = self._view.pods.get(patch.pod.uid)
        is_new = now is not None and now.node is None and now.uid not in self._view.refused
        if now is not None and is_new and patch.reason is not None:
            self._cluster.apply(ev.PodRefused(now, patch.reason))


class MissedWakeups:
    """Tries waiting pods again that nothing has woken.

    Room for a refused pod may come in many ways, and kube-scheduler may know of it before we do. A
    pod that no wakeup reached would wait five minutes, until kube-scheduler flushes its queue.
    Instead, one group and one pod without a group have another try every ten seconds: each in its
    turn, once a minute at most, and only if it has waited since the look before. `wake` has a pod
    tried again, by its UID.
    """

    def __init__(self, cluster: Cluster, plans: Plans, *, wake: Callable[[str], None]) -> None:
        self._view = cluster.view()
        self._plans = plans
        self._wake = wake
        self._shares = FairShare(1), FairShare(1)
        self._before: dict[str, Refusal] = {}
        """The refusals that the last look found, by UID."""
        self._tried: TTLCache[str, None] = TTLCache(
            REMEMBERED, PATIENCE_SECONDS, plans.clock.monotonic
        )
        """The groups and pods that had a try within the last minute."""

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await asyncio.sleep(BACK_OFF_SECONDS)
            try:
                await in_turns(self.looking(), self._plans.clock)
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("missed-wakeups", error)

    def looking(self) -> Steps[None]:
        """Have one group and one pod without a group tried again."""
        plans = self._plans
        waiting = yield from wake.waiting_unwoken(
            self._view,
            has_no_room=lambda key: plans.planner.is_busy(key) or plans.verdicts.has_no_room(key),
        )
        before, self._before = self._before, {}
        for share, found in zip(self._shares, waiting, strict=True):
            due = yield from self._due(found, before)
            for key in (yield from share.choosing(due)):
                _log.debug("a pod is tried again that nothing has woken", key=key)
                self._tried[key] = None
                self._wake(found[key])

    def _due(self, found: Mapping[str, str], before: Mapping[str, Refusal]) -> Steps[list[str]]:
        """Return the keys of the pods, by UID, that have waited since the look before."""
        due = list[str]()
        for number, (key, uid) in enumerate(found.items()):
            if number % PIECE == 0:
                yield
            refusal = self._view.refused.get(uid)
            if refusal is not None:
                self._before[uid] = refusal
                if before.get(uid) is refusal and key not in self._tried:
                    due.append(key)
        return due
