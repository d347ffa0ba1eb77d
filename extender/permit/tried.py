"""Whether kube-scheduler has tried a group's pods for which no room was there.

Only then others make room for the group: kube-scheduler may know of reasons that no plan sees.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final
from weakref import WeakKeyDictionary

from extender.api.reasons import Reason
from extender.gang.filter import BEHIND, DISAGREE
from extender.gang.fit import finds_no_node
from extender.permit.plans import Plans
from extender.state.cluster.records import PodInfo, Shape
from extender.state.cluster.view import ClusterView

TRIED_SECONDS: Final = 60.0
"""For how long it counts for its equals that a pod was tried in vain."""
MOST_MEMBERS: Final = 64
"""So many members are read to see whether kube-scheduler has tried one."""
NOTED: Final = 4
"""And so many for what is good for their equals: a group's members are few kinds."""
_NEWS: Final = frozenset((Reason.CACHE_BEHIND, Reason.CACHE_STALE, Reason.SCHEDULER_DISAGREES))
_SAID: Final = (BEHIND, DISAGREE)


class Tried:
    """Knows for a while which pods were tried in vain."""

    def __init__(self, view: ClusterView, plans: Plans) -> None:
        self._view, self._plans = view, plans
        self._tried = WeakKeyDictionary[Shape, dict[tuple[str, str], float]]()
        """Until when it counts that a pod of this shape, scheduler and namespace was tried, by the
        monotonic clock."""

    def note(self, group: str) -> None:
        """Note for equal pods which members kube-scheduler has tried in vain: for want of room."""
        until = self._plans.clock.monotonic() + TRIED_SECONDS
        for pod in islice(self._waiting(group), NOTED):
            kind, known = (pod.scheduler, pod.namespace), self._tried.setdefault(pod.shape, {})
            if self._has_news(pod):
                known.pop(kind, None)
            elif self._was_tried(pod) and not finds_no_node(pod, group):
                known[kind] = until

    def is_refused(self, group: str) -> bool:
        """Return whether kube-scheduler has tried a member in vain, or our own plan has failed.

        Or it has tried an equal pod of another group: it takes them one after the other, and on
        full nodes each gang would wait for all pods of those before it. A group with members for
        which it finds no node for a reason that no plan sees is left alone, and so is one of a
        scheduler that does not ask. So is one of which kube-scheduler knows more than our watch has
        shown: its room may be there already.
        """
        tried, now = self._plans.verdicts.no_room(group) is not None, self._plans.clock.monotonic()
        for pod in self._waiting(group):
            asks = pod.scheduler in self._plans.schedulers or pod.is_gated_by_us
            if not asks or finds_no_node(pod, group) or self._has_news(pod):
                return False
            equals = self._tried.get(pod.shape, {}).get((pod.scheduler, pod.namespace), 0.0)
            tried = tried or self._was_tried(pod) or now < equals
        return tried

    def _waiting(self, group: str) -> Iterator[PodInfo]:
        """Yield members that have no room, as many as are read of a group."""
        view = self._view
        for pod in islice(view.members(group), MOST_MEMBERS):
            if pod.node is None and view.reservation(pod.uid) is None:
                yield pod

    def _has_news(self, pod: PodInfo) -> bool:
        """Return whether kube-scheduler saw something at its last try that we did not."""
        refusal, said = self._view.refused.get(pod.uid), pod.unschedulable or ""
        if refusal is None:
            return pod.uid in self._view.seen or any(text in said for text in _SAID)
        return pod.uid in self._view.seen or refusal.reason in _NEWS

    def _was_tried(self, pod: PodInfo) -> bool:
        return pod.unschedulable is not None or pod.uid in self._view.refused
