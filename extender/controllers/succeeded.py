"""Which pods of a group have succeeded, including those deleted since.

The owner of pods may delete them as soon as they have ended. How many succeeded is stored in the
Workload (`reclaimablePods`); which of them still exist is known only to the process that saw them.
A new process assumes that stored ones which are missing were deleted.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from extender.state.queue.records import WorkloadInfo


@dataclass(slots=True)
class _Group:
    workload: str
    before: Counter[str]
    """By pod set: pods that were gone at the first look at the group."""
    seen: dict[str, str] = field(default_factory=dict)
    """Pod set by UID of a pod that succeeded."""


class Succeeded:
    """Counts by group; each pod counts once."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, _Group] = {}

    def look(
        self, unit: Hashable, workload: WorkloadInfo, there: Iterable[tuple[str, str]]
    ) -> Mapping[str, int]:
        """Return how many pods of each pod set have succeeded; `there` has UIDs and pod sets."""
        now = dict(there)
        known = self._groups.get(unit)
        if known is None or known.workload != workload.meta.uid:
            stored = Counter(
                {name: done for name, done in workload.reclaimable.items() if done > 0}
            )
            known = self._groups[unit] = _Group(workload.meta.uid, stored - Counter(now.values()))
        known.seen |= now
        return known.before + Counter(known.seen.values())

    def forget(self, unit: Hashable) -> None:
        """Forget a group that is gone."""
        self._groups.pop(unit, None)
