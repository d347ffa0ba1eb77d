"""The lags of two watches: kube-scheduler's behind ours, and ours behind kube-scheduler's.

`SchedulerLag` decides when kube-scheduler has seen the pods that were bound ahead of its requests.
Its scheduling loop is serial: once it asks for the binding of a pod, each of its later decisions
counts that pod on its node. It never asks for most pods that are bound ahead, and gives no other
sign. Its watch is usually as quick as ours, but when very many pods wait it takes long to handle an
event. So a pod counts as seen some time after our own watch has shown it on its node, unless there
is a sign that kube-scheduler is behind: it asks for a pod that has long been bound.

`WatchLag` tells our watch that is behind from one that disagrees with kube-scheduler's: they
disagree once kube-scheduler sees more room than we do for too long. `PodsSeenOnlyInRequests` drops
the pods that no watch has shown in time.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import structlog
from cachetools import TTLCache

from extender.api.reasons import Reason
from extender.gang.filter import disagreement
from extender.gang.verdicts import FilterVerdict, Refuse, about
from extender.permit.timing import (
    CHECK_SECONDS,
    LAG_SECONDS,
    LATE_SECONDS,
    LONG_SECONDS,
    LOOK_SECONDS,
    MOMENT_SECONDS,
    REMEMBERED,
    TRIES,
)
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView

_log = structlog.get_logger(__name__)

_LONG_AGO: Final = float("-inf")


class _Shown(NamedTuple):
    at: float
    number: int
    """The number of the last pod that had been shown by then."""


class _Wakeup(NamedTuple):
    tries: int
    due: float


class SchedulerLag:
    """Decides when pods that were bound ahead count as seen by kube-scheduler.

    `wake_after` takes a group or the UID of a pod, and seconds.
    """

    def __init__(
        self, cluster: Cluster, *, clock: Clock, wake_after: Callable[[str, float], None]
    ) -> None:
        self._cluster = cluster
        self._unseen = cluster.view().unseen
        self._now = clock.monotonic
        self._wake_after = wake_after
        self._shown: deque[_Shown] = deque()
        """The highest number at each look; of the old ones, only the latest is kept."""
        self._ended: dict[str, None] = {}
        """The pods that were counted as seen without a proof."""
        self._sign = _LONG_AGO
        """The time when kube-scheduler was last found to be behind."""
        self._everywhere = _LONG_AGO
        """The time since which pods may be unseen on any node."""
        self._wakeups: TTLCache[str, _Wakeup] = TTLCache(
            REMEMBERED, 2 * LAG_SECONDS, clock.monotonic
        )
        """The next wakeup of each group or pod that was refused."""

    @property
    def behind(self) -> bool:
        """Return whether kube-scheduler was behind a short while ago."""
        return self._now() - self._sign < LAG_SECONDS

    def restarted(self) -> None:
        """Count pods everywhere as unseen: an earlier run of this process may have bound some."""
        self._everywhere = self._now()
        self._cluster.apply(ev.AllUnseen(is_so=True))

    def bound(self, uid: str) -> None:
        """End the doubt about a pod whose bind request was answered with success."""
        if uid in self._unseen:
            self._cluster.apply(ev.Sighted((uid,)))
        self._ended.pop(uid, None)

    def brought(self, pod: PodInfo) -> None:
        """Count kube-scheduler as behind if it asks for a pod that we saw bound long ago."""
        now = self._now()
        if pod.node is None or not self._is_late(pod.uid, now):
            return
        if not self.behind:
            text = "kube-scheduler is behind: it brings a pod that is bound"
            _log.warning(text, pod=pod.key, group=pod.group)
        self._sign = now
        if pod.uid in self._ended or self._unseen.everywhere:
            # Other pods may have been counted as seen too early.
            self._everywhere = now
            self._cluster.apply(ev.AllUnseen(is_so=True))

    def refused(self, key: str) -> None:
        """Wake a group or a pod that lacks nodes which may have unseen pods.

        It is woken soon, then after longer pauses.
        """
        now, before = self._now(), self._wakeups.get(key)
        if before is not None and now < before.due:
            return
        tries = before.tries + 1 if before is not None else 0
        pause = min(LAG_SECONDS, MOMENT_SECONDS * 2.0 ** min(tries, 32))
        self._wakeups[key] = _Wakeup(tries, now + pause)
        self._wake_after(key, pause)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - the next look is another one
                FAULTS.report("scheduler-lag", error)
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Count pods as seen whose time is over."""
        now, shown = self._now(), self._shown
        if not shown or shown[-1].number != self._unseen.version:
            shown.append(_Shown(now, self._unseen.version))
        while len(shown) > 1 and now - shown[1].at >= LAG_SECONDS:
            shown.popleft()
        if self._unseen.everywhere and now - self._everywhere >= LAG_SECONDS:
            self._cluster.apply(ev.AllUnseen(is_so=False))
        if now - max(shown[0].at, self._sign) >= LAG_SECONDS:
            seen = [*self._unseen.shown_until(shown[0].number)]
            if seen:
                self._cluster.apply(ev.Sighted(seen))
                self._ended.update(dict.fromkeys(seen))
                while len(self._ended) > REMEMBERED:
                    del self._ended[next(iter(self._ended))]

    def _is_late(self, uid: str, now: float) -> bool:
        """Return whether our watch has long shown a pod, bound ahead, on its node."""
        number = self._unseen.number(uid)
        if number is not None:
            old = (each.number for each in self._shown if now - each.at >= LATE_SECONDS)
            return number <= max(old, default=0)
        return uid in self._ended or (
            self._unseen.everywhere and now - self._everywhere >= LATE_SECONDS
        )


