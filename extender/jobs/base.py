"""What kinds of jobs have in common: one object with pod templates, and a field to suspend it."""

from collections.abc import Sequence
from copy import deepcopy
from typing import ClassVar

from extender.jobs import fields, names, templates
from extender.jobs.equivalence import max_execution, pod_sets_agree
from extender.jobs.fields import Object
from extender.jobs.generic_job import Finished, PodSet, Slot
from extender.jobs.templates import Placement
from extender.state.queues.records import WorkloadInfo


class BaseJob:
    """A job that says where its templates are; a kind overrides what is different with it."""

    suspend_path: ClassVar[tuple[str, ...]] = ("spec", "suspend")
    template_paths: ClassVar[tuple[str, ...]] = ()
    """Where the pod templates are, for `render access`; kinds that are built in need not say."""
    changed_paths: ClassVar[tuple[str, ...]] = ()
    """Other fields that a start or a stop changes, beside `suspend_path`."""

    def __init__(self, source: Object) -> None:
        self._object = source

    @property
    def object(self) -> Object:
        """The wrapped object."""
        return self._object

    # -- what a kind has to say

    def slots(self) -> list[Slot]:
        """Return the pod templates in the order of the pod sets."""
        raise NotImplementedError

    def finished(self) -> Finished | None:
        """Return how the job ended, None while it has not."""
        raise NotImplementedError

    def pods_ready(self) -> bool:
        """Return whether all pods that should run now are ready."""
        raise NotImplementedError

    def is_active(self) -> bool:
        """Return whether pods still run."""
        raise NotImplementedError

    # -- what follows from it

    def is_suspended(self) -> bool:
        """Return whether the job is told not to run."""
        return fields.flag(self._object, *self.suspend_path)

    def suspend(self) -> None:
        """Tell the job not to run."""
        self._set_suspended(suspended=True)

    def unsuspend(self) -> None:
        """Tell the job to run."""
        self._set_suspended(suspended=False)

    def inject_node_selectors(self, placements: Sequence[Placement]) -> None:
        """Give each pod set its place; PlacementError where it wants something else."""
        by_name = {each.name: each for each in placements}
        for slot in self.slots():
            if slot.name not in by_name:
                raise templates.PlacementError(f"pod set {slot.name} is given no place")
            templates.inject(slot.template, by_name[slot.name])

    def restore_node_selectors(self, pod_sets: Sequence[PodSet]) -> None:
        """Take back what was injected: `pod_sets` are as they were before."""
        by_name = {each.name: each for each in pod_sets}
        for slot in self.slots():
            if slot.name in by_name:
                templates.restore(slot.template, by_name[slot.name].template)

    def pod_sets(self) -> list[PodSet]:
        """Return what the job asks for."""
        return [
            PodSet(slot.name, slot.count, deepcopy(slot.template), slot.min_count)
            for slot in self.slots()
        ]

    def equivalent_to_workload(self, workload: WorkloadInfo) -> bool:
        """Return whether a workload asks for what the job does, or what was injected into it."""
        exact = self.is_suspended() and workload.admission is None
        return max_execution(self._object) == workload.max_execution and pod_sets_agree(
            self.slots(), workload, exact=exact
        )

    def priority_class(self) -> str:
        """Return the first PriorityClass that a pod template names, or nothing."""
        found = (fields.text(s.template, "spec", "priorityClassName") for s in self.slots())
        return next(filter(None, found), "")

    def queue_name(self) -> str:
        """Return the name of the LocalQueue, or nothing."""
        return fields.label(self._object, names.QUEUE_NAME)

    def ignore_from_queueing(self) -> bool:
        """Return whether the job has not asked to be queued."""
        return not self.queue_name()

    def ended_by(self, *, succeeded: str, failed: str) -> Finished | None:
        """Return how the job ended, where two conditions tell it."""
        for kind, success in ((succeeded, True), (failed, False)):
            found = fields.condition(self._object, kind)
            if found is not None:
                return Finished(success, fields.text(found, "message"))
        return None

    def _set_suspended(self, *, suspended: bool) -> None:
        *path, last = self.suspend_path
        fields.ensure(self._object, *path)[last] = suspended
