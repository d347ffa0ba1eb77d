"""Wakes pods that were refused, once the reason for the refusal has gone.

`Waker` wakes pods after watched events, `WakeTimes` sets the time to wake pods that no event will
wake, and `MissedWakeups` tries pods again that nothing has woken.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import structlog

from extender.api.reasons import Reason
from extender.gang import dry_round, wake
from extender.gang.verdicts import Refuse
from extender.gang.wake import PodKind, Shares, missed_wakeups
from extender.kube.errors import UnavailableError
from extender.kube.pods import PodRef, PodWriter
from extender.permit.patches import Failure, Patch, Patches
from extender.permit.plans import Plans
from extender.permit.timing import (
    BACK_OFF_SECONDS,
    LOOK_SECONDS,
    MOMENT_SECONDS,
    PATIENCE_SECONDS,
    ROOM_AT_ONCE,
    SPARED_SECONDS,
)
from extender.runtime.controller import WorkQueue
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import in_turns
from extender.state.cluster import events as ev
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PodInfo, Refusal
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView
from extender.steps import Steps
from extender.telemetry.metrics import Metrics

_log = structlog.get_logger(__name__)

_HAVE_TIMES: Final = dry_round.REASONS | {Reason.RECENTLY_DENIED, Reason.NOT_SEEN_YET}
"""The reasons for which a planned member is not tried at once: other parts set its time, for
NOT_SEEN_YET `ahead/scheduler_lag.py`, for dry rounds `dry_rounds.py`."""
ROOM: Final = ""
"""The queue's key for "room was given back"; no group has an empty name."""
ROOM_REST: Final = "*"
"""The key for the pods that are still to be woken for that room."""


def is_group(key: str) -> bool:
    """Return whether a key of the queue names a group; others are UIDs of pods, or ROOM keys."""
    return "/" in key


