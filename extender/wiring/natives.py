"""The cluster's state at the start, with the settings for native gangs."""

from extender.config import Gang
from extender.state.cluster.events import NativesDecided
from extender.state.cluster.store import Cluster


def empty_cluster(gang: Gang) -> Cluster:
    """Return a state that has seen nothing yet. Raises SettingsError."""
    cluster, ours = Cluster(), gang.natives()
    if ours is not None:
        cluster.apply(NativesDecided(ours, fixed=True))
    return cluster


class Absence:
    """Says that native gangs are not ours where their PodGroups cannot be read.

    No gang can be started without its PodGroup, so their pods pass as if there was no extender.
    When the PodGroups can be read the question is open again.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._absent = False

    def seen(self, *, absent: bool) -> None:
        """Take note that the PodGroups were listed, or that they cannot be."""
        if absent != self._absent:
            self._absent = absent
            self._cluster.apply(NativesDecided(ours=False if absent else None))
