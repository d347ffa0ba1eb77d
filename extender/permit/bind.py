"""Handles the bind request of a pod, up to the Binding.

This is the second half of the way of a pod, after `filter.py`. The methods of `Binds` follow each
other: the request is noted (`bind`); a pod that is bound or being bound already gets the answer of
that write (`_join`); later requests for the pod get the answer of this one
(`_bind_and_share_result`); room and admission are checked again, and a member is held until its
gang may start (`_bind`, over `hold.py`, which also writes the Binding).

kube-scheduler may ask for a pod whose Binding is being written: it was restarted, or has not yet
seen the Binding. The request then waits for that write, and gets the same answer.

Members that equal one that kube-scheduler has judged are bound before it asks: `ahead.py`.
"""

import asyncio
from typing import NamedTuple

from extender.api.reasons import Reason
from extender.gang.filter import usable
from extender.gang.verdicts import Refuse, not_admitted
from extender.permit.ahead import Ahead
from extender.permit.hold import HUNG_UP, BindingWriter, Gone, WaitingPods, comes_first
from extender.permit.plans import DryRounds
from extender.permit.timing import MARGIN_SECONDS
from extender.state.cluster import events as ev
from extender.state.cluster.store import Cluster


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
        dry_rounds: DryRounds,
        longest_wait: float,
    ) -> None:
        """Take as `longest_wait` the most seconds that a request may be held."""
        self._cluster = cluster
        self._view = cluster.view()
        self._hold = hold
        self._writer = writer
        self._ahead = ahead
        self._dry_rounds = dry_rounds
        self._longest_wait = longest_wait
        self._unfinished = 0
        self._requests: dict[str, asyncio.Future[str]] = {}
        """The result of the latest request that writes, or may write, a pod's Binding, by UID."""

    @property
    def unfinished(self) -> int:
        """Return the number of held requests and of Bindings that are being written."""
        return self._unfinished + len(self._ahead.writing)

    async def bind(self, request: BindRequest, gone: Gone) -> str:
        """Bind a pod; return the error, which is empty when the pod is on the node.

        `gone` returns when kube-scheduler has hung up.
        """
        until = asyncio.get_running_loop().time() + self._longest_wait
        self._unfinished += 1
        self._hold.asked(request.uid)
        self._ahead.asked()

        async def hung_up() -> None:
            await gone()
            self._ahead.hung_up()

        try:
            error = await self._join(request, hung_up)
            if error is None:
                error = await self._bind_and_share_result(request, hung_up)
            if not error:
                await self._ahead.bound(request.uid, hung_up, until=until)
            return error
        finally:
            self._unfinished -= 1

    async def _join(self, request: BindRequest, gone: Gone) -> str | None:
        """Return the result for a pod that is bound or being bound; None if it has to be bound.

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
                # It is bound. If no request writes it, the watch has yet to show it, as a rule.
                return None if pod.node is None and pod.uid in self._writer.unsure else ""
            if not await comes_first(first, gone):
                return HUNG_UP
            if first.result() != HUNG_UP:
                return first.result()
        return None

    async def _bind_and_share_result(self, request: BindRequest, gone: Gone) -> str:
        """Bind a pod that has no Binding on its way; later requests for it get the same answer."""
        uid, requests = request.uid, self._requests
        earlier = requests.get(uid)
        ours = requests[uid] = asyncio.get_running_loop().create_future()
        error = HUNG_UP
        try:
            error = await self._bind(request, gone)
        except BaseException:
            # If the Binding was made all the same, the watch will show it. The room may belong to a
            # later request by now.
            if requests.get(uid) is ours:
                self._cluster.apply(ev.Unreserved((uid,)))
            raise
        finally:
            if requests.get(uid) is ours:  # and not a later one
                del requests[uid]
                if earlier is not None and not earlier.done():
                    requests[uid] = earlier  # this one was refused; the earlier one is still held
            ours.set_result(error)
        return error

    async def _bind(self, request: BindRequest, gone: Gone) -> str:
        asked = self._writer.clock.monotonic()
        pod = self._view.pods.get(request.uid)
        if pod is None:
            # Filter adds every pod, so this one was deleted, or dropped by a list that is older.
            # We cannot tell whether it is in a gang: kube-scheduler tries it again.
            return f"pod {request.namespace}/{request.name} is gone, or not known yet"
        # Other pods may have been bound ahead since it was filtered.
        unsure = pod.uid in self._writer.unsure and self._view.bound_node(pod) is not None
        not_seen = () if unsure else usable(pod, (request.node,), view=self._view)
        if isinstance(not_seen, Refuse):
            return not_seen.message
        held = self._view.awaits_admission(pod)
        if held is not None:
            return not_admitted(held).message
        if unsure:
            if not self._hold.may_write_again(pod):
                return f"pod {pod.key} may be bound already"
        elif pod.group is None:
            self._cluster.apply(ev.PodBinding(pod, request.node))
        else:
            refusal = await self._hold.wait(pod, request.node, gone)
            if refusal is not None:
                if refusal.reason is not Reason.DISCONNECTED:
                    self._dry_rounds.refused(pod)
                return refusal.message
        latest = asked + self._longest_wait + MARGIN_SECONDS
        return await self._writer.write(pod, request.node, latest=latest, gone=gone)
