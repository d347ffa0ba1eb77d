"""Filter: where a pod may go, and the room, verdict or refusal that its answer leaves behind.

`PodFilter.decide` is the way of a pod through filter, from top to bottom. It runs in one step of
the event loop and never awaits: kube-scheduler asks about one pod after another, so its latency
limits the throughput of the whole cluster. The way goes on in `bind.py`.

`Turns` imposes the order between groups, `NativeGangs` knows the groups that kube-scheduler may
start itself, and `WatchLag` tells our watch that is behind from one that disagrees with
kube-scheduler's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import structlog
from cachetools import TTLCache

from extender.api.reasons import TOO_LARGE, Reason
from extender.api.wellknown import GROUP_NATIVE
from extender.fit.placement import MIN_SAMPLE
from extender.gang import ahead, gates
from extender.gang.filter import (
    DRY_ROUND,
    beside_plans,
    decide,
    disagreement,
    is_failure,
    of_bound,
    of_sample,
    placed,
    recently_denied,
    usable,
)
from extender.gang.fit import Offer
from extender.gang.gates import Known
from extender.gang.verdicts import (
    AnyNode,
    FilterVerdict,
    OneNode,
    OneOf,
    Refuse,
    about,
    not_admitted,
)
from extender.permit.ahead import Callbacks
from extender.permit.group_memory import SchedulerLag
from extender.permit.plans import DryRounds, Plans
from extender.permit.timing import (
    BACK_OFF_SECONDS,
    CHECK_SECONDS,
    LAG_SECONDS,
    LONG_SECONDS,
    LOOK_SECONDS,
    MOMENT_SECONDS,
    PLAN_SECONDS,
    REMEMBERED,
    REST,
    SETTLED_SECONDS,
    TRIES,
    TURN_SECONDS,
)
from extender.permit.wake import ROOM
from extender.runtime.clock import Clock
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodGroupInfo, PodInfo
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView

_log = structlog.get_logger(__name__)

_WORDS: Final = {AnyNode: "AnyNode", OneOf: "OneOf", OneNode: "Place"}
"""The words for answers in metrics."""
_HAVE_TIMES: Final = DRY_ROUND | {Reason.RECENTLY_DENIED, Reason.NOT_SEEN_YET}
"""The reasons for which a planned member is not tried at once: other parts set its time, for
NOT_SEEN_YET `SchedulerLag`, for dry rounds `DryRounds`."""


class PodFilter:
    """Decides where pods may go; `no_node` takes the UID of a member that lost its room."""

    def __init__(
        self,
        cluster: Cluster,
        plans: Plans,
        dry_rounds: DryRounds,
        *,
        scheduler_lag: SchedulerLag,
        callbacks: Callbacks,
        no_node: Callable[[str], None],
    ) -> None:
        self._callbacks = callbacks
        wake_after = callbacks.wake_after
        self.lags = WatchLag(cluster.view(), timer=plans.clock.monotonic, wake_after=wake_after)
        self._scheduler_lag = scheduler_lag
        self._cluster = cluster
        self._view = cluster.view()
        self._plans = plans
        self._verdicts = plans.verdicts
        self._dry_rounds = dry_rounds
        self._natives = NativeGangs(cluster, clock=plans.clock)
        self._turns = Turns(cluster.view(), plans)
        self._wake_after = wake_after
        self._metrics = callbacks.metrics
        self._no_node = no_node

    def asked(self, pod: PodInfo) -> None:
        """Take note of the scheduler that asks about a pod, in any request."""
        self._plans.schedulers.add(pod.scheduler)

    def decide(self, pod: PodInfo, group: str | None, sent: Sequence[str]) -> FilterVerdict:
        """Return where a pod may go among the sent nodes; `group` is the one in the request."""
        # The request itself says something about the pod, its scheduler and the nodes.
        if pod.uid not in self._view.pods:
            self._cluster.apply(ev.PodSeen(pod))
        self.asked(pod)
        self._verdicts.known_schedulers.filtered(pod)
        if pod.pattern is not None:
            now = self._plans.clock.monotonic()
            self._cluster.apply(ahead.nodes_looked_at(pod.pattern, sent, view=self._view, at=now))
        self._verdicts.starts.tried(pod)
        node = self._view.bound_node(pod)
        held = self._view.awaits_admission(pod) if node is None else None
        # A pod without a group is judged if room is kept, or bound pods may be unseen.
        is_judged = group is not None or self._view.keeps_room or self._view.unseen.exist
        if node is None and held is None and not is_judged:
            self._verdicts.awaiting_bind.begin(pod.uid, None)
            return self._natives.enough(pod, sent)
        # Bound, held back by its queue, or judged by room and by the gates of its group.
        if node is not None:
            self._scheduler_lag.brought(pod)
            verdict = of_bound(pod, node, sent)
        else:
            verdict = not_admitted(held) if held else self._judge(pod, group, sent)
            if isinstance(verdict, AnyNode) and not self._view.keeps_room:
                verdict = self._natives.enough(pod, sent)
        verdict = self.lags.unless_it_lasts(verdict, pod, sent)
        if pod.native is not None:
            verdict = self._natives.put_off(pod, verdict, sent)
        self._remember(pod, group, verdict)
        return self._in_same_words(group, verdict)

    def _judge(self, pod: PodInfo, group: str | None, sent: Sequence[str]) -> FilterVerdict:
        """Return where a pod may go, among the sent nodes that have room beside unseen pods."""
        seen = usable(pod, sent, view=self._view)
        if isinstance(seen, Refuse):
            self._scheduler_lag.refused(pod.group or pod.uid)
            return seen
        short = len(seen) < len(sent)
        sampled = short and len(sent) >= MIN_SAMPLE
        verdict = self._judge_member(pod, group, seen, sampled=sampled)
        if short and isinstance(verdict, Refuse) and group is not None:
            verdict = self._unless_left_out(verdict, pod, group)
        if not short or not isinstance(verdict, AnyNode | OneOf):
            return verdict
        left = seen if isinstance(verdict, AnyNode) else verdict.nodes
        return OneOf(tuple(left), not_seen=frozenset(sent).difference(seen))

    def _unless_left_out(self, refusal: Refuse, pod: PodInfo, group: str) -> Refuse:
        """Return the refusal of a gang that failed while nodes were left out.

        Those nodes may have room that we have not seen yet. Nothing wakes the pod when our watch
        shows it, for kube-scheduler has known of that room all along.
        """
        if not is_failure(refusal) or refusal.reason in TOO_LARGE:
            return refusal
        if refusal.deny and not refusal.again:
            self._verdicts.failed(group, refusal)
        self._scheduler_lag.refused(group)
        return Refuse(Reason.NOT_SEEN_YET, refusal.message)

    def _judge_member(
        self, pod: PodInfo, group: str | None, sent: Sequence[str], *, sampled: bool
    ) -> FilterVerdict:
        """Return where a member may go by the gates and the plan of its group."""
        view, verdicts = self._view, self._verdicts
        if pod.group != group:
            return Refuse(Reason.CACHE_BEHIND, "its pod group label has just changed")
        if group is None:
            return beside_plans(pod, sent, view=view) if view.keeps_room else AnyNode()
        unready = self._unready(pod, group)
        if unready is not None:
            return unready
        known = Known(partial(self._failed, pod, sent), self._turns.refusal)
        # The gates of its group, unless the pod has a plan or the group can do without it.
        verdict = decide(pod, group, sent, view=view, known=known, in_hand=verdicts.awaiting_bind)
        if sampled:
            verdict = of_sample(verdict)
        pod_group = view.pod_group(group)
        if isinstance(verdict, Offer) and pod_group is not None:
            # All gates are open: the whole group is planned, and this pod gets its place.
            found = self._plans.plan(pod, pod_group, verdict)
            verdict = placed(found, pod, sent, view=view)
        assert not isinstance(verdict, Offer)
        if view.claiming(group):
            return self._dry_rounds.judge(pod, group, verdict, sent=sent)
        return verdict

    def _unready(self, pod: PodInfo, group: str) -> Refuse | None:
        """Return why a group cannot be judged now, whatever room there is."""
        is_native = group == pod.native
        stale = None
        if self._view.planned_node(pod.uid) is None:
            stale = self._callbacks.stale() or (
                self._callbacks.natives_stale() if is_native else None
            )
        if stale is None:
            return self._natives.undecided(pod) if is_native else None
        text = f"{about(group)}the extender has not heard of {stale} for too long"
        return Refuse(Reason.CACHE_STALE, text)

    def _failed(self, pod: PodInfo, sent: Sequence[str], group: str) -> Refuse | None:
        """Return the refusal of a group that failed, and for which nothing has changed since.

        Nothing is planned for it, nor for the groups that go first: they have their own turns.
        """
        if group in self._view.queue and not self._verdicts.options.strict_order:
            stands = self._plans.standing(pod, group, sent)
            if stands is not None:
                return stands
        return recently_denied(self._verdicts.denied(group))

    def _in_same_words(self, group: str | None, verdict: FilterVerdict) -> FilterVerdict:
        """Return a verdict with the words of the group's last failure while it is planned anew.

        kube-scheduler writes each new sentence to the pod, and tries a pod again after a write
        (decision 69).
        """
        if isinstance(verdict, Refuse) and verdict.reason is Reason.PLANNING:
            last = self._verdicts.last_failure(group) if group is not None else None
            return verdict if last is None else replace(verdict, message=last.message)
        return verdict

    def _remember(self, pod: PodInfo, group: str | None, verdict: FilterVerdict) -> None:
        refusal = verdict if isinstance(verdict, Refuse) else None
        word = verdict.reason if isinstance(verdict, Refuse) else _WORDS[type(verdict)]
        self._metrics.decisions.labels("filter", word).inc()
        if refusal is None and pod.uid in self._view.refused:
            self._cluster.apply(ev.PodsTried((pod.uid,)))
        if refusal is None:
            node = verdict.node if isinstance(verdict, OneNode) else None
            self._verdicts.awaiting_bind.begin(pod.uid, node)
        else:
            self._verdicts.awaiting_bind.end(pod.uid)
        if pod.claim_keys:
            self._dry_rounds.answered(pod, refused=refusal is not None)
        if group is not None and isinstance(verdict, OneNode | Refuse) and verdict.reserve:
            self._plans.reserve(group, verdict.reserve)
        if refusal is not None:
            self._refused(pod, group, refusal)

    def _refused(self, pod: PodInfo, group: str | None, refusal: Refuse) -> None:
        self._cluster.apply(ev.PodRefused(pod, refusal.reason))
        if refusal.reason is Reason.NOT_ADMITTED:
            self._cluster.apply(ev.Unreserved((pod.uid,)))  # planned when more pods were admitted
        if group is None:
            return
        whole = refusal.deny
        self._verdicts.starts.refused(group, refusal.reason, refusal.message, whole=whole)
        if refusal.lost:
            self._no_node(pod.uid)
        if refusal.deny and not refusal.again:
            self._verdicts.failed(group, refusal)
        if refusal.unseen:
            self._scheduler_lag.refused(group)
        self._set_wake_time(pod, group, refusal)

    def _set_wake_time(self, pod: PodInfo, group: str, refusal: Refuse) -> None:
        """Set the time to wake a group after a member was refused, if no event will wake it.

        It is due when a window ends, another sample is drawn, or another group was planned or had
        its turn.
        """
        reason, verdicts, wake_after = refusal.reason, self._verdicts, self._wake_after
        rest = verdicts.rest_left(group)
        if rest:
            wake_after(group, rest)
        if self._view.planned_node(pod.uid) is not None and reason not in _HAVE_TIMES:
            wake_after(group, MOMENT_SECONDS)
        if reason is Reason.PLANNING and not rest and not self._plans.planner.is_busy(group):
            # The end of its own plan wakes it, and so does that of the groups that go first.
            pod_group = self._view.pod_group(group)
            waits = pod_group is not None and self._plans.plans_before(pod_group)
            wake_after(group, LOOK_SECONDS if waits else MOMENT_SECONDS)
        elif reason is Reason.OUTSIDE_TOPOLOGY:
            wake_after(group, MOMENT_SECONDS)
        elif reason is Reason.CACHE_STALE:
            wake_after(group, BACK_OFF_SECONDS)
        elif reason is Reason.RECENTLY_DENIED:
            wake_after(group, max(verdicts.options.denied, verdicts.denied_left(group)))
        elif reason in TOO_LARGE and not refusal.again:
            # Its siblings are told, and in strict order the next gang has its turn.
            refused = (self._view.refused[uid] for uid in self._view.refused_of(group))
            if any(each.reason not in TOO_LARGE for each in refused):
                wake_after(group, MOMENT_SECONDS)
            if verdicts.options.strict_order:
                wake_after(ROOM, MOMENT_SECONDS)


# --- the order between groups ----------------------------------------------------------------
#
# kube-scheduler brings pods in an order of its own. So before the group of a member that is tried
# gets room, room is kept for the groups that go first (QueueSort). In strict order the group is
# refused while there are any.


class Turns:
    """Enforces the order in which groups are served."""

    def __init__(self, view: ClusterView, plans: Plans) -> None:
        self._view = view
        self._plans = plans
        self._verdicts = plans.verdicts
        self._clock = plans.clock
        self._credit = TURN_SECONDS
        self._last = self._clock.monotonic()
        self._tried = "", 0
        """In strict order: the first group that was planned last, and the version of the nodes."""

    def refusal(self, group: str) -> Refuse | None:
        """Return why it is not a group's turn, after serving those that go first."""
        pod_group = self._view.pod_group(group)
        if group not in self._view.queue or pod_group is None:
            return None
        if self._verdicts.options.strict_order:
            never = self._verdicts.never_fits(group)
            return never or self._unless_first(pod_group)
        if self._is_last(pod_group) or self._serve_first(pod_group):
            return None
        return _others_are_planned(group)

    def _unless_first(self, pod_group: PodGroupInfo) -> Refuse | None:
        """Return why a group has to wait in strict order.

        The first group is planned to see whether it could ever start: kube-scheduler does not ask
        about pods that are larger than every node.
        """
        plans, view = self._plans, self._view
        until = self._clock.monotonic() + TURN_SECONDS
        while True:
            before = gates.groups_before(pod_group, view=view)
            first = next((each for each in before if not plans.never_starts(each)), None)
            if first is None:
                return None
            if plans.planner.is_busy(first.key) or self._clock.monotonic() >= until:
                return _others_are_planned(pod_group.key)
            # A node that has changed may have been the only one on which it could ever fit.
            tried = first.key, view.nodes_version
            is_news = tried != self._tried and self._verdicts.denied(first.key) is None
            if is_news or not plans.had_no_room(first):
                self._tried = tried
                plans.plan_ahead(first, schedulers=plans.schedulers)
            stays = first.key in view.queue and not plans.never_starts(first)
            if stays and not plans.planner.is_busy(first.key):
                return gates.refusal_behind(pod_group, view=view, skip=plans.never_starts)

    def _serve_first(self, pod_group: PodGroupInfo) -> bool:
        """Plan the groups that go first; return whether this group may have its turn.

        It may once they had theirs, or when no time is left for plans that come to nothing.
        """
        plans, clock = self._plans, self._clock
        began = clock.monotonic()
        until = began + TURN_SECONDS
        self._credit = min(TURN_SECONDS, self._credit + (began - self._last) / REST)
        self._last = began
        left, in_vain = self._credit > 0, True

        def is_passed(other: PodGroupInfo) -> bool:
            # To see whether a group is worth a plan takes time too, if many nodes gained room.
            in_time = clock.monotonic() < until
            return in_time and (self._is_last(other) or plans.had_no_room(other))

        for other in gates.groups_ahead(pod_group, view=self._view, skip=is_passed):
            now = clock.monotonic()
            if not left or now >= until:
                self._credit -= now - began if left and in_vain else 0.0
                return not left
            in_vain = False
            seconds = min(PLAN_SECONDS, until - now)
            spent = plans.plan_ahead(other, schedulers=plans.schedulers, seconds=seconds)
            self._credit -= spent
            left = self._credit > 0
        return not plans.plans_before(pod_group)

    def _is_last(self, pod_group: PodGroupInfo) -> bool:
        """Return whether the group lacks a single pod, which is then scheduled like a plain pod."""
        committed = self._view.tally(pod_group.key).committed
        return self._view.quorum(pod_group) - committed <= 1


