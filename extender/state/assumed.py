"""Room that is spoken for before the API server shows it."""

from dataclasses import dataclass
from enum import Enum

from extender.state.pods import PodInfo


class Stage(Enum):
    """How far a pod that has no node in the API has come."""

    PLANNED = "planned"
    """A plan keeps room for it; kube-scheduler does not know yet."""
    WAITING = "waiting"
    """Its bind request is held: kube-scheduler has assumed it on the node."""
    BINDING = "binding"
    """The Binding is on its way, or made and not yet seen in the watch."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """One pod's room on one node."""

    pod: PodInfo
    node: str
    stage: Stage


@dataclass(frozen=True, slots=True)
class Refusal:
    """The last refusal of a pod that kube-scheduler is not expected to try again by itself."""

    pod: PodInfo
    reason: str
