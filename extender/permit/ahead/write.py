"""The Bindings of members that are written ahead of kube-scheduler's requests for them.

Members that are to be bound together wait here in their order, and some are written at a time.
kube-scheduler may still ask for one of them, before or after its Binding is made. A filter request
for a member whose Binding is not on its way takes that member back: kube-scheduler would otherwise
see it appear on a node in the middle of its cycle, and call that an error. A bind request waits for
the write, and gets the same answer.

Nothing is written for a kube-scheduler that may have ended: the next one may give the nodes to
other pods. It counts as there while it calls, or has a request open.
"""

import asyncio
from collections.abc import Callable, Container, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from extender.gang.ahead import has_room, still_holds
from extender.kube.recorder import Event, ObjectRef
from extender.permit.bind import HUNG_UP, HUNG_UP_ON_ANOTHER, BindingWriter
from extender.permit.hold import Gone, WaitingPods
from extender.permit.timing import (
    AHEAD_SECONDS,
    ANSWER_HELD_SECONDS,
    EVENT_SECONDS,
    LOOK_SECONDS,
    PARALLEL,
    SILENT_SECONDS,
    SLICE_PODS,
    STOPPED_SECONDS,
)
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster
from extender.state.cluster.view import ClusterView

_NEVER: Final = float("-inf")


class _Bound(NamedTuple):
    pod: PodInfo
    node: str
    due: float


