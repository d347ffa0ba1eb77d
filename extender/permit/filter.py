"""Decides the answer of filter for a pod, and keeps the room, verdict or refusal that it means.

It runs in one step of the event loop and never awaits: kube-scheduler asks about one pod after
another, so its latency limits the throughput of the whole cluster.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from extender.api.reasons import Reason
from extender.gang import ahead, plan
from extender.gang.filter import (
    MIN_SAMPLE,
    beside_plans,
    decide,
    is_failure,
    of_bound,
    of_sample,
    placed,
    recently_denied,
    usable,
)
from extender.gang.fit import Fit, Offer
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
from extender.permit.ahead.scheduler_lag import SchedulerLag
from extender.permit.claims import Claims
from extender.permit.natives import NativeGangs
from extender.permit.plans import Plans
from extender.permit.process import Process
from extender.permit.turns import Turns
from extender.permit.wake import WakeTimes
from extender.permit.watch_lag import WatchLag
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster

_WORDS: Final = {AnyNode: "AnyNode", OneOf: "OneOf", OneNode: "Place"}
"""The words for answers in metrics."""


class PodFilter:
    """Decides where pods may go; `no_node` takes the UID of a member that lost its room."""

    def __init__(
        self,
        cluster: Cluster,
        plans: Plans,
        claims: Claims,
        *,
        scheduler_lag: SchedulerLag,
        process: Process,
        no_node: Callable[[str], None],
    ) -> None:
        self._process = process
        wake_after = process.wake_after
        self.lags = WatchLag(cluster.view(), timer=plans.clock.monotonic, wake_after=wake_after)
        self._scheduler_lag = scheduler_lag
        self._cluster = cluster
        self._view = cluster.view()
        self._plans = plans
        self._verdicts = plans.verdicts
        self._claims = claims
        self._natives = NativeGangs(cluster, clock=plans.clock)
        self._turns = Turns(cluster.view(), plans)
        self._times = WakeTimes(cluster.view(), plans, wake_after=wake_after)
        self._metrics = process.metrics
        self._no_node = no_node

    def asked(self, pod: PodInfo) -> None:
        """Take note of the scheduler that asks about a pod, in any request."""
        self._plans.schedulers.add(pod.scheduler)

    def decide(self, pod: PodInfo, group: str | None, sent: Sequence[str]) -> FilterVerdict:
        """Return where a pod may go among the sent nodes; `group` is the one in the request."""
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
        if node is None and held is None and group is None and not self._is_judged:
            self._verdicts.awaiting_bind.begin(pod.uid, None)
            return self._natives.enough(pod, sent)
        if node is not None:
            self._scheduler_lag.brought(pod)
            verdict = of_bound(pod, node, sent)
        else:
            verdict = not_admitted(held) if held else self._decide_seen(pod, group, sent)
            if isinstance(verdict, AnyNode) and not self._view.keeps_room:
                verdict = self._natives.enough(pod, sent)
        verdict = self.lags.unless_it_lasts(verdict, pod, sent)
        if pod.native is not None:
            verdict = self._natives.put_off(pod, verdict, sent)
        self._remember(pod, group, verdict)
        return self._in_same_words(group, verdict)

    @property
    def _is_judged(self) -> bool:
        """True if pods without a group are judged: room is kept, or bound pods may be unseen."""
        return self._view.keeps_room or self._view.unseen.exist

    def _decide_seen(self, pod: PodInfo, group: str | None, sent: Sequence[str]) -> FilterVerdict:
        """Return where a pod may go, among the sent nodes that have room beside unseen pods."""
        seen = usable(pod, sent, view=self._view)
        if isinstance(seen, Refuse):
            self._scheduler_lag.refused(pod)
            return seen
        short = len(seen) < len(sent)
        sampled = short and len(sent) >= MIN_SAMPLE
        verdict = self._decide(pod, group, seen, sampled=sampled)
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
        if not is_failure(refusal) or refusal.reason is Reason.NEVER_FITS:
            return refusal
        if refusal.deny and not refusal.again:
            self._verdicts.failed(group, refusal, shape=pod.shape)
        self._scheduler_lag.left_out(group)
        return Refuse(Reason.NOT_SEEN_YET, refusal.message)

    def _decide(
        self, pod: PodInfo, group: str | None, sent: Sequence[str], *, sampled: bool
    ) -> FilterVerdict:
        view, verdicts = self._view, self._verdicts
        if pod.group != group:
            return Refuse(Reason.CACHE_BEHIND, "its pod group label has just changed")
        if group is None:
            return beside_plans(pod, sent, view=view) if view.keeps_room else AnyNode()
        unready = self._unready(pod, group)
        if unready is not None:
            return unready
        verdicts.offered(group, pod.shape, sent)
        known = Known(partial(self._failed, pod, sent), self._turns.refusal)
        verdict = decide(pod, group, sent, view=view, known=known, in_hand=verdicts.awaiting_bind)
        if sampled:
            verdict = of_sample(verdict)
        if isinstance(verdict, Offer):
            verdict = placed(self.plan(pod, group, verdict), pod, sent, view=view)
        return self._claims.judge(pod, group, verdict, sent=sent)

    def _unready(self, pod: PodInfo, group: str) -> Refuse | None:
        """Return why a group cannot be judged now, whatever room there is."""
        is_native = group == pod.native
        stale = None
        if self._view.planned_node(pod.uid) is None:
            stale = self._process.stale() or (self._process.natives_stale() if is_native else None)
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

    def plan(self, pod: PodInfo, group: str, offer: Offer) -> Fit | Refuse:
        """Return where a pod and its siblings go, or why they cannot.

        A plan that takes long is finished between other work, and a refusal says so meanwhile.
        """
        known = self._plans.known(pod, group, offer)
        if known is not None:
            return known
        pod_group = self._view.pod_group(group)
        assert pod_group is not None
        permitted = self._verdicts.is_permitted(group)
        steps = plan.plan_gang(pod, pod_group, view=self._view, offer=offer, permitted=permitted)
        return self._plans.work_out(group, steps, pod.shape)

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
            self._claims.passed(pod)
        else:
            self._verdicts.awaiting_bind.end(pod.uid)
            self._claims.refused(pod)
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
            self._verdicts.failed(group, refusal, shape=pod.shape)
        self._times.set(pod, group, refusal)
