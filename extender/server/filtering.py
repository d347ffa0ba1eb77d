"""The verbs that kube-scheduler's scheduling loop waits for: filter, prioritize, preempt.

They decode a request, ask, and encode the answer, without an await.
"""

from collections.abc import Sequence

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
)
from extender.gang import pre_filter, preemption, unseen
from extender.gang.score import score
from extender.gang.verdicts import AnyNode, FilterVerdict, OneNode, OneOf, Refuse
from extender.kube.decode import Decoder, group_of
from extender.permit.filter import PodFilter
from extender.state.cluster.view import ClusterView

_decode_args = msgspec.json.Decoder(ExtenderArgs).decode
_decode_preemption = msgspec.json.Decoder(PreemptionArgs).decode
_decode_head = msgspec.json.Decoder(ObjectHead).decode
_decode_names = msgspec.json.Decoder(list[str] | None).decode
_encode = msgspec.json.Encoder().encode


class Filtering:
    """Answers in bytes to requests in bytes; raises ValueError for what cannot be read."""

    def __init__(self, view: ClusterView, decoder: Decoder, pod_filter: PodFilter) -> None:
        self._view = view
        self._decoder = decoder
        self._filter = pod_filter

    def filter(self, body: bytes) -> bytes:
        """Return the nodes that the pod may use, or one text for why there is none."""
        args = _decode_args(body)
        head = _decode_head(args.pod).metadata
        if not head.uid:
            raise ValueError("Pod.metadata.uid is missing")
        pod = self._view.pods.get(head.uid) or self._decoder.pod(args.pod).as_requested()
        sent = _names(args)
        verdict = self._filter.decide(pod, group_of(head.namespace, head.labels), sent)
        return _encode(_result(verdict, sent, args))

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
        pod = self._view.pods.get(_decode_head(args.pod).metadata.uid)
        uids = {node: [victim.uid for victim in offer.pods or ()] for node, offer in offers.items()}
        kept = preemption.decide(pod, uids, view=self._view)
        return _encode(PreemptionResult({node: offers[node] for node in kept}))


def _names(args: ExtenderArgs) -> list[str]:
    if args.nodes is not None and args.nodes.items is not None:
        return [_decode_head(item).metadata.name for item in args.nodes.items]
    return _decode_names(args.node_names) or []


def _result(verdict: FilterVerdict, sent: Sequence[str], args: ExtenderArgs) -> FilterResult:
    match verdict:
        case AnyNode():
            return FilterResult(node_names=args.node_names, nodes=args.nodes)
        case OneOf(nodes, not_seen):
            refusal = dict.fromkeys(set(sent).difference(nodes), pre_filter.KEPT_FOR_GANG)
            refusal.update(dict.fromkeys(not_seen, unseen.NOT_SEEN))
            return _only(nodes, args, refusal)
        case OneNode(node):
            return _only((node,), args, {})
        case Refuse(_, message):
            return _only((), args, dict.fromkeys(sent, message))


def _only(nodes: Sequence[str], args: ExtenderArgs, refused: dict[str, str]) -> FilterResult:
    """Return an answer in the form of the request: names, or the nodes as they were sent.

    Refused nodes are unresolvable: an eviction does not make a gang complete.
    """
    if args.nodes is None:
        return FilterResult(node_names=list(nodes), failed_and_unresolvable_nodes=refused)
    wanted = set(nodes)
    items = [i for i in args.nodes.items or () if _decode_head(i).metadata.name in wanted]
    return FilterResult(nodes=NodeItems(items), failed_and_unresolvable_nodes=refused)
