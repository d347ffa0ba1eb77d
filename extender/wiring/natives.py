"""Whether native gangs are ours, as far as the settings say."""

from extender.config import Gang
from extender.state.cluster.events import NativeGangs
from extender.state.cluster.store import Cluster


def decide_natives(cluster: Cluster, gang: Gang) -> None:
    """Apply what the settings say of native gangs. Raises SettingsError."""
    ours = gang.natives()
    if ours is not None:
        cluster.apply(NativeGangs(ours, fixed=True))
