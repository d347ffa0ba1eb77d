"""The memory of `serve` that no watch shows: of groups, of requests, and of kube-scheduler.

`GroupMemory` is the one memory of verdicts about groups. A verdict spares another look at a group
whose answer would be the same, or that has just failed. `ENDED_BY` is the whole rule of what ends
it; besides, a verdict ends when its PodGroup is deleted or replaced. Refusals of single pods are in
the cluster's state: they end when kube-scheduler tries the pod.

`AwaitingBind` and `KnownSchedulers` remember requests, and `SchedulerLag` decides when
kube-scheduler has seen the pods that were bound ahead of its requests.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile
from typing import Final, NamedTuple

import structlog
from cachetools import LRUCache, TTLCache

from extender.api.reasons import TOO_LARGE, Reason
from extender.gang.verdicts import GangOptions, Refuse, Standing, Versions, versions_of
from extender.permit.timing import (
    ASSUMED_SECONDS,
    BACK_OFF_SECONDS,
    LAG_SECONDS,
    LATE_SECONDS,
    LOOK_SECONDS,
    MOMENT_SECONDS,
    PATIENCE_SECONDS,
    REMEMBERED,
)
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS, Backoff
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.cluster.store import Cluster
from extender.telemetry.starts import GangStarts

_log = structlog.get_logger(__name__)

_OTHERS_FIRST: Final = frozenset(
    (Reason.SCHEDULE_TIMEOUT, Reason.MEMBER_UNSCHEDULABLE, Reason.BINDING_REFUSED)
)
"""Failures after which a group goes behind others: it had room, and could not start on it. One that
found no room keeps its place."""
_NEVER: Final = float("inf")


class VerdictKind(StrEnum):
    """The kinds of facts that are remembered of a group."""

    DENIED = "it failed"
    """It is refused without a look for `GangOptions.denied` seconds, which a later failure does not
    extend. A group that lacks pods does not fail, so a late sibling is not punished."""
    BINDING_REFUSED = "the API server refused its Bindings"
    """It is denied, each time for twice as long, until it has started as a whole."""
    NO_ROOM = "no plan was found"
    """Another plan would fail the same way; a group that never fits has this verdict too."""
    RESTS = "a long plan came to nothing"
    """The next plan waits for a time in proportion to it."""
    PERMITTED = "its minResources were there"
    """They are not added up again for as long as its members may wait for each other."""
    LAST_FAILURE = "why it failed last"
    """The condition of its PodGroup says so until it starts."""


class End(StrEnum):
    """The events that end a verdict."""

    TIME = "its time has passed"
    ROOM = "enough nodes gained room, or other nodes came for a group that never fits"
    CHANGE = "the PodGroup asks for something else, or a member came, went or changed"
    TERMS = "the PodGroup asks for something else"
    START = "the group started"
    FAILURE = "the group failed"


ENDED_BY: Final[Mapping[VerdictKind, frozenset[End]]] = {
    VerdictKind.DENIED: frozenset((End.TIME, End.ROOM, End.CHANGE, End.START)),
    VerdictKind.BINDING_REFUSED: frozenset((End.TIME, End.TERMS)),
    VerdictKind.NO_ROOM: frozenset((End.ROOM, End.CHANGE, End.START)),
    VerdictKind.RESTS: frozenset((End.TIME, End.CHANGE, End.START)),
    VerdictKind.PERMITTED: frozenset((End.TIME, End.TERMS, End.FAILURE)),
    VerdictKind.LAST_FAILURE: frozenset((End.START,)),
}


class Since(NamedTuple):
    """The state in which a verdict was found: the versions of the nodes, and the group's change."""

    versions: Versions
    change: int


@dataclass(slots=True)
class _Verdict:
    uid: str | None
    """The UID of the PodGroup."""
    until: float = _NEVER
    standing: Standing | None = None
    terms: PodGroupInfo | None = None
    """The PodGroup as it was, if a change of what it asks for ends the verdict."""


@dataclass(slots=True)
class _Known:
    """All that is remembered of a group."""

    change: int
    """The number of its last change: a plan that began before it says nothing of the group."""
    verdicts: dict[VerdictKind, _Verdict] = field(default_factory=dict)


