"""Patches many pods.

The number of concurrent patches is bounded, batches take turns, and each pod backs off separately.
A patch that fails because the API server is unavailable is retried soon; one that the API server
rejects is retried rarely, because a retry does not change the answer.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import structlog

from extender.kube.errors import ApiError, UnavailableError
from extender.permit.timing import LONG_SECONDS, LOOK_SECONDS, PATCHES_PARALLEL, PATIENCE_SECONDS
from extender.runtime.faults import FAULTS
from extender.runtime.retry import Backoff, asked_pause
from extender.state.cluster.records import PodInfo

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Patch:
    """The kind of patch, by its word in metrics, and the reason of the refusal that it ends."""

    how: Literal["annotation", "label", "spread", "gate"]
    reason: str | None = None


class Failure(NamedTuple):
    """A patch that was not made, and the seconds until that pod may be tried again."""

    pod: PodInfo
    patch: Patch
    error: ApiError
    pause: float


@dataclass(slots=True)
class _Trouble:
    soon: bool
    backoff: Backoff
    until: float = 0.0


class Patches:
    """The patches that are to be made; `write` makes one and raises ApiError."""

    def __init__(
        self,
        write: Callable[[PodInfo, Patch], Awaitable[None]],
        *,
        failed: Callable[[Failure], None],
    ) -> None:
        self._write = write
        self._failed = failed
        self._batches: dict[str, deque[tuple[PodInfo, Patch]]] = {}
        """The waiting patches of each batch; the first batch is next."""
        self._pods: set[str] = set()
        """UIDs of pods that wait for a patch or are being patched."""
        self._running: set[str] = set()
        self._again: dict[str, tuple[str, PodInfo, Patch]] = {}
        """The patch that a pod gets after the one under way, with its batch, by UID."""
        self._troubles: dict[str, _Trouble] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def resting(self) -> Collection[str]:
        """Return the UIDs of the pods that may not be tried yet."""
        if not self._troubles:
            return ()
        now = asyncio.get_running_loop().time()
        return {uid for uid, trouble in self._troubles.items() if trouble.until > now}

    def forget(self, uid: str) -> None:
        """Drop the back-off of a pod that needs no patch, unless a patch waits or is under way."""
        if uid not in self._pods:
            self._troubles.pop(uid, None)

    def add(
        self, batch: str, patches: Iterable[tuple[PodInfo, Patch]], *, again: bool = False
    ) -> None:
        """Patch pods as soon as some may run; a pod that waits for a patch gets no second one.

        A pod that is being patched gets none either, unless `again`: then it is patched once more
        afterwards. The API server may have stored the first patch long before its answer arrives,
        and the cause of the second one may lie in between.
        """
        for pod, patch in patches:
            if pod.uid in self._running:
                if again:
                    self._again[pod.uid] = batch, pod, patch
            elif pod.uid not in self._pods:
                self._pods.add(pod.uid)
                self._batches.setdefault(batch, deque()).append((pod, patch))
        self._start()

    async def end(self) -> None:
        """Cancel the patches that are under way."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self) -> None:
        """Start as many patches as may run, one of each batch in turn."""
        while self._batches and len(self._tasks) < PATCHES_PARALLEL:
            key = next(iter(self._batches))
            waiting = self._batches.pop(key)
            pod, patch = waiting.popleft()
            if waiting:
                self._batches[key] = waiting  # behind the others
            self._running.add(pod.uid)
            task = asyncio.get_running_loop().create_task(self._run(pod, patch))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self._start()

    async def _run(self, pod: PodInfo, patch: Patch) -> None:
        error: ApiError | None = None
        try:
            await self._write(pod, patch)
        except ApiError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - whatever it is, it is this pod's alone
            FAULTS.report("waker", failure, key=pod.key)
            error = ApiError(f"internal error: {failure}")
        self._pods.discard(pod.uid)
        self._running.discard(pod.uid)
        again = self._again.pop(pod.uid, None)
        if error is None:
            self._troubles.pop(pod.uid, None)
            if again is not None:
                self.add(again[0], [again[1:]])
        else:
            # A newer patch is tried after the pause.
            self._give_up(*(again[1:] if again is not None else (pod, patch)), error)

    def _give_up(self, pod: PodInfo, patch: Patch, error: ApiError) -> None:
        """Let a pod rest after an error."""
        trouble = self._troubles.get(pod.uid)
        soon = isinstance(error, UnavailableError)
        if trouble is None or trouble.soon is not soon:
            first = LOOK_SECONDS if soon else PATIENCE_SECONDS
            longest = PATIENCE_SECONDS if soon else LONG_SECONDS
            trouble = self._troubles[pod.uid] = _Trouble(
                soon, Backoff(first, longest, jitter=lambda: 1.0)
            )
        pause = max(trouble.backoff.next(), asked_pause(error))
        trouble.until = asyncio.get_running_loop().time() + pause
        _log.warning(
            "could not wake a pod",
            pod=pod.key,
            group=pod.group,
            error=str(error),
            retry_in=round(pause, 2),
        )
        self._failed(Failure(pod, patch, error, pause))
