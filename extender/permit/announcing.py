"""The Event `Scheduled` of pods that were bound ahead of kube-scheduler's request.

kube-scheduler writes it for the pods that it binds itself, also where its bind request finds the
Binding made. So it is written here some time after the Binding, unless that request has come.
"""

import asyncio
from collections.abc import Callable, Container
from typing import Final, NamedTuple

from extender.kube.recorder import Event, ObjectRef
from extender.runtime.clock import Clock
from extender.runtime.faults import FAULTS
from extender.state.cluster.records import PodInfo
from extender.state.cluster.view import ClusterView

PATIENCE_SECONDS: Final = 2.0
"""How long kube-scheduler may take to ask for a pod that it had in hand when it was bound."""
EVERY_SECONDS: Final = 0.25


class _Bound(NamedTuple):
    pod: PodInfo
    node: str
    due: float


class Announcer:
    """Passes an Event to `record` for each pod that was bound and never asked for."""

    def __init__(
        self,
        record: Callable[[Event], None],
        *,
        clock: Clock,
        in_hand: Container[str],
        view: ClusterView,
        behind: Callable[[], bool] = lambda: False,
    ) -> None:
        """`behind` says that kube-scheduler may still ask for pods that have long been bound."""
        self._record = record
        self._view = view
        self._now = clock.monotonic
        self._in_hand = in_hand
        self._behind = behind
        self._bound: dict[str, _Bound] = {}
        """By UID, the first to be due first."""
        self._unsure: dict[str, tuple[PodInfo, str]] = {}
        """By UID: pods that have no node yet."""

    def bound(self, pod: PodInfo, node: str) -> None:
        """Expect the Event of a pod whose Binding was made ahead of its request."""
        self._unsure.pop(pod.uid, None)
        self._bound[pod.uid] = _Bound(pod, node, self._now() + PATIENCE_SECONDS)

    def unsure(self, pod: PodInfo, node: str) -> None:
        """Expect the Event of a pod whose Binding failed, once a watch shows it made all the same.

        kube-scheduler was answered an error, or nothing, and says nothing of that Binding.
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
            await asyncio.sleep(EVERY_SECONDS)

    def look(self) -> None:
        """Record the Events that are due; one that kube-scheduler may write has time."""
        self._look_at_unsure()
        now = self._now()
        for uid, (pod, node, due) in list(self._bound.items()):
            if due > now:
                return
            del self._bound[uid]
            if uid in self._in_hand or (self._behind() and uid in self._view.unseen):
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