_SAYS_NOTHING_OF_ROOM: Final = frozenset((Reason.PLANNING, Reason.CACHE_STALE))


@dataclass(slots=True)
class _Lag:
    since: float
    tries: int = 0
    disagrees: bool = False


class WatchLag:
    """The pods, by UID, for which kube-scheduler sees room that is not known here."""

    def __init__(
        self,
        view: ClusterView,
        *,
        timer: Callable[[], float],
        wake_after: Callable[[str, float], None],
    ) -> None:
        self._view = view
        self._timer = timer
        self._wake_after = wake_after
        self._lags: TTLCache[str, _Lag] = TTLCache(REMEMBERED, LONG_SECONDS, timer)

    @property
    def disagreements(self) -> int:
        """Return the number of these pods for which that lasts longer than a watch is behind."""
        self._lags.expire()
        return sum(lag.disagrees for lag in self._lags.values())

    @property
    def is_behind(self) -> bool:
        """Return whether kube-scheduler sees room for some pod that our watch has yet to show."""
        pods = self._view.pods
        return any(uid in pods and not lag.disagrees for uid, lag in self._lags.items())

    def unless_it_lasts(
        self, verdict: FilterVerdict, pod: PodInfo, sent: Sequence[str]
    ) -> FilterVerdict:
        """Return the verdict, or the disagreement if it lasts longer than a watch is behind."""
        reason = verdict.reason if isinstance(verdict, Refuse) else None
        if reason is not Reason.CACHE_BEHIND:
            if reason not in _SAYS_NOTHING_OF_ROOM and self._lags.currsize:
                self._lags.pop(pod.uid, None)
            return verdict
        lag = self._lags.pop(pod.uid, None) or _Lag(self._timer())
        before, pause = lag.disagrees, min(LAG_SECONDS, MOMENT_SECONDS * 2.0 ** min(lag.tries, 32))
        lag.tries += 1
        late = self._timer() - lag.since >= CHECK_SECONDS
        lag.disagrees = before or (late and lag.tries >= TRIES)
        self._lags[pod.uid] = lag
        self._wake_after(pod.group or pod.uid, pause)
        found = disagreement(pod, sent, view=self._view) if lag.disagrees else None
        if found is None:
            return verdict
        if not before:
            _log.warning(
                "kube-scheduler and the extender disagree",
                pod=pod.key,
                group=pod.group,
                node=found.node,
                resources=found.resources,
            )
        return Refuse(Reason.SCHEDULER_DISAGREES, about(pod.group) + found.sentence())


class PodsSeenOnlyInRequests:
    """Drops pods that only requests have shown, if our watch does not show them soon.

    A pod in a filter request is added to the state so that its gang can be planned at once. If no
    watch shows it in time it was invented, or is gone, and all that was kept for it is given back.
    """

    def __init__(self, cluster: Cluster, *, clock: Clock) -> None:
        self._cluster = cluster
        self._view = cluster.view()
        self._clock = clock
        self._since: dict[str, float] = {}
        """The time when this component first found each pod, by UID and the monotonic clock."""

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - the next look begins anew
                FAULTS.report("pods-seen-only-in-requests", error)
            await asyncio.sleep(CHECK_SECONDS)

    def look(self) -> None:
        """Drop the pods that no watch has shown in time."""
        now, before = self._clock.monotonic(), self._since
        self._since = {uid: before.get(uid, now) for uid in self._view.seen}
        over = [uid for uid, since in self._since.items() if now - since >= LAG_SECONDS]
        if over:
            _log.warning("pods of requests never came into the watch", pods=len(over))
            self._cluster.apply(ev.SeenEnded(over))
