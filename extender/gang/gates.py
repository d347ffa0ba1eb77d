"""The gates that a group passes before it starts, in the order in which decisions ask them."""

from enum import StrEnum
from typing import NamedTuple

from extender.gang.verdicts import Refuse


class Gate(StrEnum):
    """One question about a group; where its answer is no, none of the later ones is asked."""

    ADMISSION = "Admission"
    """Has its queue admitted the Job of its pods?"""
    POD_GROUP = "PodGroup"
    """Is there a PodGroup?"""
    ANNOTATIONS = "Annotations"
    """Can what it says of topology and placement be kept at all?"""
    PODS = "Pods"
    """Do enough pods exist?"""
    SCHEDULING_GATES = "SchedulingGates"
    """Are enough of them free of gates that are not ours?"""
    RECENT_FAILURE = "RecentFailure"
    """Has it failed just now?"""
    TURN = "Turn"
    """Is it first, where the order is strict?"""
    TOPOLOGY = "Topology"
    """Are there nodes with the label that it names?"""
    MIN_RESOURCES = "MinResources"
    """Are its minResources free, all nodes taken together?"""
    ABLE_PODS = "AblePods"
    """Can enough of its pods be placed now, all by one scheduler?"""
    ROOM = "Room"
    """Do the pods that it still needs fit, node by node?"""
    QUORUM = "Quorum"
    """Have enough pods a node, or wait with one?"""


class GateCheck(NamedTuple):
    """What was found at a gate: so many of so many, and the refusal where these are too few."""

    gate: Gate
    refusal: Refuse | None = None
    have: int | None = None
    need: int | None = None
