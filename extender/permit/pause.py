"""A pause in the answers of filter, while Bindings go out that are written ahead.

kube-scheduler's loop is serial: while it waits for an answer it tries no other pod. Without a pause
it goes on to the next pod in its queue, which is often a member that is about to be bound. That
costs a cycle, and takes the member out of the batch. With one its queue has dropped these members
when it goes on. It goes on when few Bindings are left, so that the next group can begin while they
are written.

Pods without a group are answered at once. They may stand behind a member whose answer is held, so
each pause has an end, and few are made where the API server is slow.
"""

import asyncio
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Final, Protocol

from extender.permit.waiting_pods import Gone
from extender.telemetry.metrics import Metrics

PAUSE_SECONDS: Final = 0.1
"""How long an answer is held back, at most."""
FEW: Final = 16
"""With so few Bindings to be made kube-scheduler may go on."""
WORTH: Final = 16
"""So many Bindings make a pause worth it that lasts to the end; with fewer the API server is slow,
and kube-scheduler had better go on."""
REST_SECONDS: Final = 1.0
"""After a pause that was not worth it no answer is held back for so long."""


class PauseEnd(StrEnum):
    """What ended a pause."""

    WRITTEN = "written"
    """Few Bindings are left, or that of the member is on its way after all."""
    TIME = "time"
    STOPPED = "stopped"
    """This process is about to stop."""
    HUNG_UP = "hung_up"
    """A request of kube-scheduler has: this one, or that for a Binding."""


class Batch(Protocol):
    """The Bindings that are written ahead."""

    @property
    def going_out(self) -> int:
        """How many are to be written, or are being written."""

    @property
    def writing(self) -> AbstractSet[str]:
        """UIDs of the pods whose Bindings are being written."""

    def leave(self, uid: str) -> None:
        """Leave a pod to kube-scheduler, which is calling for it, if it can still be left."""

    def hung_up(self) -> None:
        """End what is to be written: kube-scheduler may have ended."""


class Pauses:
    """Holds back one answer at a time."""

    def __init__(self, batch: Batch, *, metrics: Metrics) -> None:
        self._loop = asyncio.get_running_loop()
        self._batch = batch
        self._seconds = metrics.pause_seconds
        self._held: asyncio.Future[PauseEnd] | None = None
        self._uid = ""
        """The member that the answer is about."""
        self._made = 0
        """Bindings that were made during the pause."""
        self._rests_until = float("-inf")

    @property
    def are_due(self) -> bool:
        """Whether an answer about a member may have to be held back."""
        rested = self._loop.time() >= self._rests_until
        return rested and self._held is None and self._batch.going_out > 0

    def delays(self, uid: str) -> bool:
        """Return whether the Bindings that go out are a reason to hold back a member's answer.

        Not one's own that is being written: kube-scheduler would see the pod on its node before it
        has the answer, and call that an error.
        """
        return self._batch.going_out > FEW and uid not in self._batch.writing

    async def hold(self, uid: str, gone: Gone) -> float | None:
        """Return when a member may be answered, with the seconds for which that was held back.

        None says that kube-scheduler has hung up. Then nothing is to be decided: a decision would
        count as a call of one that is there.
        """
        if not self.delays(uid):
            return 0.0
        self._batch.leave(uid)
        began, self._uid, self._made = self._loop.time(), uid, 0
        held = self._held = self._loop.create_future()
        caller = asyncio.ensure_future(gone())
        try:
            await asyncio.wait(
                (held, caller), timeout=PAUSE_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            caller.cancel()
            self._held = None
        seconds = self._loop.time() - began
        if caller.done():
            end = PauseEnd.HUNG_UP
            self._batch.hung_up()
        else:
            end = held.result() if held.done() else PauseEnd.TIME
        self._seconds.labels(end.value).observe(seconds)
        if end is PauseEnd.TIME and self._made < WORTH:
            self._rests_until = self._loop.time() + REST_SECONDS
        return seconds if end is not PauseEnd.HUNG_UP else None

    def ended(self, *, made: bool) -> None:
        """Count a Binding that is made, or that is not to be written ahead any more."""
        self._made += made
        if self._held is not None and not self.delays(self._uid):
            self._end(PauseEnd.WRITTEN)

    def hung_up(self) -> None:
        """End a pause: kube-scheduler has hung up on a bind request."""
        self._end(PauseEnd.HUNG_UP)

    def stop(self) -> None:
        """End a pause, and begin none any more: the process is about to stop."""
        self._rests_until = float("inf")
        self._end(PauseEnd.STOPPED)

    def _end(self, end: PauseEnd) -> None:
        if self._held is not None and not self._held.done():
            self._held.set_result(end)
