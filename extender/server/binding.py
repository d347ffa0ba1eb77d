"""The bind verb: Permit for members of a gang, then one write to the API server.

A pod has one Binding. kube-scheduler may ask for a pod whose Binding is being written: it was
started anew, or has not seen yet what was written for it. Such a request waits for that write, and
has the same answer.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from extender.api.extender_v1 import BindingArgs, BindingResult, error_text
from extender.api.reasons import Reason
from extender.gang.filter import usable
from extender.gang.verdicts import Refuse, not_admitted
from extender.permit.sight import Sight
from extender.permit.waiting_pods import Gone, WaitingPods
from extender.permit.writing import HUNG_UP, BindingWriter
from extender.permit.writing_ahead import AheadWriter
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster

_decode = msgspec.json.Decoder(BindingArgs).decode
_encode = msgspec.json.Encoder().encode

MARGIN_SECONDS: Final = 8.0
"""kube-scheduler gives a pod up when its httpTimeout ends, ten seconds after the longest wait;
a Binding that is written later than that is a surprise to it."""


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
        """By UID of the pod: the error of the latest request that writes its Binding, or may."""

    @property
    def unfinished(self) -> int:
        """How many requests are held or being written, and Bindings ahead of requests."""
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
