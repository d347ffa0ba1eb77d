"""Writes to many pods: a bounded number at a time, fair among the batches, none in a storm.

Each pod has a back-off of its own. A patch that failed because the API server is unavailable is
tried again soon. One that it refuses for this pod is tried seldom: nothing here changes the answer.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import structlog

from extender.kube.errors import ApiError, UnavailableError
from extender.permit.timing import PATCHES_OF_ONE, PATCHES_PARALLEL, SELDOM, SOON
from extender.runtime.faults import FAULTS
from extender.runtime.retry import Backoff, asked_pause
from extender.state.cluster.records import PodInfo

_log = structlog.get_logger(__name__)
T = TypeVar("T")


@dataclass(slots=True)
class _Trouble:
    kind: tuple[float, float]
    backoff: Backoff
    until: float = 0.0


@dataclass(slots=True)
class _Batch(Generic[T]):
    waiting: deque[tuple[PodInfo, T]] = field(default_factory=deque)
    running: int = 0


@dataclass(frozen=True, slots=True)
class Failure(Generic[T]):
    """A patch that was not made; `pause` is the seconds until that pod may be tried again."""

    pod: PodInfo
    patch: T
    error: ApiError
    pause: float

    @property
    def is_of_this_pod(self) -> bool:
        """Return whether the error is about this pod, so that another one may be patched."""
        return not isinstance(self.error, UnavailableError)


class Patches(Generic[T]):
    """The patches that are to be made; `write` makes one and raises ApiError."""

    def __init__(
        self,
        write: Callable[[PodInfo, T], Awaitable[None]],
        *,
        failed: Callable[[Failure[T]], None],
    ) -> None:
        self._write = write
        self._failed = failed
        self._batches: dict[str, _Batch[T]] = {}
        self._order: deque[str] = deque()
        """The batches with waiting patches, each once; the first one is next."""
        self._pods: set[str] = set()
        """UIDs of pods that wait for a patch or are being patched."""
        self._running: set[str] = set()
        self._again: dict[str, tuple[str, PodInfo, T]] = {}
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

    def add(self, batch: str, patches: Iterable[tuple[PodInfo, T]], *, again: bool = False) -> None:
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
                known = self._batches.setdefault(batch, _Batch())
                if not known.waiting:
                    self._order.append(batch)
                known.waiting.append((pod, patch))
        self._start()

    async def end(self) -> None:
        """Cancel the patches that are under way."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self) -> None:
        """Start as many patches as may run, one of each batch in turn."""
        full = 0
        while len(self._tasks) < PATCHES_PARALLEL and full < len(self._order):
            key = self._order[0]
            batch = self._batches[key]
            if batch.running >= PATCHES_OF_ONE:
                self._order.rotate(-1)
                full += 1
                continue
            pod, patch = batch.waiting.popleft()
            self._order.popleft()
            if batch.waiting:
                self._order.append(key)
            batch.running += 1
            self._running.add(pod.uid)
            task = asyncio.get_running_loop().create_task(self._run(key, pod, patch))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self._start()

    async def _run(self, key: str, pod: PodInfo, patch: T) -> None:
        try:
            await self._write(pod, patch)
        except ApiError as error:
            self._give_up(pod, patch, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this pod's alone
            FAULTS.report("waker", error, key=pod.key)
            self._give_up(pod, patch, ApiError(f"internal error: {error}"))
        else:
            again = self._end(pod.uid)
            self._troubles.pop(pod.uid, None)
            if again is not None:
                self.add(again[0], [again[1:]])
        finally:
            batch = self._batches[key]
            batch.running -= 1
            if not batch.running and not batch.waiting:
                del self._batches[key]

    def _end(self, uid: str) -> tuple[str, PodInfo, T] | None:
        """End the patch of a pod, and return the patch that is to follow."""
        self._pods.discard(uid)
        self._running.discard(uid)
        return self._again.pop(uid, None)

    def _give_up(self, pod: PodInfo, patch: T, error: ApiError) -> None:
        again = self._end(pod.uid)
        if again is not None:
            pod, patch = again[1:]  # the newer one is tried after the pause
        pause = self._rest(pod.uid, error)
        _log.warning(
            "could not wake a pod",
            pod=pod.key,
            group=pod.group,
            error=str(error),
            retry_in=round(pause, 2),
        )
        self._failed(Failure(pod, patch, error, pause))

    def _rest(self, uid: str, error: ApiError) -> float:
        """Let a pod rest after an error, and return for how many seconds."""
        kind = SOON if isinstance(error, UnavailableError) else SELDOM
        trouble = self._troubles.get(uid)
        if trouble is None or trouble.kind != kind:
            trouble = _Trouble(kind, Backoff(*kind, jitter=lambda: 1.0))
        pause = max(trouble.backoff.next(), asked_pause(error))
        trouble.until = asyncio.get_running_loop().time() + pause
        self._troubles[uid] = trouble
        return pause
