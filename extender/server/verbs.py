"""The four verbs: they decode a request, ask for a decision, and encode the answer.

kube-scheduler's scheduling loop waits for filter, prioritize and preempt, which do not await. Bind
is Permit for members of a gang, then one write to the API server. A pod has one Binding: where
kube-scheduler asks for a pod whose Binding is being written, because it was started anew or has not
seen yet what was written, that request waits for the write and has the same answer.

A refusal is put so that kube-scheduler reads and writes as little as possible. kube-scheduler
composes the text of a pod's condition from what the extender says of nodes, and from what its own
filters say of those that it came across: on large clusters that is another number of nodes each
time. It writes each new text to the pod, with an Event, and tries a pod that the extender refused
and that was written to once more. So pods that wait would be tried without end (decision 69).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

import msgspec

from extender.api.extender_v1 import (
    BindingArgs,
    BindingResult,
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
from extender.gang.filter import KEPT_FOR_GANG, NOT_SEEN
from extender.gang.preempt import proposals
from extender.gang.score import score
from extender.gang.verdicts import AnyNode, FilterVerdict, OneNode, OneOf, Refuse
from extender.kube.decode import Decoder, group_of
from extender.permit.ahead import Ahead
from extender.permit.bind import BindRequest, Binds
from extender.permit.filter import PodFilter
from extender.permit.hold import Gone
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView

LIKEWISE: Final = "likewise"
"""The text for all nodes but the first."""

_encode = msgspec.json.Encoder().encode


def said_once(names: Iterable[str], text: str) -> dict[str, str]:
    """Return a text for the first of the nodes that it is about; nothing where there are none.

    What is in no list counts as unresolvable, and has no text. One for each of some hundred nodes
    would take kube-scheduler's loop half a millisecond to read.
    """
    return dict.fromkeys(islice(names, 1), text)


class AllNodes:
    """Refuses every node of the cluster, those too that kube-scheduler's own filters rejected.

    What is said of these takes the place of what the filters said. So the text is the same at each
    attempt, and kube-scheduler looks for nothing to preempt.
    """

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._version = -1
        self._first = ""
        self._others = b""
        """The nodes but for the first one, encoded: they are the same until nodes come or go."""

    @property
    def are_known(self) -> bool:
        """Return whether the cluster has nodes."""
        return bool(self._view.nodes)

    def refused(self, text: str) -> msgspec.Raw:
        """Return a text for the first node, and for the others that it is the same with them.

        There must be one.
        """
        if self._version != self._view.nodes_version:
            self._read()
        return msgspec.Raw(b"{%b:%b%b}" % (_encode(self._first), _encode(text), self._others))

    def _read(self) -> None:
        self._version = self._view.nodes_version
        names = iter(sorted(self._view.nodes))
        self._first = next(names)
        rest = _encode(dict.fromkeys(names, LIKEWISE))[1:-1]
        self._others = b"," + rest if rest else b""


Refused = dict[str, str] | msgspec.Raw
"""Texts by node."""

_decode_args = msgspec.json.Decoder(ExtenderArgs).decode
_decode_preemption = msgspec.json.Decoder(PreemptionArgs).decode
_decode_head = msgspec.json.Decoder(ObjectHead).decode
_decode_names = msgspec.json.Decoder(list[str] | None).decode


class SchedulingVerbs:
    """Answers in bytes to requests in bytes; raises ValueError for what cannot be read."""

    def __init__(
        self,
        view: ClusterView,
        decoder: Decoder,
        pod_filter: PodFilter,
        *,
        ahead: Ahead,
    ) -> None:
        self._view = view
        self._decoder = decoder
        self._filter = pod_filter
        self._ahead = ahead
        self._all_nodes = AllNodes(view)

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
        self._ahead.filtered(pod)
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
        requested = self._decoder.pod(args.pod)
        pod = self._view.pods.get(requested.uid) or requested.as_requested()
        # kube-scheduler has just nominated the node, and our watch may show that later.
        pod = replace(pod, nominated=requested.nominated)
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
            refused = said_once(kept, KEPT_FOR_GANG)
            return _only(nodes, args, refused | said_once(not_seen, NOT_SEEN))
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


_decode_binding = msgspec.json.Decoder(BindingArgs).decode


class BindVerb:
    """Answers in bytes to requests in bytes; raises ValueError for what cannot be read."""

    def __init__(self, binds: Binds) -> None:
        self._binds = binds

    async def bind(self, body: bytes, gone: Gone) -> bytes:
        """Bind a pod; the answer's error is empty when the pod is on the node."""
        args = _decode_binding(body)
        request = BindRequest(args.pod_uid, args.pod_namespace, args.pod_name, args.node)
        error = await self._binds.bind(request, gone)
        return _encode(BindingResult(error_text(error)))
