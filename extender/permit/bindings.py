"""Writes the Bindings of pods that have room; after a failure the room is kept or given back."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final, Literal

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
from extender.permit.timing import PATIENCE_SECONDS, UNSURE_SECONDS
from extender.runtime.faults import Retry
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from extender.telemetry.metrics import Metrics

_log = structlog.get_logger(__name__)

_LONGEST_WORDS: Final = 300
HUNG_UP: Final = "kube-scheduler hung up before the Binding was written"
HUNG_UP_ON_ANOTHER: Final = "kube-scheduler hung up while another member of the gang was bound"

_GIVEN_UP: Final[ApiError | None] = UnknownOutcomeError("it was given up")
Path = Literal["asked", "ahead"]
"""The origin of a Binding: kube-scheduler asked for it, or it is written ahead of a request."""


class BindingWriter:
    """Writes Bindings of pods that have room; after a failure the room is kept or given back.

    `bind` writes one, which is a success if the pod is already on the node. It raises ApiError.
    """

    def __init__(
        self,
        cluster: Cluster,
        waiting: WaitingPods,
        bind: Callable[[PodRef, str], Awaitable[None]],
        *,
        metrics: Metrics,
        retry: Retry,
    ) -> None:
        self.clock = retry.clock
        self._cluster = cluster
        self._view = cluster.view()
        self._waiting = waiting
        self._bind = bind
        self.metrics = metrics
        self._retry = retry
        self._unsure: dict[str, asyncio.TimerHandle] = {}
        """The timers that free the room of pods that may or may not be bound, by UID."""

    async def write(self, pod: PodInfo, node: str, *, latest: float, gone: Gone) -> str:
        """Return the error, empty if the pod is on the node; no attempt begins after `latest`.

        The write ends when its caller hangs up: a kube-scheduler that is stopped gives its lease
        back first, so the next one may have begun. After that no attempt begins, and an attempt on
        its way is given up; the watch will show whether it was carried out.
        """
        until = min(self.clock.monotonic() + PATIENCE_SECONDS, latest)
        tries = self._try_while_asked(pod, node, until=until, gone=gone)
        return await self._written(pod, node, tries, path="asked")

    async def write_ahead(
        self, pod: PodInfo, node: str, *, seconds: float, limit: asyncio.Timeout
    ) -> str:
        """Return the error, empty if the pod is on the node.

        No attempt begins after `seconds`, and one on its way ends with the `limit`.
        """
        until = self.clock.monotonic() + seconds

        async def limited() -> ApiError | None:
            try:
                async with limit:
                    return await self._try_often(pod, node, until=until)
            except TimeoutError:
                return UnknownOutcomeError(HUNG_UP)

        return await self._written(pod, node, limited(), path="ahead")

    async def _written(
        self, pod: PodInfo, node: str, tries: Awaitable[ApiError | None], *, path: Path
    ) -> str:
        """Return the error of a Binding; take note of it, and keep or free the pod's room."""
        self._waiting.starts.writing(pod)
        began, error = self.clock.monotonic(), _GIVEN_UP
        try:
            error = await tries
        finally:
            said, seconds = str(error or ""), self.clock.monotonic() - began
            self._waiting.starts.wrote(pod, said, seconds=seconds, ahead=path == "ahead")
        result = "error" if error else "ok"
        self.metrics.binding_seconds.labels(result).observe(seconds)
        self.metrics.bindings.labels(path, result).inc()
        if error is None:
            return ""
        _log.warning("binding failed", pod=pod.key, group=pod.group, path=path, error=str(error))
        self._keep_or_free(pod, node, error)
        return str(error)

    def _keep_or_free(self, pod: PodInfo, node: str, error: ApiError) -> None:
        """Keep the room of a pod that may be bound after all, or that comes again; else free it."""
        if isinstance(error, NotFoundError):
            if pod.group is not None:
                self._waiting.lose(pod.group)
            self._cluster.apply(ev.Unreserved((pod.uid,)))
        elif pod.group is not None:
            # Its siblings are bound or about to be, and kube-scheduler brings the pod again.
            self._waiting.keep(pod, node)
            passing = isinstance(error, ConflictError | UnavailableError)
            if 400 <= error.status < 500 and not passing:
                # The API server gives the same answer until a rule is changed.
                self._waiting.binding_refused(pod, _general_words(error, pod, node))
        elif isinstance(error, UnknownOutcomeError):
            self._keep_for_now(pod, node)
        else:
            self._cluster.apply(ev.Unreserved((pod.uid,)))

    def _keep_for_now(self, pod: PodInfo, node: str) -> None:
        """Keep the room of a pod until the watch must have shown whether it is bound."""
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
            # This begins before the tries do: nothing is sent for a caller that is already gone.
            caller = tasks.create_task(end_with_caller())
            tries = tasks.create_task(self._try_often(pod, node, until=until))
            await asyncio.wait((tries,))
            caller.cancel()
        return UnknownOutcomeError(HUNG_UP) if tries.cancelled() else tries.result()

    async def _try_often(self, pod: PodInfo, node: str, *, until: float) -> ApiError | None:
        """Write the Binding; try again while the API server is unavailable: quorum is reached."""
        ref = PodRef(pod.namespace, pod.name, pod.uid)

        async def write() -> None:
            try:
                await self._bind(ref, node)
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


def _general_words(error: ApiError, pod: PodInfo, node: str) -> str:
    """Return the message of the API server, in words that are the same for all pods and nodes."""
    said = str(error).partition(": ")[2] or str(error)
    for name, word in ((pod.name, "POD"), (node, "NODE")):
        said = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", word, said)
    return said.replace("%", " per cent")[:_LONGEST_WORDS]
