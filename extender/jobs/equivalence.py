"""Whether a job and a workload ask for the same."""

from collections.abc import Mapping, Sequence

import msgspec

from extender.jobs import fields, names, templates
from extender.jobs.fields import Object
from extender.jobs.generic_job import PodSet, Slot
from extender.state.queues.records import PodSetInfo, WorkloadInfo

_LONGEST = 2**31 - 1
_decode = msgspec.json.Decoder(dict[str, object]).decode


def max_execution(job: Mapping[str, object]) -> int | None:
    """Return for how many seconds a job may run, as its label says; None is for as long it likes.

    A label that is no whole number above zero says nothing, nor does one that no workload can have.
    """
    seconds = fields.whole(fields.label(job, names.MAX_EXEC_TIME))
    return seconds if 0 < seconds <= _LONGEST else None


def template_of(pod_set: PodSetInfo) -> Object:
    """Return the pod template of a workload's pod set; an empty one where it cannot be read."""
    try:
        return _decode(pod_set.template) if pod_set.template else {}
    except (msgspec.MsgspecError, RecursionError):
        return {}


def pod_sets_of(workload: WorkloadInfo) -> list[PodSet]:
    """Return the pod sets of a workload: a job's as they were before it was started."""
    return [
        PodSet(each.name, each.count, template_of(each), each.min_count)
        for each in workload.pod_sets
    ]


def pod_sets_agree(
    slots: Sequence[Slot | PodSet], workload: WorkloadInfo, *, exact: bool = False
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


def _agrees(
    slot: Slot | PodSet, stored: PodSetInfo, workload: WorkloadInfo, *, exact: bool
) -> bool:
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
