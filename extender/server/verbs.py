"""The four verbs: they decode a request, ask for a decision, and encode the answer.

kube-scheduler's scheduling loop waits for filter, prioritize and preempt, which do not await. A
filter request may have to pause before that. Bind is Permit for members of a gang, then one write
to the API server. A pod has one Binding: where kube-scheduler asks for a pod whose Binding is being
written, because it was started anew or has not seen yet what was written, that request waits for
the write and has the same answer.

A refusal is put so that kube-scheduler reads and writes as little as possible. kube-scheduler
composes the text of a pod's condition from what the extender says of nodes, and from what its own
filters say of those that it came across: on large clusters that is another number of nodes each
time. It writes each new text to the pod, with an Event, and tries a pod that the extender refused
and that was written to once more. So pods that wait would be tried without end (decision 69).
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
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
from extender.gang.filter import KEPT_FOR_GANG, NOT_SEEN, usable
from extender.gang.preemption import proposals
from extender.gang.score import score
from extender.gang.verdicts import AnyNode, FilterVerdict, OneNode, OneOf, Refuse, not_admitted
from extender.kube.decode import Decoder, group_of
from extender.permit.arrivals import ArrivingGangs
from extender.permit.filter import PodFilter
from extender.permit.pause import Pauses
from extender.permit.sight import Sight
from extender.permit.waiting_pods import Gone, WaitingPods
from extender.permit.writing import HUNG_UP, BindingWriter
from extender.permit.writing_ahead import AheadWriter
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView

MARGIN_SECONDS: Final = 8.0
"""kube-scheduler gives a pod up when its httpTimeout ends, ten seconds after the longest wait;
a Binding that is written later than that is a surprise to it."""
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


_decode = msgspec.json.Decoder(BindingArgs).decode


class Binding:
    """Answers in bytes to requests in bytes; raises ValueError for what cannot be read."""

    def __init__(
        self,
        cluster: Cluster,
        waiting: WaitingPods,
        writer: BindingWriter,
        *,
        sight: Sight,
        longest_wait: float,
        ahead: AheadWriter | None = None,
    ) -> None:
        self._cluster = cluster
        self._view = cluster.view()
        self._waiting = waiting
        self._writer = writer
        self._sight = sight
        self._longest_wait = longest_wait
        self._ahead = ahead
        self.on_refused: Callable[[PodInfo], None] = lambda _: None
        """Called with a member that is sent away."""
        self._unfinished = 0
        self._requests: dict[str, asyncio.Future[str]] = {}
        """The error of the latest request that writes a Binding, or may, by UID of the pod."""

    @property
    def unfinished(self) -> int:
        """Return how many requests are held or being written, and Bindings ahead of requests."""
        return self._unfinished + (len(self._ahead.writing) if self._ahead is not None else 0)

    async def bind(self, body: bytes, gone: Gone) -> bytes:
        """Bind a pod; the answer's error is empty when the pod is on the node."""
        args = _decode(body)
        until = asyncio.get_running_loop().time() + self._longest_wait
        self._unfinished += 1
        self._waiting.asked(args.pod_uid)
        if self._ahead is not None:
            self._ahead.asked()
            gone = _noting(gone, self._ahead)
        try:
            error = await self._join(args, gone)
            if error is None:
                error = await self._bind_alone(args, gone)
            if not error:
                self._sight.bound(args.pod_uid)
                if self._ahead is not None:
                    self._ahead.answered(args.pod_uid)
                    await self._ahead.hold_answer(args.pod_uid, gone, until=until)
            return _encode(BindingResult(error_text(error)))
        finally:
            self._unfinished -= 1

    async def _join(self, args: BindingArgs, gone: Gone) -> str | None:
        """Return the error for a pod that is bound or being bound; None where it is to be bound.

        A request that was given up because its caller hung up answers for itself alone.
        """
        while (pod := self._view.pods.get(args.pod_uid)) is not None:
            node = self._view.bound_node(pod)
            if node is None:
                return None
            if node != args.node:
                return f"pod {pod.key} is bound to another node already"
            first = self._requests.get(pod.uid) or self._written_ahead(pod.uid)
            if pod.node is not None or first is None:
                return ""  # without a request it is written, and the watch has not shown it yet
            error = await _unless_gone(first, gone)
            if error != HUNG_UP:
                return error
            if not first.done():
                return HUNG_UP
        return None

    def _written_ahead(self, uid: str) -> "asyncio.Future[str] | None":
        return self._ahead.join(uid) if self._ahead is not None else None

    async def _bind_alone(self, args: BindingArgs, gone: Gone) -> str:
        """Bind a pod that is not being bound, and return the error to all that wait for it."""
        uid, requests = args.pod_uid, self._requests
        earlier = requests.get(uid)
        request = requests[uid] = asyncio.get_running_loop().create_future()
        error = HUNG_UP
        try:
            error = await self._bind(args, gone)
        except BaseException:
            # If the Binding was made all the same, the watch will say so. The room may be that of a
            # later request by now.
            if requests.get(uid) is request:
                self._cluster.apply(ev.Unreserved((uid,)))
            raise
        finally:
            if requests.get(uid) is request:  # and not a later one
                del requests[uid]
                if earlier is not None and not earlier.done():
                    requests[uid] = earlier  # this one was refused, and that is still held
            request.set_result(error)
        return error

    async def _bind(self, args: BindingArgs, gone: Gone) -> str:
        asked = self._writer.clock.monotonic()
        pod = self._view.pods.get(args.pod_uid)
        if pod is None:
            # Filter has taken every pod in, so this one was deleted, or dropped by a list that is
            # older than it. Whether it is in a gang is not known: kube-scheduler tries it again.
            return f"pod {args.pod_namespace}/{args.pod_name} is gone, or not known yet"
        # It was filtered before others were bound ahead, perhaps.
        not_seen = usable(pod, (args.node,), view=self._view)
        if isinstance(not_seen, Refuse):
            return not_seen.message
        held = self._view.awaits_admission(pod)
        if held is not None:
            return not_admitted(held).message
        if pod.group is None:
            self._cluster.apply(ev.PodBinding(pod, args.node))
        else:
            refusal = await self._waiting.wait(pod, args.node, gone)
            if refusal is not None:
                if refusal.reason is not Reason.DISCONNECTED:
                    self.on_refused(pod)
                return refusal.message
        latest = asked + self._longest_wait + MARGIN_SECONDS
        return await self._writer.write(pod, args.node, latest=latest, gone=gone)


def _noting(gone: Gone, ahead: AheadWriter) -> Gone:
    """Return the same, which says that the caller has hung up before it returns."""

    async def noted() -> None:
        await gone()
        ahead.hung_up()

    return noted


async def _unless_gone(first: "asyncio.Future[str]", gone: Gone) -> str:
    """Return the error of another request, or that the caller of this one hung up before."""
    caller = asyncio.ensure_future(gone())
    try:
        await asyncio.wait((first, caller), return_when=asyncio.FIRST_COMPLETED)
    finally:
        caller.cancel()
    return first.result() if first.done() else HUNG_UP
