"""Binding ahead of requests: Bindings that are written before kube-scheduler asks for them.

Once kube-scheduler has placed one pod, the extender binds the identical ones itself. `Ahead` is the
one object that others see; it owns these parts:

`begin` binds members of a group together with one that kube-scheduler has asked for.
`next_groups` begins groups before kube-scheduler asks for one of their members.
`write` writes the Bindings and their Events, as long as kube-scheduler is there.
`scheduler_lag` decides when kube-scheduler has seen the pods that were bound.
"""

import asyncio
from collections.abc import Set as AbstractSet

from extender.permit.ahead.begin import Begin
from extender.permit.ahead.next_groups import NextGroups
from extender.permit.ahead.scheduler_lag import SchedulerLag
from extender.permit.ahead.write import AheadWriter, Announcer
from extender.permit.bind import BindingWriter
from extender.permit.callbacks import Callbacks
from extender.permit.hold import Gone, WaitingPods
from extender.permit.plans import Plans
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster


class Ahead:
    """Binds members of gangs ahead of requests; nothing if `gang.bindTogether` is off."""

    def __init__(
        self,
        cluster: Cluster,
        hold: WaitingPods,
        writer: BindingWriter,
        *,
        plans: Plans,
        callbacks: Callbacks,
    ) -> None:
        """Connect the parts with each other, and with the groups that wait."""
        self._hold = hold
        self._callbacks = callbacks
        self._enabled = plans.verdicts.options.bind_equal
        self.lag = SchedulerLag(cluster, clock=plans.clock, wake_after=callbacks.wake_after)
        self._announcer = Announcer(
            callbacks.record,
            clock=plans.clock,
            awaiting_bind=plans.verdicts.awaiting_bind,
            view=cluster.view(),
            behind=lambda: self.lag.behind,
        )
        self._writer = AheadWriter(
            *(cluster, hold, writer),
            announcer=self._announcer,
            is_connected=callbacks.is_connected,
            ended=self._binding_ended,
        )
        self._begin = Begin(*(cluster, hold, self._writer), plans=plans, behind=self._is_behind)
        self._next = NextGroups(cluster, plans, self._begin)
        hold.set_ahead(self)

    # --- what kube-scheduler asks ------------------------------------------------------------

    def asked(self) -> None:
        """Take note of a call of kube-scheduler: it is there."""
        self._writer.asked()

    def filtered(self, pod: PodInfo) -> None:
        """Leave a pod that filter is asked about to kube-scheduler, unless it is being bound."""
        self._writer.leave(pod.uid)
        self._next.look_soon()

    def join(self, uid: str) -> "asyncio.Future[str] | None":
        """Return the future error of a Binding that is written ahead; None if there is none."""
        return self._writer.join(uid)

    async def bound(self, uid: str, gone: Gone, *, until: float) -> None:
        """Take note that a bind request succeeded; return when it may be answered.

        One answer is held back while Bindings go out, to show whether kube-scheduler is there.
        `gone` calls `hung_up` before it returns.
        """
        self.lag.bound(uid)
        self._writer.answered(uid)
        await self._writer.hold_answer(uid, gone, until=until)

    def failed(self, pod: PodInfo, node: str) -> None:
        """Take note that the Binding of a bind request failed, and may have been made."""
        if self._enabled:
            self._announcer.unsure(pod, node)

    def hung_up(self) -> None:
        """End writes: kube-scheduler may have ended."""
        self._writer.hung_up()

    def lost(self) -> None:
        """Count kube-scheduler as gone unless one of its bind requests is open.

        Its last connection has ended. A process that stops closes it itself.
        """
        if not self._writer.is_asking and not self._hold.stopping:
            self.hung_up()

    # --- what groups that wait ask -----------------------------------------------------------

    def ask(self, group: str) -> None:
        """Begin to bind the members of a waiting group that can be; release it if they suffice."""
        if self._enabled:
            self._begin.ask(group)

    def started(self, group: str) -> None:
        """Count the members that the group left to kube-scheduler: it was released."""
        self._begin.started(group)

    def forget(self, group: str) -> None:
        """Forget the members that the group left to kube-scheduler: it waits no more."""
        self._begin.forget(group)

    # --- the process -------------------------------------------------------------------------

    @property
    def going_out(self) -> int:
        """Return the number of Bindings that are to be written ahead, or are being written."""
        return self._writer.going_out

    @property
    def writing(self) -> AbstractSet[str]:
        """Return the UIDs of the pods whose Bindings are being written."""
        return self._writer.writing

    def restarted(self) -> None:
        """Count pods everywhere as unseen: an earlier run of this process may have bound some."""
        if self._enabled:
            self.lag.restarted()

    def stop(self) -> None:
        """Give back unsent Bindings: the process is to stop."""
        self._writer.stop()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.lag.run())
            if self._enabled:
                for part in (self._writer, self._next, self._announcer):
                    tasks.create_task(part.run())

    # --- between the parts -------------------------------------------------------------------

    def _is_behind(self) -> bool:
        """Return whether kube-scheduler's watch or ours is late."""
        return self.lag.behind or self._callbacks.stale() is not None

    def _binding_ended(self) -> None:
        """Take note that one Binding fewer is to be written: it was made, or given up."""
        self._begin.look_soon()
