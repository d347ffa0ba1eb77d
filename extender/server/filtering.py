"""The verbs that kube-scheduler's scheduling loop waits for: filter, prioritize, preempt.

They decode a request, ask, and encode the answer, without an await. A filter request may have to
pause before that.
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

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
    error_text,
)
from extender.api.reasons import Reason
from extender.gang import pre_filter, unseen
from extender.gang.preemption import proposals
from extender.gang.score import score
from extender.gang.verdicts import AnyNode, FilterVerdict, OneNode, OneOf, Refuse
from extender.kube.decode import Decoder, group_of
from extender.permit.arrivals import ArrivingGangs
from extender.permit.filter import PodFilter
from extender.permit.pause import Pauses
from extender.permit.waiting_pods import Gone
from extender.server.refusing import AllNodes, said_once
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView

Refused = dict[str, str] | msgspec.Raw
"""Texts by node."""

_decode_args = msgspec.json.Decoder(ExtenderArgs).decode
_decode_preemption = msgspec.json.Decoder(PreemptionArgs).decode
_decode_head = msgspec.json.Decoder(ObjectHead).decode
_decode_names = msgspec.json.Decoder(list[str] | None).decode
_encode = msgspec.json.Encoder().encode


class Filtering:
    """Answers in bytes to requests in bytes; raises ValueError for what cannot be read."""

    def __init__(
        self,
        view: ClusterView,
        decoder: Decoder,
        pod_filter: PodFilter,
        *,
        pauses: Pauses | None = None,
        arriving: ArrivingGangs | None = None,
    ) -> None:
        self._view = view
        self._decoder = decoder
        self._filter = pod_filter
        self._pauses = pauses
        self._arriving = arriving
        self._all_nodes = AllNodes(view)

    async def pause(self, body: bytes, gone: Gone) -> float:
        """Return when a filter request may be answered, with the seconds for which it was held.

        Raises ValueError for what cannot be read, and where kube-scheduler hung up meanwhile.
        """
        pauses = self._pauses if self._pauses is not None and self._pauses.are_due else None
        arriving = self._arriving
        if pauses is None and (arriving is None or not arriving.are_due):
            return 0.0
        head = _decode_head(_decode_args(body).pod).metadata
        group = group_of(head.namespace, head.labels)
        if group is None:
            return 0.0
        held = await pauses.hold(head.uid, gone) if pauses is not None else 0.0
        if held == 0.0 and arriving is not None and arriving.are_due:
            held = await arriving.hold(group, gone)
        if held is None:
            raise ValueError("kube-scheduler hung up")
        return held

    def filter(self, body: bytes) -> bytes:
        """Return the nodes that the pod may use, or one text for why there is none."""
        args = _decode_args(body)
        head = _decode_head(args.pod).metadata
        if not head.uid:
            raise ValueError("Pod.metadata.uid is missing")
        pod = self._view.pods.get(head.uid) or self._decoder.pod(args.pod).as_requested()
        sent, group = _names(args), group_of(head.namespace, head.labels)
        if pod.native is not None:
            group = self._view.member_of(pod, group)
            pod = pod if pod.group == group else replace(pod, group=group)
        verdict = self._filter.decide(pod, group, sent)
        if isinstance(verdict, Refuse) and verdict.pauses:
            return _encode(FilterResult(error=error_text(verdict.message)))
        if isinstance(verdict, Refuse) and self._is_in_vain(pod, verdict):
            return _encode(_only((), args, self._all_nodes.refused(verdict.message)))
        return _encode(_result(verdict, sent, args))

    def _is_in_vain(self, pod: PodInfo, refusal: Refuse) -> bool:
        """Return whether a refused pod could start on no node, whatever kube-scheduler evicts."""
        if refusal.reason is Reason.ALREADY_BOUND or not self._all_nodes.are_known:
            return False  # a pod that is bound is not tried again
        not_admitted = refusal.reason is Reason.NOT_ADMITTED
        return not_admitted or proposals.is_in_vain(pod, view=self._view)

    def prioritize(self, body: bytes) -> bytes:
        """Return points by node."""
        args = _decode_args(body)
        pod = self._view.pods.get(_decode_head(args.pod).metadata.uid)
        points = score(pod, _names(args), view=self._view)
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
        # A member that no watch has shown yet must not evict others for a gang that cannot start.
        known = self._view.pods.get(_decode_head(args.pod).metadata.uid)
        pod = known or self._decoder.pod(args.pod).as_requested()
        self._filter.asked(pod)
        uids = {node: [victim.uid for victim in offer.pods or ()] for node, offer in offers.items()}
        kept = proposals.decide(pod, uids, view=self._view)
        return _encode(PreemptionResult({node: offers[node] for node in kept}))


def _names(args: ExtenderArgs) -> list[str]:
    if args.nodes is not None and args.nodes.items is not None:
        return [_decode_head(item).metadata.name for item in args.nodes.items]
    return _decode_names(args.node_names) or []


def _result(verdict: FilterVerdict, sent: Sequence[str], args: ExtenderArgs) -> FilterResult:
    match verdict:
        case AnyNode():
            return FilterResult(node_names=args.node_names, nodes=args.nodes)
        case OneOf(nodes, enough=True):
            return _only(nodes, args, {})
        case OneOf(nodes, not_seen):
            left = {*nodes, *not_seen}
            kept = (name for name in sent if name not in left)
            refused = said_once(kept, pre_filter.KEPT_FOR_GANG)
            return _only(nodes, args, refused | said_once(not_seen, unseen.NOT_SEEN))
        case OneNode(node):
            return _only((node,), args, {})
        case Refuse(_, message):
            return _only((), args, said_once(sent, message))


def _only(nodes: Sequence[str], args: ExtenderArgs, refused: Refused) -> FilterResult:
    """Return an answer in the form of the request: names, or the nodes as they were sent.

    Other nodes are unresolvable: an eviction does not make a gang complete.
    """
    if args.nodes is None:
        return FilterResult(node_names=list(nodes), failed_and_unresolvable_nodes=refused)
    wanted = set(nodes)
    items = [i for i in args.nodes.items or () if _decode_head(i).metadata.name in wanted]
    return FilterResult(nodes=NodeItems(items), failed_and_unresolvable_nodes=refused)
