"""The way from a cohort to its root."""

from collections.abc import Mapping

from extender.state.queues.records import CohortInfo


def path(cohort: str | None, cohorts: Mapping[str, CohortInfo]) -> tuple[str, ...] | None:
    """Return a cohort and those around it, the root last; None where the way is a circle.

    A cohort without an object is a root; no cohort, no way.
    """
    way: dict[str, None] = {}
    name = cohort
    while name:
        if name in way:
            return None
        way[name] = None
        found = cohorts.get(name)
        name = found.parent if found else None
    return tuple(way)
