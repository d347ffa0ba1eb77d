"""Whether a refusal still stands: only nodes that gained room, or changed, can end it."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from extender.api.reasons import Reason
from extender.gang.verdicts import Refuse
from extender.state.cluster.view import ClusterView


class Versions(NamedTuple):
    """How often nodes had gained room, and had changed, when an answer was worked out."""

    room: int
    nodes: int


def versions_of(view: ClusterView) -> Versions:
    """Return the versions of room and of nodes; a plan takes those of its begin.

    Room that appears while a plan is made may be on nodes that the plan has already passed.
    """
    return Versions(view.capacity_version, view.nodes_version)


@dataclass(slots=True)
class Standing:
    """A refusal, and the versions up to which it is known to stand."""

    refusal: Refuse
    versions: Versions
    gained: dict[str, int] = field(default_factory=dict)
    """How many of the pods that lack room could go to nodes that have gained some since."""

    def left(self) -> Refuse:
        """Return the refusal, with no more lack than the nodes that gained have left."""
        lack = self.refusal.lack
        if lack is None or not self.gained:
            return self.refusal
        missing = max(1, lack.missing - sum(self.gained.values()))
        return replace(self.refusal, lack=replace(lack, missing=missing))

    def stands(self, view: ClusterView) -> bool:
        """Return whether another look would find the same, by the nodes that have gained room.

        A group that lacks room gets another chance when enough may have appeared; one that would
        not fit on empty nodes, when other nodes would take it.
        """
        now = versions_of(view)
        if now == self.versions:
            return True
        lack = self.refusal.lack
        if lack is None:
            never = self.refusal.reason is Reason.NEVER_FITS
            return never and now.nodes == self.versions.nodes
        if lack.is_filled(self.gained, self.versions, view):
            return False
        self.versions = now
        return True
