"""The pod sets of a job, and whether a job and a workload ask for the same."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from extender.jobs import templates
from extender.jobs.fields import Object
from extender.state.queue.records import PodSetInfo, WorkloadInfo

_decode = msgspec.json.Decoder(dict[str, object]).decode


@dataclass(frozen=True, slots=True)
class JobPodSet:
    """Equal pods of a job."""

    name: str
    count: int
    template: Object
    min_count: int | None = None
    """The smallest number of pods that the job can start with; None is all of them."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A pod template inside of a job, itself and not a copy."""

    name: str
    count: int
    template: Object = field(repr=False)
    min_count: int | None = None
    counted: Object | None = field(default=None, repr=False)
    """The template with the containers that the kind's controller adds; None where it adds none."""

    def asked(self) -> JobPodSet:
        """Return the pod set that needs quota; it shares its template with the job."""
        template = self.template if self.counted is None else self.counted
        return JobPodSet(self.name, self.count, template, self.min_count)


def template_of(pod_set: PodSetInfo) -> Object:
    """Return the pod template of a workload's pod set; an empty one where it cannot be read."""
    try:
        return _decode(pod_set.template) if pod_set.template else {}
    except (msgspec.MsgspecError, RecursionError):
        return {}


def pod_sets_of(workload: WorkloadInfo) -> list[JobPodSet]:
    """Return the pod sets of a workload: a job's as they were before it was started."""
    return [
        JobPodSet(each.name, each.count, template_of(each), each.min_count)
        for each in workload.pod_sets
    ]


def pod_sets_agree(
    slots: Sequence[JobPodSet], workload: WorkloadInfo, *, exact: bool = False
) -> bool:
    """Return whether a job's templates are those of a workload.

    Where it is not to be `exact`, they may have got scheduling directives since, and the count may
    be that for which quota was reserved. What was given is not compared with what the flavors would
    give now: a flavor that is edited stops no job that runs in it.
    """
    if len(slots) != len(workload.pod_sets):
        return False
    pairs = zip(slots, workload.pod_sets, strict=True)
    return all(_agrees(slot, stored, workload, exact=exact) for slot, stored in pairs)


def _agrees(slot: JobPodSet, stored: PodSetInfo, workload: WorkloadInfo, *, exact: bool) -> bool:
    if slot.name != stored.name or slot.count not in _counts(stored, workload, exact=exact):
        return False
    if exact:
        agrees = slot.min_count == stored.min_count
        return agrees and templates.same(slot.template, template_of(stored))
    return templates.extends(slot.template, template_of(stored))


def _counts(stored: PodSetInfo, workload: WorkloadInfo, *, exact: bool) -> set[int]:
    counts = {stored.count}
    if not exact and workload.admission is not None:
        given = workload.admission.assignments
        counts.update(each.count for each in given if each.name == stored.name)
    return counts
