"""Which ClusterQueues share quota."""

from collections.abc import Iterable, Mapping

from extender.state.queue.records import CohortInfo
from extender.state.queue.view import QueueView


def path(cohort: str | None, cohorts: Mapping[str, CohortInfo]) -> tuple[str, ...] | None:
    """Return a cohort and its ancestors, the root last; None where the parents form a circle.

    A cohort without an object is a root. Without a cohort the path is empty.
    """
    found: dict[str, None] = {}
    name = cohort
    while name:
        if name in found:
            return None
        found[name] = None
        known = cohorts.get(name)
        name = known.parent if known else None
    return tuple(found)


class CohortTrees:
    """The ClusterQueues of each tree of cohorts; read again when the structure has changed."""

    def __init__(self) -> None:
        self._version = -1
        self._root: dict[str, str] = {}
        self._members: dict[str, list[str]] = {}

    def sharing_with(self, names: Iterable[str], view: QueueView) -> list[str]:
        """Return these ClusterQueues and all others of their trees, sorted."""
        if self._version != view.structure_version:
            self._read(view)
        names = set(names)
        alone = {name for name in names if name not in self._root}
        roots = {self._root[name] for name in names if name in self._root}
        return sorted(alone.union(*(self._members[root] for root in roots)))

    def _read(self, view: QueueView) -> None:
        self._version = view.structure_version
        self._root, self._members = {}, {}
        for queue in view.cluster_queues.values():
            cohorts = path(queue.cohort, view.cohorts)
            if cohorts:
                self._root[queue.name] = cohorts[-1]
                self._members.setdefault(cohorts[-1], []).append(queue.name)
