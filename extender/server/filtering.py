"""The verbs that kube-scheduler's scheduling loop waits for: filter, prioritize, preempt.

They run between two reads of the event loop and never await: the loop calls one pod after another,
so their latency divides the throughput of the whole cluster.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import structlog

from extender.api.extender_v1 import (
    ExtenderArgs,
    FilterResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    NodeItems,
    ObjectHead,
    PreemptionArgs,
    PreemptionResult,
)
from extender.api.wellknown import Reason
from extender.gang import pre_filter, preemption
from extender.gang.score import score
from extender.gang.verdicts import (
    AnyNode,
    FilterVerdict,
    OneOf,
    Place,
    Refuse,
    about,
    not_admitted,
)
from extender.kube.decode import Decoder, group_of
from extender.server.group_memory import GroupMemory
from extender.server.lag import Lags
from extender.server.turns import Turns
from extender.state import events as ev
from extender.state.cluster import Cluster
from extender.state.pods import PodInfo
from extender.telemetry.metrics import Metrics

_decode_args = msgspec.json.Decoder(ExtenderArgs).decode
_decode_preemption = msgspec.json.Decoder(PreemptionArgs).decode
_decode_head = msgspec.json.Decoder(ObjectHead).decode
_decode_names = msgspec.json.Decoder(list[str] | None).decode
_encode = msgspec.json.Encoder().encode
_log = structlog.get_logger(__name__)

ROOM: Final = ""
"""Whom to wake where it is about room and no group; no group has an empty name."""
RESAMPLE_SECONDS: Final = 0.05
"""On big clusters the next attempt sees other nodes; no need to wait for anything."""

_SAYS_NOTHING_OF_ROOM: Final = frozenset((Reason.PLANNING, Reason.CACHE_STALE))
PLANNED_FIRST_SECONDS: Final = 1.0
"""When a gang is tried again at the latest that waits for the plan of another one: the end of that
plan wakes it."""
STALE_SECONDS: Final = 10.0
"""How often a gang is tried while nothing is heard of the API server."""


class Filtering:
    """Answers in bytes to requests in bytes; raises ValueError for what cannot be read."""

    def __init__(
        self,
        cluster: Cluster,
        decoder: Decoder,
        memory: GroupMemory,
        *,
        metrics: Metrics,
        wake_after: Callable[[str, float], None],
        no_node: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._snapshot = cluster.snapshot()
        self._decoder = decoder
        self._memory = memory
        self._turns = Turns(cluster.snapshot(), memory)
        self._metrics = metrics
        self._wake_after = wake_after
        self._no_node = no_node
        self.stale: Callable[[], str | None] = lambda: None
        """Returns a kind whose watch is stale."""
        self.lags = Lags(memory.clock.monotonic)
        self._behind_plans: set[str] = set()
        """Groups that wait for the plan of a group that goes first."""
        memory.planner.on_end(self._plan_ended)

    def filter(self, body: bytes) -> bytes:
        """Return the nodes that the pod may use, or one text for why there is none."""
        args = _decode_args(body)
        head = _decode_head(args.pod).metadata
        if not head.uid:
            raise ValueError("Pod.metadata.uid is missing")
        group = group_of(head.namespace, head.labels)
        sent = _names(args)
        pod = self._pod(head.uid, args)
        self._memory.schedulers.add(pod.scheduler)
        held = self._snapshot.awaits_admission(pod)
        if held is None and group is None and not self._snapshot.keeps_room:
            return _encode(FilterResult(node_names=args.node_names, nodes=args.nodes))
        verdict = not_admitted(held) if held else self._decide(pod, group, sent)
        verdict = self._unless_it_lasts(verdict, pod, sent)
        self._remember(pod, group, verdict)
        return _encode(_result(verdict, sent, args))

    def prioritize(self, body: bytes) -> bytes:
        """Return points by node."""
        args = _decode_args(body)
        pod = self._snapshot.pods.get(_decode_head(args.pod).metadata.uid)
        points = score(pod, _names(args), snapshot=self._snapshot)
        return _encode([HostPriority(host, value) for host, value in points.items()])

    def preempt(self, body: bytes) -> bytes:
        """Return the nodes on which preemption may go on, with their victims by UID."""
        args = _decode_preemption(body)
        offers = args.node_name_to_meta_victims or {
            node: MetaVictims(
                pods=[MetaPod(uid=pod.metadata.uid) for pod in victims.pods or ()],
                num_pdb_violations=victims.num_pdb_violations,
            )
            for node, victims in (args.node_name_to_victims or {}).items()
        }
        pod = self._snapshot.pods.get(_decode_head(args.pod).metadata.uid)
        uids = {node: [victim.uid for victim in offer.pods or ()] for node, offer in offers.items()}
        kept = preemption.decide(pod, uids, snapshot=self._snapshot)
        return _encode(PreemptionResult({node: offers[node] for node in kept}))

    def _pod(self, uid: str, args: ExtenderArgs) -> PodInfo:
        known = self._snapshot.pods.get(uid)
        if known is not None:
            return known
        pod = self._decoder.pod(args.pod).as_requested()
        self._cluster.apply(ev.PodSeen(pod))
        return pod

    def _decide(self, pod: PodInfo, group: str | None, sent: Sequence[str]) -> FilterVerdict:
        if pod.group != group:
            return Refuse(Reason.CACHE_BEHIND, "its pod group label has just changed")
        if group is None:
            return pre_filter.beside_plans(pod, sent, snapshot=self._snapshot)
        stale = self.stale() if self._snapshot.planned_node(pod.uid) is None else None
        if stale is not None:
            text = f"{about(group)}the extender has not heard of {stale} for too long"
            return Refuse(Reason.CACHE_STALE, text)
        self._memory.offered(group, pod.shape, sent)
        refusal = self._turns.refusal(pod, group)
        if refusal is not None:
            return pre_filter.unless_behind(refusal, pod, sent, snapshot=self._snapshot)
        return pre_filter.decide(
            pod,
            group,
            sent,
            snapshot=self._snapshot,
            denied=self._memory.denied(group),
            make=self._memory.plan,
        )

    def _unless_it_lasts(
        self, verdict: FilterVerdict, pod: PodInfo, sent: Sequence[str]
    ) -> FilterVerdict:
        """Return what the two disagree on where they have for longer than a watch is behind."""
        if not isinstance(verdict, Refuse) or verdict.reason is not Reason.CACHE_BEHIND:
            if not isinstance(verdict, Refuse) or verdict.reason not in _SAYS_NOTHING_OF_ROOM:
                self.lags.over(pod.uid)
            return verdict
        before = self.lags.disagrees(pod.uid)
        pause = self.lags.seen(pod.uid)
        self._wake_after(pod.group or pod.uid, pause)
        if not self.lags.disagrees(pod.uid):
            return verdict
        found = pre_filter.disagreement(pod, sent, snapshot=self._snapshot)
        if found is None:
            return verdict
        if not before:
            _log.warning(
                "kube-scheduler and the extender disagree",
                pod=pod.key,
                node=found.node,
                resources=found.resources,
            )
        return Refuse(Reason.SCHEDULER_DISAGREES, about(pod.group) + found.sentence())

    def _remember(self, pod: PodInfo, group: str | None, verdict: FilterVerdict) -> None:
        match verdict:
            case Refuse():
                self._metrics.decisions.labels("filter", verdict.reason).inc()
                self._refused(pod, group, verdict)
            case AnyNode() | OneOf() | Place():
                self._metrics.decisions.labels("filter", type(verdict).__name__).inc()
                if pod.uid in self._snapshot.refused:
                    self._cluster.apply(ev.PodsTried((pod.uid,)))
                if group is not None and isinstance(verdict, Place) and verdict.reserve:
                    self._memory.reserve(group, verdict.reserve)

    def _refused(self, pod: PodInfo, group: str | None, verdict: Refuse) -> None:
        if group is not None and verdict.reserve:
            self._memory.reserve(group, verdict.reserve)
        self._cluster.apply(ev.PodRefused(pod, verdict.reason))
        if group is not None and verdict.lost:
            self._no_node(pod.uid)
        if group is not None and verdict.deny:
            self._memory.failed(group, verdict, shape=pod.shape)
        self._wake_later(pod, group, verdict.reason)

    def _wake_later(self, pod: PodInfo, group: str | None, reason: Reason) -> None:
        """Have pods woken for whom nothing will change that kube-scheduler can see.

        That is when a window ends, another sample is drawn, or a group had its turn in vain.
        """
        options = self._memory.options
        rest = self._memory.planner.rest_left(group) if group is not None else 0.0
        if group is not None and rest:
            self._wake_after(group, rest)
        elif group is not None and reason is Reason.PLANNING:
            self._wake_when_planned(group)
        if group is not None and reason is Reason.CACHE_STALE:
            self._wake_after(group, STALE_SECONDS)
        if group is not None and reason is Reason.RECENTLY_DENIED:
            self._wake_after(group, options.denied)
        elif group is not None and self._snapshot.planned_node(pod.uid) is not None:
            self._wake_after(group, RESAMPLE_SECONDS)
        if group is not None and reason is Reason.NEVER_FITS:
            self._pass_on(group)

    def _wake_when_planned(self, group: str) -> None:
        """Have a group woken when those that go first are planned."""
        if self._memory.is_planned(group):
            return  # the end of its own plan wakes it
        pod_group = self._snapshot.pod_group(group)
        if pod_group is not None and self._memory.plans_before(pod_group):
            self._behind_plans.add(group)
            self._wake_after(group, PLANNED_FIRST_SECONDS)
        else:
            self._wake_after(group, RESAMPLE_SECONDS)

    def _plan_ended(self, _: str, seconds: float) -> None:
        if not seconds:
            waiting, self._behind_plans = self._behind_plans, set()
            for group in waiting:
                self._wake_after(group, 0.0)

    def _pass_on(self, group: str) -> None:
        """Have siblings of a gang that never fits told so, and in strict order the next gang."""
        refused = self._snapshot.refused
        siblings = (refused.get(uid) for uid in self._snapshot.tally(group).members)
        if any(each is not None and each.reason != Reason.NEVER_FITS for each in siblings):
            self._wake_after(group, RESAMPLE_SECONDS)
        if self._memory.options.strict_order:
            self._wake_after(ROOM, RESAMPLE_SECONDS)


def _names(args: ExtenderArgs) -> list[str]:
    if args.nodes is not None and args.nodes.items is not None:
        return [_decode_head(item).metadata.name for item in args.nodes.items]
    return _decode_names(args.node_names) or []


def _result(verdict: FilterVerdict, sent: Sequence[str], args: ExtenderArgs) -> FilterResult:
    match verdict:
        case AnyNode():
            return FilterResult(node_names=args.node_names, nodes=args.nodes)
        case OneOf(nodes):
            refusal = dict.fromkeys(set(sent).difference(nodes), pre_filter.KEPT_FOR_GANG)
            return _only(nodes, args, refusal)
        case Place(node):
            return _only((node,), args, {})
        case Refuse(_, message):
            return _only((), args, dict.fromkeys(sent, message))


def _only(nodes: Sequence[str], args: ExtenderArgs, refused: dict[str, str]) -> FilterResult:
    """Return an answer in the form of the request: names, or the nodes as they were sent.

    Refused nodes are unresolvable: evicting somebody does not make a gang complete.
    """
    if args.nodes is None:
        return FilterResult(node_names=list(nodes), failed_and_unresolvable_nodes=refused)
    wanted = set(nodes)
    items = [i for i in args.nodes.items or () if _decode_head(i).metadata.name in wanted]
    return FilterResult(nodes=NodeItems(items), failed_and_unresolvable_nodes=refused)