class Waker:
    """Decides about one key at a time; patches run on the side, so that none holds up a decision.

    A pod that could not be patched is tried again after a pause of its own, and its group picks
    another member meanwhile.
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
        self._patches = Patches(self._write, failed=self._failed)
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
        if uid not in self._patches.resting():
            self._queue.add(uid)

    def try_beside(self, group: str, pods: Mapping[str, bool]) -> None:
        """Have members, by UID, tried again that kube-scheduler refused itself.

        The value is True if a member is to be spread.
        """
        resting, known = self._patches.resting(), self._view.pods
        able = [(known[uid], spread) for uid, spread in pods.items() if uid not in resting]
        patches = [(pod, Patch("spread" if spread else "label")) for pod, spread in able]
        self._patches.add(group, patches, again=True)

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
            await self._patches.end()

    async def _look(self, key: str) -> None:
        resting = self._patches.resting()
        if key == ROOM and self._room_rests:
            # Every pod has its turn before the first ones have another.
            self._queue.add_after(ROOM, MOMENT_SECONDS)
        elif key == ROOM:
            await self._decide_room(resting)
        elif key == ROOM_REST:
            self._wake_for_room()
        elif is_group(key):
            self._look_at_group(key, resting)
        else:
            self._look_at_pod(key)

    async def _decide_room(self, resting: Collection[str]) -> None:
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

    def _look_at_group(self, group: str, resting: Collection[str]) -> None:
        decision = wake.decide_group(
            group, view=self._view, gate_until_fit=self._options.gate_until_fit, resting=resting
        )
        retry = self._to_wake(group, decision.retry)
        if len(retry) < len(decision.retry):
            self._queue.add_after(group, SPARED_SECONDS)
        self._wake(group, retry)
        self._patches.add(group, ((pod, Patch("gate")) for pod in decision.ungate))

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
            self._patches.forget(uid)
        elif refusal is not None:
            self._wake(pod.group or uid, (refusal.pod,))
        elif pod.is_gated_by_us and (pod.group or pod.native):
            for group in filter(None, (pod.group, pod.native)):
                self._queue.add(group)
        else:
            self._patches.forget(uid)

    def _wake_for_room(self) -> None:
        """Wake the next pods for room; the others have their turn a moment later."""
        count = min(ROOM_AT_ONCE, len(self._for_room))
        self._wake(ROOM, [self._for_room.popleft() for _ in range(count)])
        self._room_rests = count > 0
        if count:
            self._queue.add_after(ROOM_REST, MOMENT_SECONDS)

    def _wake(self, batch: str, pods: Collection[PodInfo]) -> None:
        refused = self._view.refused
        reasons = {pod.uid: refused[pod.uid].reason for pod in pods if pod.uid in refused}
        if reasons:
            self._cluster.apply(ev.PodsTried(list(reasons)))
            patches = [
                (pod, Patch("annotation", reasons[pod.uid])) for pod in pods if pod.uid in reasons
            ]
            # A pod that is refused again while it is being patched was tried in between.
            self._patches.add(batch, patches, again=True)

    async def _write(self, pod: PodInfo, patch: Patch) -> None:
        now = self._view.pods.get(pod.uid)
        if now is not None and self._view.bound_node(now) is not None:
            # It found a node meanwhile, and needs the patch only if its Binding fails.
            if patch.reason is not None:
                self._refuse_again(pod.uid, patch.reason)
            return
        ref = PodRef(pod.namespace, pod.name, pod.uid)
        if patch.how == "gate":
            await self._patcher.ungate(ref)
        elif patch.how != "annotation":
            node = self._view.planned_node(pod.uid) if patch.how == "spread" else None
            await self._patcher.try_beside(ref, at=int(self._clock.wall() * 1000), node=node)
        else:
            at = datetime.fromtimestamp(self._clock.wall(), UTC).isoformat()
            await self._patcher.wake(ref, at=at)
        self._metrics.woken_pods.labels(patch.how).inc()

    def _failed(self, failure: Failure) -> None:
        pod, patch, error = failure.pod, failure.patch, failure.error
        kind = type(error).__name__.removesuffix("Error")
        self._metrics.wake_failures.labels(kind).inc()
        if patch.reason is not None:
            self._refuse_again(pod.uid, patch.reason)
        self._queue.add_after(pod.uid, failure.pause)
        is_of_this_pod = not isinstance(error, UnavailableError)
        if is_of_this_pod and pod.group is not None and patch.reason is not None:
            self._queue.add(pod.group)
            # A sibling that lacks room is picked in the decision about room.
            self.on_change(ev.ClusterChange(room=True))

    def _refuse_again(self, uid: str, reason: str) -> None:
        """Keep the reason of a pod that has neither a node nor a newer refusal by now."""
        now = self._view.pods.get(uid)
        if now is not None and now.node is None and uid not in self._view.refused:
            self._cluster.apply(ev.PodRefused(now, reason))


class WakeTimes:
    """Sets the time to wake a pod that filter refused and that no event will wake.

    It is due when a window ends, another sample is drawn, or another group was planned or had its
    turn. `wake_after` takes a key of the waker, and seconds.
    """

    def __init__(
        self, view: ClusterView, plans: Plans, *, wake_after: Callable[[str, float], None]
    ) -> None:
        self._view = view
        self._plans = plans
        self._verdicts = plans.verdicts
        self._wake_after = wake_after

    def set(self, pod: PodInfo, group: str, refusal: Refuse) -> None:
        """Set the time to wake a group after a member was refused."""
        reason = refusal.reason
        rest = self._verdicts.rest_left(group)
        if rest:
            self._wake_after(group, rest)
        if self._view.planned_node(pod.uid) is not None and reason not in _HAVE_TIMES:
            self._wake_after(group, MOMENT_SECONDS)
        match reason:
            case Reason.PLANNING if not rest:
                self._when_planned(group)
            case Reason.OUTSIDE_TOPOLOGY:
                self._wake_after(group, MOMENT_SECONDS)
            case Reason.CACHE_STALE:
                self._wake_after(group, BACK_OFF_SECONDS)
            case Reason.RECENTLY_DENIED:
                denied = max(self._verdicts.options.denied, self._verdicts.denied_left(group))
                self._wake_after(group, denied)
            case Reason.NEVER_FITS if not refusal.again:
                self._wake_next(group)
            case _:
                pass

    def _when_planned(self, group: str) -> None:
        """Wake a group when the groups that go first will be planned."""
        if self._plans.planner.is_busy(group):
            return  # the end of its own plan wakes it
        pod_group = self._view.pod_group(group)
        waits = pod_group is not None and self._plans.plans_before(pod_group)
        self._wake_after(group, LOOK_SECONDS if waits else MOMENT_SECONDS)

    def _wake_next(self, group: str) -> None:
        """Wake the siblings of a gang that never fits; in strict order also the next gang."""
        refused = self._view.refused
        if any(refused[uid].reason != Reason.NEVER_FITS for uid in self._view.refused_of(group)):
            self._wake_after(group, MOMENT_SECONDS)
        if self._verdicts.options.strict_order:
            self._wake_after(ROOM, MOMENT_SECONDS)


class MissedWakeups:
    """Tries waiting pods again that nothing has woken.

    Room for a refused pod may come in many ways, and kube-scheduler may know of it before we do. A
    pod that no wakeup reached would wait five minutes, until kube-scheduler flushes its queue.
    Instead, one group and one pod without a group have another try every ten seconds. `wake` has a
    pod tried again, by its UID.
    """

    def __init__(self, cluster: Cluster, plans: Plans, *, wake: Callable[[str], None]) -> None:
        self._view = cluster.view()
        self._plans = plans
        self._wake = wake
        self._before: dict[str, Refusal] = {}
        """The refusals that the last look found."""
        self._tried: dict[str, float] = {}
        """The time of the last try that this made, by key."""
        self._served: dict[tuple[bool, str], float] = {}
        """The time of the last try by namespace, for groups (True) and for other pods."""
        self._shares = Shares()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await asyncio.sleep(BACK_OFF_SECONDS)
            try:
                await in_turns(self.looking(), self._plans.clock)
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("missed-wakeups", error)

    def looking(self) -> Steps[None]:
        """Retry one group and one pod without a group that have waited since the last look."""
        steps = missed_wakeups(self._view, self._shares, has_no_room=self._has_no_room)
        before, self._before = self._before, (yield from steps)
        there = {(now.pod.group is not None, now.pod.namespace) for now in self._before.values()}
        self._served = {key: at for key, at in self._served.items() if key in there}
        self._tried = {key: at for key, at in self._tried.items() if key in self._before}
        still = [(key, now) for key, now in self._before.items() if before.get(key) is now]
        for in_group in (True, False):
            keys = [key for key, now in still if (now.pod.group is not None) is in_group]
            self._try_one(keys, in_group=in_group)

    def _try_one(self, keys: Sequence[str], *, in_group: bool) -> None:
        """Retry the key with the oldest last try, in the namespace with the oldest last try."""
        now, never = self._plans.clock.monotonic(), float("-inf")

        def last(key: str) -> tuple[float, float]:
            namespace = self._before[key].pod.namespace
            return self._served.get((in_group, namespace), never), self._tried.get(key, never)

        due = [key for key in keys if now - self._tried.get(key, never) >= PATIENCE_SECONDS]
        key = min(due, key=last, default=None)
        if key is None:
            return
        self._tried[key] = self._served[in_group, self._before[key].pod.namespace] = now
        _log.debug("a pod is tried again that nothing has woken", key=key)
        self._wake(self._before[key].pod.uid)

    def _has_no_room(self, group: str) -> bool:
        return self._plans.planner.is_busy(group) or self._plans.verdicts.has_no_room(group)
