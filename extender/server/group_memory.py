"""What becomes of a verdict about a group: how long it counts, and what the state is told of it."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from cachetools import LRUCache

from extender.api.wellknown import Reason
from extender.gang import plan
from extender.gang.fit import Fit
from extender.gang.options import Options
from extender.gang.recent import MAX_GROUPS, Denied, HadNoRoom, Permitted
from extender.gang.verdicts import Refuse
from extender.runtime.clock import Clock
from extender.state import events as ev
from extender.state.cluster import Cluster
from extender.state.pod_groups import PodGroupInfo
from extender.state.pods import Shape

_OTHERS_FIRST = frozenset(
    (Reason.NOT_ENOUGH_RESOURCES, Reason.SCHEDULE_TIMEOUT, Reason.MEMBER_UNSCHEDULABLE)
)
"""Failures after which a group goes behind those that have waited longer since theirs."""


class GroupMemory:
    """The permitted and the denied groups, and the room that is kept."""

    def __init__(self, cluster: Cluster, *, options: Options, clock: Clock) -> None:
        self.options = options
        self.clock = clock
        self.schedulers: set[str] = set()
        """Names of the schedulers that ask us."""
        self._cluster = cluster
        self._snapshot = cluster.snapshot()
        self._denied = Denied(options.denied, clock.monotonic)
        self._had_no_room = HadNoRoom()
        self._last_failure: LRUCache[str, tuple[str, Refuse]] = LRUCache(MAX_GROUPS)
        """By group: the UID of the PodGroup that failed, and why."""
        self._permitted = Permitted(clock.monotonic)
        self._fits_empty: LRUCache[str, int] = LRUCache(MAX_GROUPS)
        """By group: the version of the nodes that would take it if they were empty."""

    def denied(self, group: str) -> Refuse | None:
        """Return the failure because of which a group is not looked at now."""
        return self._denied.get(group, snapshot=self._snapshot)

    def offered(self, group: str, shape: Shape, nodes: Collection[str]) -> None:
        """Take note of the nodes that kube-scheduler has found for a member of a group."""
        self._denied.offered(group, shape, nodes)

    def failed_within_window(self, group: str) -> Refuse | None:
        """Return the failure within the window, whatever has changed since."""
        return self._denied.recent(group)

    def failed(self, group: str, refusal: Refuse, *, shape: Shape | None = None) -> None:
        """Take note that the whole group failed, when a pod of that shape was tried."""
        self._permitted.discard(group)
        self._last_failure[group] = self._uid(group), replace(refusal, offered=frozenset())
        if refusal.reason is Reason.NEVER_FITS:
            # Other nodes would help it, and time would not: there is no use in a window.
            self._had_no_room.add(group, refusal, snapshot=self._snapshot)
            return
        self._denied.add(group, refusal, snapshot=self._snapshot, shape=shape)
        if refusal.reason in _OTHERS_FIRST and not self.options.strict_order:
            self._cluster.apply(ev.GroupFailed(group, self.clock.wall()))

    def last_failure(self, group: str) -> Refuse | None:
        """Return why a group failed last, if it is still the same group and has not started."""
        uid, refusal = self._last_failure.get(group, ("", None))
        return refusal if uid == self._uid(group) else None

    def forgive(self, group: str) -> None:
        """Let a group be looked at again: it is another one now."""
        self._denied.discard(group)
        self._had_no_room.discard(group)
        self._fits_empty.pop(group, None)

    def succeeded(self, group: str) -> None:
        """Take note that a group started."""
        self.forgive(group)
        self._last_failure.pop(group, None)

    def pass_over(self, group: str, refusal: Refuse) -> None:
        """Take note that a group had no room when one behind it was tried, or its gate watched."""
        self._had_no_room.add(group, refusal, snapshot=self._snapshot)

    def plan_ahead(self, pod_group: PodGroupInfo, *, schedulers: Collection[str]) -> float:
        """Keep room for a group before its own turn, if there is some: `plan.make_ahead`.

        Return how many seconds were spent in vain.
        """
        began = self.clock.monotonic()
        found = plan.make_ahead(pod_group, snapshot=self._snapshot, schedulers=schedulers)
        seconds = self.clock.monotonic() - began
        if isinstance(found, Fit):
            self.reserve(pod_group.key, found.placements)
            return 0.0
        if found is not None:
            self.pass_over(pod_group.key, found)
        return seconds

    def had_no_room(self, pod_group: PodGroupInfo) -> bool:
        """Return whether planning a group is not worth another look yet."""
        group, snapshot = pod_group.key, self._snapshot
        return bool(self.denied(group) or self._had_no_room.get(group, snapshot=snapshot))

    def never_fits(self, group: str) -> Refuse | None:
        """Return the refusal of a group that no node is large enough for, as far as is known."""
        answer = self._had_no_room.get(group, snapshot=self._snapshot)
        return answer if answer and answer.reason is Reason.NEVER_FITS else None

    def is_oversized(self, pod_group: PodGroupInfo) -> bool:
        """Return whether no node is large enough for a group; looks where it is not known."""
        if self.never_fits(pod_group.key) is not None:
            return True
        group, version = pod_group.key, self._snapshot.nodes_version
        if self._fits_empty.get(group) == version:
            return False
        refusal = plan.never_fits(pod_group, snapshot=self._snapshot)
        if refusal is not None:
            self.pass_over(group, refusal)
            return True
        self._fits_empty[group] = version
        return False

    def is_permitted(self, pod_group: PodGroupInfo) -> bool:
        """Return whether the group's minResources were there within its schedule time-out."""
        return self._permitted.has(pod_group)

    def reserve(self, group: str, placements: Mapping[str, str]) -> None:
        """Keep room for members: the group is permitted."""
        self._cluster.apply(ev.Planned(placements))
        pod_group = self._snapshot.pod_group(group)
        if pod_group is not None:
            self._permitted.add(pod_group, self.options.timeout(pod_group.schedule_timeout))

    def _uid(self, group: str) -> str:
        pod_group = self._snapshot.pod_group(group)
        return pod_group.uid if pod_group is not None else ""
