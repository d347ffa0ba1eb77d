"""The room that is kept for groups that preempt, as the reconciler reads it from their status."""

from extender.state.cluster import events as ev
from extender.state.cluster.events import ClusterChange
from extender.state.cluster.records import PreemptedRoom
from extender.state.cluster.store import Cluster


class StoredNominations:
    """Keeps the room in this process's state that PodGroups say is kept for them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._view = cluster.view()
        self._known: dict[str, PreemptedRoom] = {}
        cluster.subscribe(self.on_change)

    def on_change(self, change: ClusterChange) -> None:
        """Follow the PodGroups that changed."""
        for group in change.statuses:
            self._follow(group)

    def again(self) -> None:
        """Follow all of them anew: their pods may not have been there, nor their priorities."""
        self._known.clear()
        for group in self._view.pod_groups:
            self._follow(group)

    def _follow(self, group: str) -> None:
        pod_group = self._view.pod_group(group)
        stored = pod_group.nomination if pod_group is not None else None
        if stored == self._known.get(group):
            return
        if stored is not None:
            self._known[group] = stored
            self._cluster.apply(ev.Nominated(group, stored))
        else:
            del self._known[group]
            self._cluster.apply(ev.NominationsEnded((group,)))
