"""From the bind request of a pod to its Binding.

`Binds.bind` reads top to bottom: the request is noted; a pod that is bound or being bound already
has the answer of that write; a member of a gang is held until its gang may start (`hold`); then the
Binding is written (`write`), and `ahead` learns of it.

A pod has one Binding. kube-scheduler may ask for a pod whose Binding is being written: it was
started anew, or has not seen yet what was written for it. Such a request waits for that write, and
has the same answer.
"""

import asyncio
from typing import Final, NamedTuple

from extender.api.reasons import Reason
from extender.gang.filter import usable
from extender.gang.verdicts import Refuse, not_admitted
from extender.permit.ahead import Ahead
from extender.permit.claims import Claims
from extender.permit.hold import Gone, WaitingPods
from extender.permit.write import HUNG_UP, BindingWriter
from extender.state.cluster import events as ev
from extender.state.cluster.store import Cluster

MARGIN_SECONDS: Final = 8.0
"""kube-scheduler gives a pod up when its httpTimeout ends, ten seconds after the longest wait;
a Binding that is written later than that is a surprise to it."""


class BindRequest(NamedTuple):
    """A pod that is to be bound, and its node."""

    uid: str
    namespace: str
    name: str
    node: str


class Binds:
    """Answers bind requests."""

    def __init__(
        self,
        cluster: Cluster,
        hold: WaitingPods,
        writer: BindingWriter,
        *,
        ahead: Ahead,
        claims: Claims,
        longest_wait: float,
    ) -> None:
        """`longest_wait` is for how many seconds a request may be held."""
        self._cluster = cluster
        self._view = cluster.view()
        self._hold = hold
        self._writer = writer
        self._ahead = ahead
        self._claims = claims
        self._longest_wait = longest_wait
        self._unfinished = 0
        self._requests: dict[str, asyncio.Future[str]] = {}
        """By UID of the pod: the error of the latest request that writes its Binding, or may."""

    @property
    def unfinished(self) -> int:
        """How many requests are held or being written, and Bindings ahead of requests."""
        return self._unfinished + len(self._ahead.writing)

    async def bind(self, request: BindRequest, gone: Gone) -> str:
        """Bind a pod; return the error, which is empty when the pod is on the node.

        `gone` returns when kube-scheduler has hung up.
        """
        until = asyncio.get_running_loop().time() + self._longest_wait
        self._unfinished += 1
        self._hold.asked(request.uid)
        self._ahead.asked()
        gone = _noting(gone, self._ahead)
        try:
            error = await self._join(request, gone)
            if error is None:
                error = await self._bind_alone(request, gone)
            if not error:
                await self._ahead.bound(request.uid, gone, until=until)
            return error
        finally:
            self._unfinished -= 1

    async def _join(self, request: BindRequest, gone: Gone) -> str | None:
        """Return the error for a pod that is bound or being bound; None where it is to be bound.

        A request that was given up because its caller hung up answers for itself alone.
        """
        while (pod := self._view.pods.get(request.uid)) is not None:
            node = self._view.bound_node(pod)
            if node is None:
                return None
            if node != request.node:
                return f"pod {pod.key} is bound to another node already"
            first = self._requests.get(pod.uid) or self._ahead.join(pod.uid)
            if pod.node is not None or first is None:
                return ""  # without a request it is written, and the watch has not shown it yet
            error = await _unless_gone(first, gone)
            if error != HUNG_UP:
                return error
            if not first.done():
                return HUNG_UP
        return None

    async def _bind_alone(self, request: BindRequest, gone: Gone) -> str:
        """Bind a pod that is not being bound, and return the error to all that wait for it."""
        uid, requests = request.uid, self._requests
        earlier = requests.get(uid)
        ours = requests[uid] = asyncio.get_running_loop().create_future()
        error = HUNG_UP
        try:
            error = await self._bind(request, gone)
        except BaseException:
            # If the Binding was made all the same, the watch will say so. The room may be that of a
            # later request by now.
            if requests.get(uid) is ours:
                self._cluster.apply(ev.Unreserved((uid,)))
            raise
        finally:
            if requests.get(uid) is ours:  # and not a later one
                del requests[uid]
                if earlier is not None and not earlier.done():
                    requests[uid] = earlier  # this one was refused, and that is still held
            ours.set_result(error)
        return error

    async def _bind(self, request: BindRequest, gone: Gone) -> str:
        asked = self._writer.clock.monotonic()
        pod = self._view.pods.get(request.uid)
        if pod is None:
            # Filter has taken every pod in, so this one was deleted, or dropped by a list that is
            # older than it. Whether it is in a gang is not known: kube-scheduler tries it again.
            return f"pod {request.namespace}/{request.name} is gone, or not known yet"
        # It was filtered before others were bound ahead, perhaps.
        not_seen = usable(pod, (request.node,), view=self._view)
        if isinstance(not_seen, Refuse):
            return not_seen.message
        held = self._view.awaits_admission(pod)
        if held is not None:
            return not_admitted(held).message
        if pod.group is None:
            self._cluster.apply(ev.PodBinding(pod, request.node))
        else:
            refusal = await self._hold.wait(pod, request.node, gone)
            if refusal is not None:
                if refusal.reason is not Reason.DISCONNECTED:
                    self._claims.refused(pod)
                return refusal.message
        latest = asked + self._longest_wait + MARGIN_SECONDS
        error = await self._writer.write(pod, request.node, latest=latest, gone=gone)
        if error:
            self._ahead.failed(pod, request.node)
        return error


def _noting(gone: Gone, ahead: Ahead) -> Gone:
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