class Announcer:
    """Records the Event `Scheduled` of pods that were bound ahead of kube-scheduler's request.

    kube-scheduler records it for the pods that it binds itself, even if its bind request finds the
    Binding made. So the Event is recorded here some time after the Binding, unless the bind request
    has come by then.
    """

    def __init__(
        self,
        record: Callable[[Event], None],
        *,
        clock: Clock,
        awaiting_bind: Container[str],
        view: ClusterView,
        behind: Callable[[], bool],
    ) -> None:
        """Take `behind`: whether kube-scheduler may still ask for pods bound long ago."""
        self._record = record
        self._view = view
        self._now = clock.monotonic
        self._awaiting_bind = awaiting_bind
        self._behind = behind
        self._bound: dict[str, _Bound] = {}
        """The bound pods whose Events are to be recorded, by UID, in the order of their times."""
        self._unsure: dict[str, tuple[PodInfo, str]] = {}
        """The pods whose Binding failed, but may have been made, by UID."""

    def bound(self, pod: PodInfo, node: str) -> None:
        """Plan the Event of a pod whose Binding was made ahead of its request."""
        self._unsure.pop(pod.uid, None)
        self._bound[pod.uid] = _Bound(pod, node, self._now() + EVENT_SECONDS)

    def unsure(self, pod: PodInfo, node: str) -> None:
        """Plan the Event of a pod whose Binding failed, if a watch shows that it was made.

        kube-scheduler got an error, or no answer, and so records no Event of that Binding.
        """
        self._unsure[pod.uid] = pod, node

    def asked(self, uid: str) -> None:
        """Leave the Event of a pod to kube-scheduler, which was answered that the pod is bound."""
        self._unsure.pop(uid, None)
        self._bound.pop(uid, None)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - an Event decides nothing
                FAULTS.report("announcer", error)
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Record the Events that are due, except those that kube-scheduler may still write."""
        self._look_at_unsure()
        now = self._now()
        for uid, (pod, node, due) in list(self._bound.items()):
            if due > now:
                return
            del self._bound[uid]
            if uid in self._awaiting_bind or (self._behind() and uid in self._view.unseen):
                self.bound(pod, node)
            else:
                self._record(scheduled(pod, node))

    def _look_at_unsure(self) -> None:
        for uid, (pod, node) in list(self._unsure.items()):
            found = self._view.pods.get(uid)
            if found is not None and found.node is None:
                continue
            del self._unsure[uid]
            if found is not None and found.node == node:
                self.bound(pod, node)


def scheduled(pod: PodInfo, node: str) -> Event:
    """Return the Event that kube-scheduler writes about a pod that it has bound."""
    about = ObjectRef("v1", "Pod", pod.namespace, pod.name, pod.uid)
    note = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
    return Event(about, "Scheduled", note, "Binding", warning=False, occasion=node)


@dataclass(frozen=True, slots=True)
class Member:
    """A member whose Binding is to be written."""

    pod: PodInfo
    node: str


class AheadWriter:
    """Writes the Bindings of groups that begin, and yields to kube-scheduler's own requests."""

    def __init__(
        self,
        cluster: Cluster,
        waiting: WaitingPods,
        writer: BindingWriter,
        *,
        announcer: Announcer,
        is_connected: Callable[[], bool],
        ended: Callable[[], None],
    ) -> None:
        """Take `is_connected`: whether kube-scheduler has a connection open.

        `ended` is called for each Binding that was made, or that is no longer to be written ahead.
        """
        self.metrics = writer.metrics
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._view = cluster.view()
        self._waiting = waiting
        self._writer = writer
        self._announcer = announcer
        self._is_connected = is_connected
        self._ended = ended
        self._called = self._heard = _NEVER
        """The times of kube-scheduler's last call or open request (never, once it has hung up),
        and of its last call."""
        self._held_answer: asyncio.Future[None] | None = None
        """The future that ends the bind request whose answer is held back; None if none is."""
        self._queue: asyncio.Queue[Member] = asyncio.Queue()
        """The members in their order; those no longer in `_unsent` are passed over."""
        self._unsent: dict[str, Member] = {}
        self._writing: dict[str, asyncio.Timeout] = {}
        """The time limits of the writes that are under way, by UID."""
        self._joined: dict[str, asyncio.Future[str]] = {}
        self._answered: set[str] = set()
        """The members whose bind requests were answered while their Bindings were written."""

    @property
    def writing(self) -> AbstractSet[str]:
        """Return the UIDs of the pods whose Bindings are being written."""
        return self._writing.keys()

    @property
    def going_out(self) -> int:
        """Return the number of Bindings that are to be written ahead, or are being written."""
        return len(self._unsent) + len(self._writing)

    # -- what kube-scheduler asks

    def leave(self, uid: str) -> None:
        """Leave a pod to kube-scheduler, which asks for it, unless it is being bound."""
        self.asked()
        self.take_back((uid,))

    def asked(self) -> None:
        """Remember when kube-scheduler last called."""
        self._called = self._heard = self._loop.time()

    def hung_up(self) -> None:
        """End unsent writes, and give up those under way: kube-scheduler may have ended.

        One that stops in order gives its lease back before it hangs up: the next one may have
        begun. If it is still there, its next call shows that, and it brings the members.
        """
        self._called = _NEVER
        self._end_held_answer()
        for limit in self._writing.values():
            if not limit.expired():
                limit.reschedule(self._loop.time())

    def answered(self, uid: str) -> None:
        """Leave the Event of a pod to kube-scheduler, which was answered that the pod is bound."""
        self._announcer.asked(uid)
        if uid in self._writing:
            self._answered.add(uid)

    async def hold_answer(self, uid: str, gone: Gone, *, until: float) -> None:
        """Return when all is sent, or the caller of a bind request for a member has hung up.

        `gone` reports that to `hung_up` before it returns. kube-scheduler does not call while all
        its pods wait, and it hangs up when it ends: one open request shows whether it is there. No
        other answer is held back meanwhile.
        """
        pod, now = self._view.pods.get(uid), self._loop.time()
        if self._held_answer is not None or not self._unsent or pod is None or pod.group is None:
            return
        held = self._held_answer = self._loop.create_future()
        caller = asyncio.ensure_future(gone())
        try:
            await asyncio.wait(
                (held, caller),
                timeout=min(ANSWER_HELD_SECONDS, until - now),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            caller.cancel()
            if self._held_answer is held:
                self._held_answer = None
                self.still_asks()

    def join(self, uid: str) -> "asyncio.Future[str] | None":
        """Return the future error of a Binding that is to be written, or is being written."""
        if uid not in self._unsent and uid not in self._writing:
            return None
        return self._joined.setdefault(uid, self._loop.create_future())

    # -- whether kube-scheduler is there

    def is_there(self) -> bool:
        """Return whether kube-scheduler is there, judged by its requests and its connection."""
        if self._called == _NEVER:
            return False
        if self.is_asking:
            self.still_asks()  # the callers have not hung up
            return self._loop.time() <= self._heard + STOPPED_SECONDS
        return self._is_connected() and not self.is_silent()

    @property
    def is_asking(self) -> bool:
        """Return whether a bind request, or the answer to one, is held."""
        return self._held_answer is not None or self._waiting.held_groups > 0

    def still_asks(self) -> None:
        """Count an open request as a call."""
        self._called = self._loop.time()

    def is_silent(self) -> bool:
        """Return whether kube-scheduler has not called for so long that it may have ended."""
        if self._held_answer is not None:
            self.still_asks()
        return self._loop.time() > self._called + SILENT_SECONDS

    # -- the members that begin

    @property
    def unsent(self) -> int:
        """Return the number of Bindings that are to be written, and not yet under way."""
        return len(self._unsent)

    def begin(self, members: Sequence[Member]) -> None:
        """Take the room of members; their Bindings are written once they are sent."""
        self._unsent.update((each.pod.uid, each) for each in members)
        self._cluster.apply(ev.BoundAhead({each.pod.uid: each.node for each in members}))

    def still_begun(self, members: Iterable[Member]) -> list[Member]:
        """Return the members that have not been taken back."""
        return [each for each in members if self._unsent.get(each.pod.uid) is each]

    def send(self, members: Iterable[Member]) -> None:
        """Write the Bindings of members in this order."""
        for each in members:
            self._queue.put_nowait(each)

    def drop(self, members: Iterable[Member]) -> None:
        """Free the room of begun members that are not to be written, after a fault."""
        left = self.still_begun(members)
        for each in left:
            del self._unsent[each.pod.uid]
        self._free(left)

    def take_back(self, uids: Iterable[str]) -> None:
        """Keep the room of members for kube-scheduler, which brings them itself."""
        unsent = [ahead for uid in uids if (ahead := self._unsent.pop(uid, None)) is not None]
        try:
            self._keep(unsent)
        except Exception:
            self._free(unsent)
            raise
        for ahead in unsent:
            self._end(ahead, HUNG_UP)
        self._all_sent()

    def _keep(self, unsent: Sequence[Member]) -> None:
        kept = [each for each in unsent if has_room(each.pod, each.node, view=self._view)]
        for ahead in unsent:
            now = self._view.pods.get(ahead.pod.uid)
            if now is None or now.group != ahead.pod.group:
                self._waiting.lose(ahead.pod.group or "")
        if kept:
            self._waiting.follow([(ahead.pod, ahead.node) for ahead in kept])

    def _free(self, left: Sequence[Member]) -> None:
        """Free the room of members that are no longer to be written."""
        self._cluster.apply(ev.Unreserved([each.pod.uid for each in left]))
        for each in left:
            self._end(each, HUNG_UP)
        self._all_sent()

    def stop(self) -> None:
        """Take back all members that are not being written: this process is about to stop."""
        self.take_back(list(self._unsent))

    # -- the work

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(PARALLEL):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            ahead = await self._queue.get()
            try:
                await self._bind(ahead)
            except Exception as fault:  # noqa: BLE001 - it harms this pod alone
                FAULTS.report("bind-together", fault, key=ahead.pod.uid)
                if self._unsent.get(ahead.pod.uid) is ahead:
                    self.take_back((ahead.pod.uid,))

    async def _bind(self, ahead: Member) -> None:
        """Write the Binding of a member, or leave it to kube-scheduler after all."""
        uid = ahead.pod.uid
        if self._unsent.get(uid) is not ahead:
            return  # taken back; it may have begun anew since, without a quorum yet
        if self.is_silent():
            self.take_back({uid, *islice(self._unsent, SLICE_PODS)})
            await asyncio.sleep(0)
        elif not still_holds(ahead.pod, ahead.node, view=self._view):
            self.take_back((uid,))
        else:
            del self._unsent[uid]
            self._all_sent()
            left = self._called + AHEAD_SECONDS - self._loop.time()
            await self._write(ahead, seconds=left)

    def _all_sent(self) -> None:
        """Answer the bind request that is held back if nothing is left to be sent."""
        if self._held_answer is not None and not self._unsent:
            self.still_asks()
            self._end_held_answer()

    def _end_held_answer(self) -> None:
        held, self._held_answer = self._held_answer, None
        if held is not None:
            held.set_result(None)

    async def _write(self, ahead: Member, *, seconds: float) -> None:
        pod, error = ahead.pod, HUNG_UP
        limit = self._writing[pod.uid] = asyncio.timeout(seconds)
        try:
            error = await self._writer.write_ahead(pod, ahead.node, seconds=seconds, limit=limit)
            if error:
                self._announcer.unsure(pod, ahead.node)
            elif pod.uid not in self._answered:
                self._announcer.bound(pod, ahead.node)
        except Exception:
            self._cluster.apply(ev.Unreserved((pod.uid,)))
            raise
        finally:
            del self._writing[pod.uid]
            self._answered.discard(pod.uid)
            self._end(ahead, error)

    def _end(self, ahead: Member, error: str) -> None:
        if error == HUNG_UP and self._called == _NEVER:
            error = HUNG_UP_ON_ANOTHER  # its own request has no attempt of its own, either
        joined = self._joined.pop(ahead.pod.uid, None)
        if joined is not None and not joined.done():
            joined.set_result(error)
        self._ended()
