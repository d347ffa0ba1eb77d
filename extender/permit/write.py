"""How a Binding is written, and what becomes of the pod's room if that fails.

There is one way, whether kube-scheduler asked for the pod or its group is bound together.
"""

import asyncio
import re
from typing import Final, Literal, Protocol

import structlog

from extender.kube.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    UnavailableError,
    UnknownOutcomeError,
)
from extender.kube.pods import PodRef
from extender.permit.hold import Gone, WaitingPods
from extender.runtime.retry import Retry
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from extender.telemetry.metrics import Metrics

_log = structlog.get_logger(__name__)

PATIENCE_SECONDS: Final = 60.0
"""How long an API server that does not answer is tried again once a gang has its quorum."""
UNSURE_SECONDS: Final = 15.0
"""How long the room of a pod without a group is kept after a write of which it is not known what
became. etcd answers or gives up after seven seconds, and the watch may be late."""
_LONGEST_WORDS: Final = 300
HUNG_UP: Final = "kube-scheduler hung up before the Binding was written"
HUNG_UP_ON_ANOTHER: Final = "kube-scheduler hung up while another member of the gang was bound"

_GIVEN_UP: Final[ApiError | None] = UnknownOutcomeError("it was given up")
Path = Literal["asked", "ahead"]
"""Whether kube-scheduler asked for a Binding, or it is written ahead of that."""


class PodBinder(Protocol):
    """Writes a Binding; raises ApiError."""

    async def bind(self, pod: PodRef, node: str) -> None:
        """Bind a pod to a node; a pod that is already bound to it is a success."""


class BindingWriter:
    """Writes Bindings of pods whose room is taken, which is given back or kept if that fails."""

    def __init__(
        self,
        cluster: Cluster,
        waiting: WaitingPods,
        binder: PodBinder,
        *,
        metrics: Metrics,
        retry: Retry,
    ) -> None:
        self.clock = retry.clock
        self._cluster = cluster
        self._view = cluster.view()
        self._waiting = waiting
        self._binder = binder
        self.metrics = metrics
        self._retry = retry
        self._unsure: dict[str, asyncio.TimerHandle] = {}
        """By UID: what ends the room of pods that may be bound, or not."""

    async def write(self, pod: PodInfo, node: str, *, latest: float, gone: Gone) -> str:
        """Return the error, empty where the pod is on the node; no attempt begins after `latest`.

        It ends with its caller: a kube-scheduler that is stopped gives its lease back before it
        hangs up, so the next one may have begun. Once the caller has `gone` no attempt begins, and
        one on its way is given up. Whether that one is carried out, the watch will say.
        """
        began, error = self._began(pod), _GIVEN_UP
        until = min(began + PATIENCE_SECONDS, latest)
        try:
            error = await self._try_while_asked(pod, node, until=until, gone=gone)
        finally:
            self._wrote(pod, error, began=began, path="asked")
        return self._ended(pod, node, error, began=began, path="asked")

    async def write_ahead(
        self, pod: PodInfo, node: str, *, seconds: float, limit: asyncio.Timeout
    ) -> str:
        """Return the error, empty where the pod is on the node.

        No attempt begins after so many seconds, and one on its way ends with the `limit`.
        """
        began, error = self._began(pod), _GIVEN_UP
        try:
            async with limit:
                error = await self._try_often(pod, node, until=began + seconds)
        except TimeoutError:
            error = UnknownOutcomeError(HUNG_UP)
        finally:
            self._wrote(pod, error, began=began, path="ahead")
        return self._ended(pod, node, error, began=began, path="ahead")

    def _began(self, pod: PodInfo) -> float:
        self._waiting.starts.writing(pod)
        return self.clock.monotonic()

    def _wrote(self, pod: PodInfo, error: ApiError | None, *, began: float, path: Path) -> None:
        said = str(error) if error is not None else ""
        seconds = self.clock.monotonic() - began
        self._waiting.starts.wrote(pod, said, seconds=seconds, ahead=path == "ahead")

    def _ended(
        self, pod: PodInfo, node: str, error: ApiError | None, *, began: float, path: Path
    ) -> str:
        result = "error" if error else "ok"
        self.metrics.binding_seconds.labels(result).observe(self.clock.monotonic() - began)
        self.metrics.bindings.labels(path, result).inc()
        if error is None:
            return ""
        _log.warning("binding failed", pod=pod.key, group=pod.group, path=path, error=str(error))
        self._keep_or_free(pod, node, error)
        return str(error)

    def _keep_or_free(self, pod: PodInfo, node: str, error: ApiError) -> None:
        """Keep the room of a pod that may be bound all the same, or comes again; else free it."""
        if isinstance(error, NotFoundError):
            if pod.group is not None:
                self._waiting.lose(pod.group)
            self._cluster.apply(ev.Unreserved((pod.uid,)))
        elif pod.group is not None:
            # The others are bound or about to be, and kube-scheduler brings it again.
            self._waiting.keep(pod, node)
            if _is_refusal(error):
                self._waiting.binding_refused(pod, _words(error, pod, node))
        elif isinstance(error, UnknownOutcomeError):
            self._keep_for_now(pod, node)
        else:
            self._cluster.apply(ev.Unreserved((pod.uid,)))

    def _keep_for_now(self, pod: PodInfo, node: str) -> None:
        """Keep the room of a pod until it is known whether it is bound, or must be."""
        before = self._unsure.pop(pod.uid, None)
        if before is not None:
            before.cancel()
        self._cluster.apply(ev.Planned({pod.uid: node}))
        loop = asyncio.get_running_loop()
        self._unsure[pod.uid] = loop.call_later(UNSURE_SECONDS, self._free_unsure, pod.uid)

    def _free_unsure(self, uid: str) -> None:
        del self._unsure[uid]
        if self._view.planned_node(uid) is not None:
            self._cluster.apply(ev.Unreserved((uid,)))

    async def _try_while_asked(
        self, pod: PodInfo, node: str, *, until: float, gone: Gone
    ) -> ApiError | None:
        async def end_with_caller() -> None:
            await gone()
            tries.cancel()

        async with asyncio.TaskGroup() as tasks:
            # This begins before the tries do: of a caller that has gone already nothing is sent.
            caller = tasks.create_task(end_with_caller())
            tries = tasks.create_task(self._try_often(pod, node, until=until))
            await asyncio.wait((tries,))
            caller.cancel()
        return UnknownOutcomeError(HUNG_UP) if tries.cancelled() else tries.result()

    async def _try_often(self, pod: PodInfo, node: str, *, until: float) -> ApiError | None:
        """Write the Binding; passing trouble is waited out, for quorum has been reached."""
        ref = PodRef(pod.namespace, pod.name, pod.uid)

        async def write() -> None:
            try:
                await self._binder.bind(ref, node)
            except UnavailableError as error:
                _log.warning(
                    "binding not written yet", pod=pod.key, group=pod.group, error=str(error)
                )
                raise

        try:
            await self._retry.run(write, on=UnavailableError, until=until)
        except ApiError as error:
            return error
        return None


def _is_refusal(error: ApiError) -> bool:
    """Return whether the API server gives the same answer until a rule is changed."""
    passing = isinstance(error, ConflictError | UnavailableError)
    return 400 <= error.status < 500 and not passing


def _words(error: ApiError, pod: PodInfo, node: str) -> str:
    """Return what the API server said, in words that are the same for all pods and nodes."""
    said = str(error).partition(": ")[2] or str(error)
    for name, word in ((pod.name, "POD"), (node, "NODE")):
        said = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", word, said)
    return said.replace("%", " per cent")[:_LONGEST_WORDS]