class GroupMemory:
    """The verdicts about groups, for as long as they stand."""

    def __init__(self, cluster: Cluster, *, options: GangOptions, clock: Clock) -> None:
        self.options = options
        self.clock = clock
        self.awaiting_bind = AwaitingBind(clock)
        self.known_schedulers = KnownSchedulers()
        self.starts = GangStarts(cluster, clock)
        self._cluster = cluster
        self._view = cluster.view()
        self._known: LRUCache[str, _Known] = LRUCache(REMEMBERED)
        self._changes = 0
        self._pauses: LRUCache[str, Backoff] = LRUCache(REMEMBERED)
        """The next pause of each group whose Bindings are refused."""

    # --- what happens ------------------------------------------------------------------------

    def since(self, group: str) -> Since:
        """Return the state for a verdict about a group that is worked out from now on."""
        return Since(versions_of(self._view), self._know(group).change)

    def is_as_it_was(self, group: str, since: Since) -> bool:
        """Return whether a group has not changed since that state was returned."""
        known = self._known.get(group)
        return known is not None and known.change == since.change

    def changed(self, group: str) -> None:
        """End the verdicts that a change of a PodGroup, or of its members, ends.

        A group whose PodGroup is gone is forgotten.
        """
        pod_group = self._view.pod_group(group)
        if pod_group is None or len(self._view.tally(group).bound) >= self._view.quorum(pod_group):
            self._pauses.pop(group, None)
        if pod_group is None:
            self._known.pop(group, None)
        else:
            self._end(group, End.CHANGE)

    def started(self, group: str) -> None:
        """End the verdicts that the start of a group ends."""
        self._end(group, End.START)

    def failed(self, group: str, refusal: Refuse, *, since: Since | None = None) -> None:
        """Remember that the whole group failed.

        `since` is the state at the begin of a plan that took more than one step.
        """
        since = since or self.since(group)
        self.starts.refused(group, refusal.reason, refusal.message)
        self._end(group, End.FAILURE)
        self._put(group, VerdictKind.LAST_FAILURE, since, refusal=refusal)
        never = refusal.reason in TOO_LARGE
        if never or (refusal.lack is not None and not refusal.of_offer):
            self._put(group, VerdictKind.NO_ROOM, since, refusal=refusal)
        if never:
            return  # Other nodes would help it, and time would not: there is no use in a window.
        kind, seconds = VerdictKind.DENIED, self.options.denied
        if refusal.unseen:  # its siblings are refused at once; the group is woken after a moment
            seconds = min(seconds, MOMENT_SECONDS / 2)
        denied = self.failed_within_window(group)
        if refusal.reason is Reason.BINDING_REFUSED and denied is None:
            first = max(1.0, seconds)
            pause = Backoff(first, max(first, PATIENCE_SECONDS), jitter=lambda: 1.0)
            kind = VerdictKind.BINDING_REFUSED
            seconds = self._pauses.setdefault(group, pause).next()
        if seconds > 0 and denied is None:
            self._put(group, kind, since, refusal=refusal, seconds=seconds)
        if refusal.reason in _OTHERS_FIRST and not self.options.strict_order:
            self._cluster.apply(ev.GroupFailed(group, self.clock.wall()))

    def binding_refused(self, group: str, refusal: Refuse) -> None:
        """Remember why a group is not whole, while room is kept for what it lacks."""
        self._put(group, VerdictKind.LAST_FAILURE, self.since(group), refusal=refusal)

    def found_no_room(self, group: str, refusal: Refuse, *, since: Since | None = None) -> None:
        """Remember that a group had no room before its own turn; `since` as in `failed`."""
        self._put(group, VerdictKind.NO_ROOM, since or self.since(group), refusal=refusal)

    def rest(self, group: str, seconds: float) -> None:
        """Remember for this many seconds that a long plan came to nothing."""
        self._put(group, VerdictKind.RESTS, self.since(group), seconds=seconds)

    def note_min_resources(self, pod_group: PodGroupInfo) -> None:
        """Remember that a group's minResources were there."""
        seconds = self.options.timeout(pod_group.schedule_timeout)
        self._put(pod_group.key, VerdictKind.PERMITTED, self.since(pod_group.key), seconds=seconds)

    # --- what is known -----------------------------------------------------------------------

    def denied(self, group: str) -> Refuse | None:
        """Return the failure for which a group is refused without a look now."""
        return _refusal(self._find_denied(group))

    def denied_left(self, group: str) -> float:
        """Return the most seconds for which a group is still refused without a look."""
        found = self._find_denied(group)
        return found.until - self.clock.monotonic() if found is not None else 0.0

    def failed_within_window(self, group: str) -> Refuse | None:
        """Return the failure within the window, even if room has come since."""
        return _refusal(self._find_denied(group, but=End.ROOM))

    def last_failure(self, group: str) -> Refuse | None:
        """Return the last failure of a group, if it is still the same group and has not started."""
        return _refusal(self._find(group, VerdictKind.LAST_FAILURE))

    def no_room(self, group: str) -> Refuse | None:
        """Return the refusal that another plan of a group would repeat, with what it lacks now."""
        found = self._find(group, VerdictKind.NO_ROOM)
        return found.standing.left() if found is not None and found.standing is not None else None

    def has_no_room(self, group: str) -> bool:
        """Return whether planning a group is not worth another look yet."""
        # Most groups have the first one.
        kinds = (VerdictKind.NO_ROOM, VerdictKind.DENIED, VerdictKind.RESTS)
        return any(self._find(group, kind) is not None for kind in kinds)

    def never_fits(self, group: str) -> Refuse | None:
        """Return the refusal of a group for which no known node is large enough."""
        found = self.no_room(group)
        return found if found is not None and found.reason in TOO_LARGE else None

    def rest_left(self, group: str) -> float:
        """Return the seconds until the plan of a group may be made again."""
        found = self._find(group, VerdictKind.RESTS)
        return found.until - self.clock.monotonic() if found is not None else 0.0

    def is_permitted(self, group: str) -> bool:
        """Return whether the group's minResources were there within its schedule time-out."""
        return self._find(group, VerdictKind.PERMITTED) is not None

    # --- the rule ----------------------------------------------------------------------------

    def _put(
        self,
        group: str,
        kind: VerdictKind,
        since: Since,
        *,
        refusal: Refuse | None = None,
        seconds: float = _NEVER,
    ) -> None:
        standing = Standing(refusal, since.versions) if refusal is not None else None
        pod_group = self._view.pod_group(group)
        self._know(group).verdicts[kind] = _Verdict(
            pod_group.uid if pod_group is not None else None,
            self.clock.monotonic() + seconds,
            standing,
            pod_group if End.TERMS in ENDED_BY[kind] else None,
        )

    def _know(self, group: str) -> _Known:
        """Return the memory of a group; a new group counts as changed just now."""
        known = self._known.get(group)
        if known is None:
            self._changes += 1
            known = self._known[group] = _Known(self._changes)
        return known

    def _find(self, group: str, kind: VerdictKind, *, but: End | None = None) -> _Verdict | None:
        """Return a verdict if it stands, without regard to the end `but`; otherwise drop it."""
        known = self._known.get(group)
        found = known.verdicts.get(kind) if known is not None else None
        if known is None or found is None:
            return None
        if self._stands(found, group, ENDED_BY[kind] - {but} if but else ENDED_BY[kind]):
            return found
        del known.verdicts[kind]
        return None

    def _find_denied(self, group: str, *, but: End | None = None) -> _Verdict | None:
        refused = self._find(group, VerdictKind.BINDING_REFUSED)
        return refused or self._find(group, VerdictKind.DENIED, but=but)

    def _stands(self, verdict: _Verdict, group: str, ends: frozenset[End]) -> bool:
        now, view = self._view.pod_group(group), self._view
        if verdict.uid != (now.uid if now else None):
            return False
        if End.TERMS in ends and verdict.terms != now:
            return False
        if End.TIME in ends and self.clock.monotonic() >= verdict.until:
            return False
        room = verdict.standing if End.ROOM in ends else None
        return room is None or room.stands(view)

    def _end(self, group: str, end: End) -> None:
        """End the verdicts about a group that an event ends."""
        known = self._known.get(group)
        if known is None:
            return
        if end in (End.CHANGE, End.START):
            self._changes += 1
            known.change = self._changes
        for kind in [kind for kind in known.verdicts if end in ENDED_BY[kind]]:
            del known.verdicts[kind]


