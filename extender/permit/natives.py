"""Pods of native PodGroups, which kube-scheduler may schedule as groups itself.

With its feature gates on, kube-scheduler tries all pods of a native group in one cycle, and puts
them back if too many find no node. A pod that an extender refused then goes to its back-off queue,
from which kube-scheduler takes pods at once while nothing else waits: so it would try the group
without a pause. An answer with an Error ends the cycle and puts the whole group off, for one second
at first and for up to ten later (decision 91).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import structlog
from cachetools import TTLCache

from extender.api.reasons import Reason
from extender.api.wellknown import GROUP_NATIVE
from extender.gang.filter import MIN_SAMPLE
from extender.gang.verdicts import AnyNode, FilterVerdict, OneOf, Refuse
from extender.permit.timing import REMEMBERED, ROUND_SECONDS, SETTLED_SECONDS
from extender.runtime.clock import Clock
from extender.state.cluster import events as ev
from extender.state.cluster.records import PodInfo
from extender.state.cluster.store import Cluster

_log = structlog.get_logger(__name__)

UNDECIDED: Final = (
    "whether kube-scheduler starts native groups as a whole shows when it is asked to wait"
)

NOT_FOUND: Final = "there is no PodGroup of scheduling.k8s.io of that name"


class NativeGangs:
    """Finds out whether native gangs are ours to start, and puts refused groups off."""

    def __init__(self, cluster: Cluster, *, clock: Clock) -> None:
        self._cluster = cluster
        self._view = cluster.view()
        self._clock = clock
        self._asked_at: dict[str, float] = {}
        """The time when kube-scheduler was first made to pause, by PodGroup without a condition."""
        self._refused: TTLCache[tuple[str, str | None], None] = TTLCache(
            REMEMBERED, ROUND_SECONDS, clock.monotonic
        )
        """The pods that were refused lately: UID and domain."""

    def undecided(self, pod: PodInfo) -> Refuse | None:
        """Return a refusal by which kube-scheduler shows whether it schedules groups itself.

        If it does, it writes a condition to the PodGroup at once. If there is none when a pod of
        the group is tried again, native gangs are ours from then on, or until there is one. A
        PodGroup that we do not see proves nothing: we would not see its condition either.
        """
        if self._view.natives_are_ours is not None or pod.native is None:
            return None
        now, group = self._clock.monotonic(), pod.native
        if self._view.pod_group_of(GROUP_NATIVE, group) is None:
            self._asked_at.pop(group, None)
            return Refuse(Reason.NATIVE_GROUP_WAITS, NOT_FOUND, pauses=True)
        if now - self._asked_at.setdefault(group, now) < SETTLED_SECONDS:
            return Refuse(Reason.NATIVE_GROUP_WAITS, UNDECIDED, pauses=True)
        _log.info("native gangs are ours: kube-scheduler wrote no condition to a PodGroup")
        self._asked_at.clear()
        self._cluster.apply(ev.NativesDecided(ours=True))
        return None

    def enough(self, pod: PodInfo, sent: Sequence[str]) -> FilterVerdict:
        """Return that a pod may use every node, or as many as kube-scheduler finds enough.

        kube-scheduler judges the pods of a native group one by one in one cycle, and scores all
        nodes that are left for each: it looks for 420 of a thousand nodes, for 100 of a hundred.
        With fewer it saves about the time that it takes to ask us. A pod with constraints of its
        own, about nodes or other pods, gets all of them.
        """
        if pod.native is None or len(sent) <= MIN_SAMPLE or not self._view.has_group_cycles:
            return AnyNode()
        if pod.shape.affinity is not None or pod.shape.individually_constrained:
            return AnyNode()
        return OneOf(tuple(sent[:MIN_SAMPLE]), enough=True)

    def put_off(self, pod: PodInfo, verdict: FilterVerdict, sent: Sequence[str]) -> FilterVerdict:
        """Return the verdict; a refusal is changed so that kube-scheduler pauses.

        With a topology constraint kube-scheduler tries one domain after another, and an Error in
        the first one would keep it from the others: only the second refusal in a row is an Error.
        """
        if not isinstance(verdict, Refuse) or verdict.pauses:
            return verdict
        if pod.native is None or not self._view.has_group_cycles:
            return verdict
        if self._is_first_in_domain(pod, pod.native, sent):
            return verdict
        return replace(verdict, reason=Reason.NATIVE_GROUP_WAITS, deny=False, pauses=True)

    def _is_first_in_domain(self, pod: PodInfo, native: str, sent: Sequence[str]) -> bool:
        pod_group = self._view.pod_group_of(GROUP_NATIVE, native)
        label = pod_group.required_topology if pod_group is not None else None
        if label is None:
            return False
        node = next(filter(None, map(self._view.nodes.get, sent)), None)
        where = pod.uid, node.labels.get(label) if node is not None else None
        if where in self._refused:
            return False
        self._refused[where] = None
        return True
