"""What an explanation of a group is composed from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from extender.gang.options import GangOptions
from extender.gang.remembered import NOTHING, Remembered
from extender.state.cluster.records import PodGroupInfo
from extender.state.cluster.view import ClusterView


def _unknown(_: str) -> Remembered:
    return NOTHING


def _may_start(_: PodGroupInfo) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The state as it is now; no value read from it survives an `await`."""

    view: ClusterView
    options: GangOptions
    now: float
    """Seconds since the epoch."""
    source: Literal["Extender", "ApiServer"] = "ApiServer"
    remembered: Callable[[str], Remembered] = _unknown
    never_starts: Callable[[PodGroupInfo], bool] = _may_start
    """Returns whether a group holds up no other one, although it goes first."""
