"""Memory of recent verdicts: what a group was told counts for a while without another look.

The first failure starts the window and later ones do not extend it. A success, a change of the
group or enough room that may have appeared ends it at once. A group that merely lacks pods never
gets here, so a late sibling is not punished.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from cachetools import LRUCache, TLRUCache, TTLCache

from extender.api.wellknown import Reason
from extender.gang.verdicts import Refuse
from extender.state.pod_groups import PodGroupInfo
from extender.state.pods import Shape
from extender.state.snapshot import Snapshot

MAX_GROUPS = 100_000

Versions = tuple[int, int]
"""Of room and of nodes, as a snapshot counts them."""


@dataclass(slots=True)
class _Failure:
    verdict: Refuse
    versions: Versions
    """Up to which it is known to stand."""
    shape: Shape | None = None
    """Of the pod that was tried."""
    gained: dict[str, int] = field(default_factory=dict)
    """How many of the pods that lack room could go to nodes that have gained some since."""

    def left(self) -> Refuse:
        """Return the verdict, with no more lack than the nodes that gained have left."""
        lack = self.verdict.lack
        if lack is None or not self.gained:
            return self.verdict
        missing = max(1, lack.missing - sum(self.gained.values()))
        return replace(self.verdict, lack=replace(lack, missing=missing))

    def stands(self, snapshot: Snapshot) -> bool:
        """Return whether another look would find the same, by the nodes that have gained room.

        A group that lacks room gets another chance when enough may have appeared; one that would
        not fit on empty nodes, when other nodes would take it.
        """
        now = versions_of(snapshot)
        if now == self.versions:
            return True
        lack = self.verdict.lack
        if lack is None:
            never = self.verdict.reason is Reason.NEVER_FITS
            return never and now[1] == self.versions[1]
        if lack.is_filled(self.gained, self.versions, snapshot):
            return False
        self.versions = now
        return True


def versions_of(snapshot: Snapshot) -> Versions:
    """Return the versions of room and of nodes; a plan takes those of its begin.

    Room that appears while a plan is made may be on nodes that the plan has already passed.
    """
    return snapshot.capacity_version, snapshot.nodes_version


class Denied:
    """Groups that failed within the last `window` seconds; a window of 0 remembers nothing."""

    def __init__(self, window: float, timer: Callable[[], float]) -> None:
        self.window = window
        self._failures: TTLCache[str, _Failure] | None = (
            TTLCache(MAX_GROUPS, window, timer) if window > 0 else None
        )

    def add(
        self, group: str, verdict: Refuse, *, versions: Versions, shape: Shape | None = None
    ) -> None:
        """Remember a failure, true at these versions, unless an earlier one still counts."""
        if self._failures is not None and group not in self._failures:
            self._failures[group] = _Failure(verdict, versions, shape)

    def get(self, group: str, *, snapshot: Snapshot) -> Refuse | None:
        """Return the verdict of the failure that still counts, if any."""
        failure = self._failures.get(group) if self._failures is not None else None
        if failure is None:
            return None
        if not failure.stands(snapshot):
            self.discard(group)
            return None
        return failure.verdict

    def offered(self, group: str, shape: Shape, nodes: Collection[str]) -> None:
        """Forget a failure if kube-scheduler has found nodes since that it did not know then.

        Its watch was behind ours: it tries the pods once more for what has been the same here since
        before the failure. What it finds for pods of another shape says nothing of these.
        """
        failure = self._failures.get(group) if self._failures is not None else None
        if failure is None or not failure.verdict.offered or failure.shape is not shape:
            return
        if not failure.verdict.offered.issuperset(nodes):
            self.discard(group)

    def recent(self, group: str) -> Refuse | None:
        """Return the verdict of a failure within the window, whatever has changed since."""
        failure = self._failures.get(group) if self._failures is not None else None
        return failure.verdict if failure is not None else None

    def discard(self, group: str) -> None:
        """Forget a group's failure."""
        if self._failures is not None:
            self._failures.pop(group, None)


class HadNoRoom:
    """Groups that a plan was looked for in vain, and would be again: nothing has changed since.

    Not a verdict but an answer that is kept for as long as it must be the same.
    """

    def __init__(self) -> None:
        self._answers: LRUCache[str, _Failure] = LRUCache(MAX_GROUPS)

    def add(self, group: str, answer: Refuse, *, versions: Versions) -> None:
        """Keep an answer that was true at these versions."""
        self._answers[group] = _Failure(answer, versions)

    def get(self, group: str, *, snapshot: Snapshot) -> Refuse | None:
        """Return the answer that still counts."""
        kept = self._answers.get(group)
        if kept is None or kept.stands(snapshot):
            return kept.left() if kept is not None else None
        self.discard(group)
        return None

    def discard(self, group: str) -> None:
        """Forget a group: it is another one now."""
        self._answers.pop(group, None)


class Permitted:
    """Groups whose minResources were there not long ago: those are not added up again.

    A group is permitted for as long as its members may wait for each other, and as long as its
    PodGroup asks for the same.
    """

    def __init__(self, timer: Callable[[], float]) -> None:
        self._groups: TLRUCache[str, tuple[PodGroupInfo, float]] = TLRUCache(
            MAX_GROUPS, lambda _, value, now: now + value[1], timer
        )

    def add(self, pod_group: PodGroupInfo, seconds: float) -> None:
        """Remember that a group may start."""
        self._groups[pod_group.key] = (pod_group, seconds)

    def has(self, pod_group: PodGroupInfo) -> bool:
        """Return whether the group, as it is now, was permitted within its time."""
        found = self._groups.get(pod_group.key)
        return found is not None and found[0] == pod_group

    def discard(self, group: str) -> None:
        """Forget a group."""
        self._groups.pop(group, None)