def _refusal(verdict: _Verdict | None) -> Refuse | None:
    standing = verdict.standing if verdict is not None else None
    return standing.refusal if standing is not None else None


# --- what requests tell us before any watch does -----------------------------------------------
#
# kube-scheduler assumes a pod that passed filter on a node until it sends the bind request. The
# cluster's state shows no more than the plan of that pod, if there is one. So the pod does not swap
# rooms with a sibling, and no pod is bound ahead to a node where kube-scheduler may assume it.


class _FilterAnswer(NamedTuple):
    at: float
    node: str | None


class AwaitingBind:
    """The pods that passed filter and whose bind request we expect, by UID."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic
        self._answers: dict[str, _FilterAnswer] = {}
        """The answers by UID, the oldest first."""
        self._on: dict[str | None, dict[str, None]] = {}
        """UIDs by node."""

    def __contains__(self, uid: object) -> bool:
        """Return whether a pod passed filter a moment ago."""
        found = self._answers.get(uid) if isinstance(uid, str) else None
        return found is not None and found.at + BACK_OFF_SECONDS > self._now()

    @property
    def coming(self) -> frozenset[str]:
        """Return the pods that were given one node, and whose bind request is due."""
        since = self._now() - LOOK_SECONDS
        latest = takewhile(lambda each: each[1].at > since, reversed(self._answers.items()))
        return frozenset(uid for uid, answer in latest if answer.node is not None)

    def assumed_on(self, node: str | None) -> Iterator[str]:
        """Yield the pods that were given this node; for None, those that were given a choice."""
        late = self._now() - ASSUMED_SECONDS
        return (uid for uid in self._on.get(node, ()) if self._answers[uid].at > late)

    def begin(self, uid: str, node: str | None) -> None:
        """Add a pod that filter has just given one node, or a choice (None)."""
        now, answers = self._now(), self._answers
        self.end(uid)
        answers[uid] = _FilterAnswer(now, node)
        self._on.setdefault(node, {})[uid] = None
        first = next(iter(answers))
        if answers[first].at + ASSUMED_SECONDS <= now or len(answers) > REMEMBERED:
            self.end(first)  # one is dropped for each that is added

    def end(self, uid: str) -> None:
        """Remove a pod: its bind request has come, or kube-scheduler has given it up."""
        answer = self._answers.pop(uid, None)
        if answer is not None:
            there = self._on[answer.node]
            del there[uid]
            if not there:
                del self._on[answer.node]


class KnownSchedulers:
    """The names of the schedulers known to call us for every pod, in filter and in bind.

    An entry of `extenders` with `managedResources` is asked only about pods that name one of the
    listed extended resources. So a scheduler that asks about a pod without any of them asks about
    all pods. Filter and bind may be in different entries.
    """

    def __init__(self) -> None:
        self._filter: set[str] = set()
        self._bind: set[str] = set()

    def __contains__(self, scheduler: object) -> bool:
        return scheduler in self._filter and scheduler in self._bind

    def filtered(self, pod: PodInfo) -> None:
        """Count a filter request."""
        if not pod.shape.extended:
            self._filter.add(pod.scheduler)

    def bound(self, pod: PodInfo) -> None:
        """Count a bind request."""
        if not pod.shape.extended:
            self._bind.add(pod.scheduler)


# --- what kube-scheduler has seen ------------------------------------------------------------
#
# Its scheduling loop is serial: once it asks for the binding of a pod, each of its later decisions
# counts that pod on its node. It never asks for most pods that are bound ahead, and gives no other
# sign. Its watch is usually as quick as ours, but when very many pods wait it takes long to handle
# an event. So a pod counts as seen some time after our own watch has shown it on its node, unless
# there is a sign that kube-scheduler is behind: it asks for a pod that has long been bound.

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
