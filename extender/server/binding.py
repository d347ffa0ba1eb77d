"""The bind verb: Permit for members of a gang, then one write to the API server."""

import asyncio
from typing import Final, Protocol

import msgspec
import structlog

from extender.api.extender_v1 import BindingArgs, BindingResult, error_text
from extender.kube.errors import ApiError, NotFoundError, UnavailableError
from extender.kube.pods import PodRef
from extender.runtime.retry import Retry
from extender.server.waiting_pods import Gone, WaitingPods
from extender.state import events as ev
from extender.state.cluster import Cluster
from extender.state.pods import PodInfo
from extender.telemetry.metrics import Metrics

_decode = msgspec.json.Decoder(BindingArgs).decode
_encode = msgspec.json.Encoder().encode
_log = structlog.get_logger(__name__)


PATIENCE_SECONDS: Final = 60.0
"""How long an API server that does not answer is tried again once a gang has its quorum."""
MARGIN_SECONDS: Final = 8.0
"""kube-scheduler gives a pod up when its httpTimeout ends, ten seconds after the longest wait;
a Binding that is written later than that is a surprise to it."""
HUNG_UP_SECONDS: Final = 3.0
"""How long a Binding is still tried after its caller hung up. A kube-scheduler that cannot renew
its lease ends five seconds before another one may begin; that one gives the node to other pods."""


class PodBinder(Protocol):
    """Writes a Binding; raises ApiError."""

    async def bind(self, pod: PodRef, node: str) -> None:
        """Put a pod on a node; a pod that is there already is a success."""
        ...


class Binding:
    """Answers in bytes to requests in bytes; raises ValueError for what cannot be read."""

    def __init__(
        self,
        cluster: Cluster,
        waiting: WaitingPods,
        binder: PodBinder,
        *,
        metrics: Metrics,
        retry: Retry,
        longest_wait: float,
    ) -> None:
        self._cluster = cluster
        self._snapshot = cluster.snapshot()
        self._waiting = waiting
        self._binder = binder
        self._metrics = metrics
        self._clock = retry.clock
        self._retry = retry
        self._longest_wait = longest_wait
        self._in_hand = 0

    @property
    def in_hand(self) -> int:
        """How many requests are held or being written."""
        return self._in_hand

    async def bind(self, body: bytes, gone: Gone) -> bytes:
        """Bind a pod; the answer's error is empty when the pod is on the node."""
        args = _decode(body)
        self._in_hand += 1
        try:
            return _encode(BindingResult(error_text(await self._bind(args, gone))))
        except BaseException:
            # If the Binding was made all the same, the watch will say so.
            self._cluster.apply(ev.Unreserved((args.pod_uid,)))
            raise
        finally:
            self._in_hand -= 1

    async def _bind(self, args: BindingArgs, gone: Gone) -> str:
        asked = self._clock.monotonic()
        pod = self._snapshot.pods.get(args.pod_uid)
        if pod is not None and pod.node is not None:
            if pod.node == args.node:
                return ""
            return f"pod {pod.key} is bound to another node already"
        if pod is None:
            # Filter has taken every pod in, so this one was deleted, or dropped by a list that is
            # older than it. Whether it is in a gang is not known: kube-scheduler tries it again.
            return f"pod {args.pod_namespace}/{args.pod_name} is gone, or not known yet"
        if pod.group is None:
            self._cluster.apply(ev.PodBinding(pod, args.node))
        else:
            refusal = await self._waiting.wait(pod, args.node, gone)
            if refusal is not None:
                return refusal.message
        latest = asked + self._longest_wait + MARGIN_SECONDS
        return await self._write(args, pod, latest=latest, gone=gone)

    async def _write(self, args: BindingArgs, pod: PodInfo, *, latest: float, gone: Gone) -> str:
        began = self._clock.monotonic()
        ref = PodRef(args.pod_namespace, args.pod_name, args.pod_uid)
        until = min(began + PATIENCE_SECONDS, latest)
        error = await self._try_while_asked(ref, args.node, until=until, gone=gone)
        result = "error" if error else "ok"
        self._metrics.binding_seconds.labels(result).observe(self._clock.monotonic() - began)
        if error is None:
            return ""
        _log.warning("binding failed", pod=pod.key, error=str(error))
        if pod.group is None or isinstance(error, NotFoundError):
            if pod.group is not None:
                self._waiting.lose(pod.group)
            self._cluster.apply(ev.Unreserved((pod.uid,)))
        else:
            # The others are bound or about to be, and kube-scheduler brings it again.
            self._waiting.keep(pod, args.node)
        return str(error)

    async def _try_while_asked(
        self, pod: PodRef, node: str, *, until: float, gone: Gone
    ) -> ApiError | None:
        """Write the Binding; soon after its caller hung up an attempt on its way is given up too.

        Whether that attempt has reached the API server all the same, the watch will say.
        """
        try:
            async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as tasks:
                watch = tasks.create_task(_end_after(gone, limit))
                error = await self._try_often(pod, node, until=until)
                watch.cancel()
        except TimeoutError:
            return UnavailableError("kube-scheduler hung up before the Binding was written")
        return error

    async def _try_often(self, pod: PodRef, node: str, *, until: float) -> ApiError | None:
        """Write the Binding; passing trouble is waited out, for quorum has been reached."""

        async def write() -> None:
            try:
                await self._binder.bind(pod, node)
            except UnavailableError as error:
                _log.warning("binding not written yet", pod=pod.path, error=str(error))
                raise

        try:
            await self._retry.run(write, on=UnavailableError, until=until)
        except ApiError as error:
            return error
        return None


async def _end_after(gone: Gone, limit: asyncio.Timeout) -> None:
    await gone()
    limit.reschedule(asyncio.get_running_loop().time() + HUNG_UP_SECONDS)