def _others_are_planned(group: str) -> Refuse:
    return Refuse(Reason.PLANNING, f"{about(group)}gangs that go first are being planned")


# --- pods of native PodGroups, which kube-scheduler may schedule as groups itself -------------
#
# With its feature gates on, kube-scheduler tries all pods of a native group in one cycle, and puts
# them back if too many find no node. A pod that an extender refused then goes to its back-off
# queue, from which kube-scheduler takes pods at once while nothing else waits: so it would try the
# group without a pause. An answer with an Error ends the cycle and puts the whole group off, for
# one second at first and for up to ten later (decision 91).

UNDECIDED: Final = (
    "whether kube-scheduler starts native groups as a whole shows when it is asked to wait"
)

NOT_FOUND: Final = "there is no PodGroup of scheduling.k8s.io of that name"


class NativeGangs:
    """Finds out whether native gangs are ours to start, and puts refused groups off."""

    def __init__(self, cluster: Cluster, *, clock: Clock) -> None:
        self._cluster = cluster
        self._view = cluster.view()
        self._clock = clock
        self._asked_at: dict[str, float] = {}
        """The time when kube-scheduler was first made to pause, by PodGroup without a condition."""
        self._refused: TTLCache[tuple[str, str | None], None] = TTLCache(
            REMEMBERED, LOOK_SECONDS, clock.monotonic
        )
        """The pods that were refused lately: UID and domain."""

    def undecided(self, pod: PodInfo) -> Refuse | None:
        """Return a refusal by which kube-scheduler shows whether it schedules groups itself.

        If it does, it writes a condition to the PodGroup at once. If there is none when a pod of
        the group is tried again, native gangs are ours from then on, or until there is one. A
        PodGroup that we do not see proves nothing: we would not see its condition either.
        """
        if self._view.natives_are_ours is not None or pod.native is None:
            return None
        now, group = self._clock.monotonic(), pod.native
        if self._view.pod_group_of(GROUP_NATIVE, group) is None:
            self._asked_at.pop(group, None)
            return Refuse(Reason.NATIVE_GROUP_WAITS, NOT_FOUND, pauses=True)
        if now - self._asked_at.setdefault(group, now) < SETTLED_SECONDS:
            return Refuse(Reason.NATIVE_GROUP_WAITS, UNDECIDED, pauses=True)
        _log.info("native gangs are ours: kube-scheduler wrote no condition to a PodGroup")
        self._asked_at.clear()
        self._cluster.apply(ev.NativesDecided(ours=True))
        return None

    def enough(self, pod: PodInfo, sent: Sequence[str]) -> FilterVerdict:
        """Return that a pod may use every node, or as many as kube-scheduler finds enough.

        kube-scheduler judges the pods of a native group one by one in one cycle, and scores all
        nodes that are left for each: it looks for 420 of a thousand nodes, for 100 of a hundred.
        With fewer it saves about the time that it takes to ask us. A pod with constraints of its
        own, about nodes or other pods, gets all of them.
        """
        if pod.native is None or len(sent) <= MIN_SAMPLE or not self._view.has_group_cycles:
            return AnyNode()
        if pod.shape.affinity is not None or pod.shape.individually_constrained:
            return AnyNode()
        return OneOf(tuple(sent[:MIN_SAMPLE]), enough=True)

    def put_off(self, pod: PodInfo, verdict: FilterVerdict, sent: Sequence[str]) -> FilterVerdict:
        """Return the verdict; a refusal is changed so that kube-scheduler pauses.

        With a topology constraint kube-scheduler tries one domain after another, and an Error in
        the first one would keep it from the others: only the second refusal in a row is an Error.
        """
        if not isinstance(verdict, Refuse) or verdict.pauses:
            return verdict
        if pod.native is None or not self._view.has_group_cycles:
            return verdict
        if self._is_first_in_domain(pod, pod.native, sent):
            return verdict
        return replace(verdict, reason=Reason.NATIVE_GROUP_WAITS, deny=False, pauses=True)

    def _is_first_in_domain(self, pod: PodInfo, native: str, sent: Sequence[str]) -> bool:
        pod_group = self._view.pod_group_of(GROUP_NATIVE, native)
        label = pod_group.required_topology if pod_group is not None else None
        if label is None:
            return False
        node = next(filter(None, map(self._view.nodes.get, sent)), None)
        where = pod.uid, node.labels.get(label) if node is not None else None
        if where in self._refused:
            return False
        self._refused[where] = None
        return True


# --- whether our watch is behind ---------------------------------------------------------------
#
# Watches are behind each other by a moment. They disagree once kube-scheduler sees more room than
# we do for too long.

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
