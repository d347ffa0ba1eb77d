"""How a job is started and stopped: the writes, in the order in which they are sent."""

from collections.abc import Callable, Sequence
from copy import deepcopy

from extender.jobs import fields
from extender.jobs.fields import Object
from extender.jobs.generic_job import GenericJob, PodSet, Step, is_stepping
from extender.jobs.patch import merge_patch, replaces_list
from extender.jobs.templates import Placement


def start_steps(job: GenericJob, placements: Sequence[Placement]) -> tuple[Step, ...]:
    """Return the writes that start a job; PlacementError where it cannot run as it was placed."""
    if is_stepping(job):
        return tuple(job.start_steps(placements))

    def start(changed: GenericJob) -> None:
        changed.inject_node_selectors(placements)
        changed.unsuspend()

    return one_step(job, start)


def stop_steps(job: GenericJob, pod_sets: Sequence[PodSet] | None) -> tuple[Step, ...]:
    """Return the writes that stop a job and restore its templates, if it is known how they were."""
    if is_stepping(job):
        return tuple(job.stop_steps(pod_sets))

    def stop(changed: GenericJob) -> None:
        changed.suspend()
        if pod_sets is not None:
            changed.restore_node_selectors(pod_sets)

    return one_step(job, stop)


def is_stopping(job: GenericJob) -> bool:
    """Return whether a stop was begun and not ended."""
    return is_stepping(job) and job.is_stopping()


def one_step(job: GenericJob, change: Callable[[GenericJob], None]) -> tuple[Step, ...]:
    """Return the one write that makes of a job what `change` makes of a copy, if it is a change."""
    changed = deepcopy(job)
    change(changed)
    patch = merge_patch(job.object, changed.object)
    return (guarded(patch, job.object),) if patch else ()


def guarded(patch: Object, source: Object, *, subresource: str = "") -> Step:
    """Return a write to this very object; one that replaces a list, to this very version of it."""
    mine = ["uid", *(["resourceVersion"] if replaces_list(patch) else [])]
    known = {name: fields.text(source, "metadata", name) for name in mine}
    precondition = {name: text for name, text in known.items() if text}
    metadata = {**fields.mapping(patch, "metadata"), **precondition}
    return Step({**patch, "metadata": metadata}, subresource)
