"""Decides when kube-scheduler has seen the pods that were bound ahead of its requests.

Its scheduling loop is serial: once it asks for the binding of a pod, each of its later decisions
counts that pod on its node. It never asks for most pods that are bound ahead, and gives no other
sign. Its watch is usually as quick as ours, but when very many pods wait it takes long to handle an
event. So a pod counts as seen some time after our own watch has shown it on its node, unless there
is a sign that kube-scheduler is behind: it asks for a pod that has long been bound.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog
from cachetools import TTLCache

from extender.permit.timing import (
    FIRST_PAUSE,
    LAG_SECONDS,
    LATE_SECONDS,
    LOOK_SECONDS,
    REMEMBERED,
)
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster

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
        pause = min(LAG_SECONDS, FIRST_PAUSE * 2.0 ** min(tries, 32))
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
                self._end(seen)

    def _end(self, seen: list[str]) -> None:
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
