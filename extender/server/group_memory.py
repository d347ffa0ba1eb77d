"""What becomes of a verdict about a group: how long it counts, and what the state is told of it."""

from collections.abc import Mapping

from extender.api.wellknown import Reason
from extender.gang.options import Options
from extender.gang.recent import Denied, Permitted
from extender.gang.verdicts import Refuse
from extender.runtime.clock import Clock
from extender.state import events as ev
from extender.state.cluster import Cluster
from extender.state.pod_groups import PodGroupInfo

_OTHERS_FIRST = frozenset(
    (Reason.NOT_ENOUGH_RESOURCES, Reason.SCHEDULE_TIMEOUT, Reason.MEMBER_UNSCHEDULABLE)
)
"""Failures after which a group goes behind those that have waited longer since theirs."""


class GroupMemory:
    """The permitted and the denied groups, and the room that is kept."""

    def __init__(self, cluster: Cluster, *, options: Options, clock: Clock) -> None:
        self.options = options
        self._cluster = cluster
        self._snapshot = cluster.snapshot()
        self._clock = clock
        self._denied = Denied(options.denied, clock.monotonic)
        self._passed_over = Denied(options.denied, clock.monotonic)
        self._permitted = Permitted(clock.monotonic)

    def denied(self, group: str) -> Refuse | None:
        """Return the failure because of which a group is not looked at now."""
        return self._denied.get(group, snapshot=self._snapshot)

    def failed_within_window(self, group: str) -> Refuse | None:
        """Return the failure within the window, whatever has changed since."""
        return self._denied.recent(group)

    def failed(self, group: str, refusal: Refuse) -> None:
        """Take note that the whole group failed."""
        self._denied.add(group, refusal, snapshot=self._snapshot)
        self._permitted.discard(group)
        if refusal.reason in _OTHERS_FIRST and not self.options.strict_order:
            self._cluster.apply(ev.GroupFailed(group, self._clock.wall()))

    def forgive(self, group: str) -> None:
        """Forget a group's failure: it started, or is another one now."""
        self._denied.discard(group)
        self._passed_over.discard(group)

    def pass_over(self, group: str, refusal: Refuse) -> None:
        """Take note that a group had no room when one behind it was tried."""
        self._passed_over.add(group, refusal, snapshot=self._snapshot)

    def had_no_room(self, pod_group: PodGroupInfo) -> bool:
        """Return whether planning a group is not worth another look yet."""
        group, snapshot = pod_group.key, self._snapshot
        return bool(self.denied(group) or self._passed_over.get(group, snapshot=snapshot))

    def is_permitted(self, pod_group: PodGroupInfo) -> bool:
        """Return whether the group's minResources were there within its schedule time-out."""
        return self._permitted.has(pod_group)

    def reserve(self, group: str, placements: Mapping[str, str]) -> None:
        """Keep room for members: the group is permitted."""
        self._cluster.apply(ev.Planned(placements))
        pod_group = self._snapshot.pod_group(group)
        if pod_group is not None:
            self._permitted.add(pod_group, self.options.timeout(pod_group.schedule_timeout))
