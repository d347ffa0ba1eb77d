"""The state, with what the settings say of native gangs."""

from extender.config import Gang
from extender.state.cluster.events import NativesDecided
from extender.state.cluster.store import Cluster


def empty_cluster(gang: Gang) -> Cluster:
    """Return a state that has seen nothing yet. Raises SettingsError."""
    cluster, ours = Cluster(), gang.natives()
    if ours is not None:
        cluster.apply(NativesDecided(ours, fixed=True))
    return cluster
