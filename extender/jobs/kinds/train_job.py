"""TrainJob (trainer.kubeflow.org): its pods are those of the JobSet that Trainer makes for it.

Trainer makes the JobSet of a suspended TrainJob suspended, and writes it anew at each change until
it runs. So the pod sets are read from the JobSet, and a start writes overrides into the TrainJob.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import ClassVar, Final

from typing_extensions import override

from extender.api.wellknown import WORKLOAD_ANNOTATION
from extender.jobs import fields, templates
from extender.jobs.fields import Object
from extender.jobs.job import (
    ChildChange,
    Finished,
    GenericJob,
    Slot,
    Step,
    guarded,
    merge_patch,
)
from extender.jobs.kinds.jobset import JobSet
from extender.jobs.templates import Placement
from extender.state.queue.records import WorkloadInfo

_OVERRIDES: Final = "podTemplateOverrides"
"""The field of releases before 2.2. An API server drops the one that its CRD does not have."""
_PATCHES: Final = "runtimePatches"
_MANAGER: Final = "kueue.x-k8s.io/manager"
_JOBS: Final = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
_NO_RUNTIME: Final = "TrainingRuntimeNotSupported"


class TrainJob(JobSet):
    """A TrainJob whose runtime is a JobSet."""

    integration: ClassVar = "trainer.kubeflow.org/trainjob"
    kind: ClassVar = "TrainJob"
    group: ClassVar = "trainer.kubeflow.org"
    version: ClassVar = "v1alpha1"
    plural: ClassVar = "trainjobs"
    child_kind: ClassVar[type[GenericJob] | None] = JobSet

    @override
    def slots(self) -> list[Slot]:
        """Return the pod sets of the JobSet, as Trainer makes it of the overrides there are now."""
        found = super().slots()
        for slot in found:
            is_given = bool(fields.annotation(slot.template, WORKLOAD_ANNOTATION))
            before = self.given().get(slot.name, {}) if is_given else {}
            after = self._overrides().get(slot.name, {})
            if before or after:
                templates.follow(slot.template, before, after)
        return found

    @override
    def inject_node_selectors(self, placements: Sequence[Placement]) -> None:
        """Write an override for each pod set. Trainer merges it, and replaces only tolerations."""
        super().inject_node_selectors(placements)
        given = {each.name: each for each in placements}
        self._override({slot.name: _given(slot, given[slot.name]) for slot in self.slots()})

    @override
    def restore_node_selectors(self, pod_sets: Sequence[Slot]) -> None:
        """Take the overrides of a start away."""
        self._override({})

    @override
    def start_steps(self, placements: Sequence[Placement]) -> Sequence[Step]:
        """Return the overrides, which Trainer takes while it is suspended, and then the start."""
        if self.child is None:
            return ()
        given = deepcopy(self)
        given.inject_node_selectors(placements)
        started = deepcopy(given)
        started.unsuspend()
        return (*_steps(self, given), *_steps(given, started))

    @override
    def stop_steps(self, pod_sets: Sequence[Slot] | None) -> Sequence[Step]:
        """Return the write that suspends it, or the rest once no Job is active.

        Until then Trainer refuses other overrides.
        """
        changed = deepcopy(self)
        if not self.is_suspended():
            changed.suspend()
        elif not self.is_active():
            changed.restore_node_selectors(())
        return _steps(self, changed)

    @override
    def is_stopping(self) -> bool:
        return self.is_suspended() and bool(self._overrides())

    @override
    def notices_stop(self) -> bool:
        """Return whether Trainer has seen it, and the JobSet's own controller after it."""
        return fields.condition(self.object, "Suspended") is not None and self._rests()

    @override
    def child_changes(self, placements: Sequence[Placement]) -> Sequence[ChildChange]:
        owner = fields.text(self._jobset(), "metadata", "uid")
        return [replace(each, owner=owner) for each in super().child_changes(placements)]

    @override
    def incomplete(self) -> str:
        if self.child is not None:
            return ""
        return "Trainer has not made its JobSet yet: if it cannot, Events of the TrainJob say why"

    @override
    def problem(self) -> str:
        found = fields.condition(self.object, "Failed") or {}
        refused = fields.text(found, "reason") == _NO_RUNTIME
        return f"Trainer refuses it: {fields.text(found, 'message')}" if refused else ""

    @override
    def finished(self) -> Finished | None:
        return self.ended_by(succeeded="Complete", failed="Failed")

    @override
    def pods_ready(self) -> bool:
        return self.child is not None and super().pods_ready()

    @override
    def equivalent_to_workload(self, workload: WorkloadInfo) -> bool:
        """Return whether the two agree; without a JobSet nothing says that they do not."""
        return self.child is None or super().equivalent_to_workload(workload)

    @override
    def makes(self, kind: str, name: str) -> bool:
        return (kind, name) == (JobSet.integration, fields.text(self.object, "metadata", "name"))

    @override
    def _jobset(self) -> Object:
        return {} if self.child is None else self.child

    def _overrides(self) -> dict[str, Object]:
        """Return the overrides of a start, as templates, by pod set."""
        found = {
            fields.text(target, "name"): each
            for each in fields.objects(self.object, "spec", _OVERRIDES)
            if fields.annotation(each, WORKLOAD_ANNOTATION)
            for target in fields.objects(each, "targetJobs")
        }
        patches = fields.objects(self.object, "spec", _PATCHES)
        ours = (each for each in patches if fields.text(each, "manager") == _MANAGER)
        return found | {
            fields.text(job, "name"): fields.ensure(job, "template", "spec", "template")
            for each in ours
            for job in fields.objects(each, *_JOBS)
        }

    def _override(self, given: Mapping[str, Object]) -> None:
        """Write the overrides of a start in place of those that there are."""
        spec = fields.ensure(self.object, "spec")
        overrides = [
            each
            for each in fields.objects(spec, _OVERRIDES)
            if not fields.annotation(each, WORKLOAD_ANNOTATION)
        ]
        patches = [
            each for each in fields.objects(spec, _PATCHES) if each.get("manager") != _MANAGER
        ]
        for name, template in given.items():
            overrides.append({"targetJobs": [{"name": name}], **template})
        if given:
            patch: Object = {"manager": _MANAGER}
            *path, last = _JOBS
            fields.ensure(patch, *path)[last] = [
                {"name": name, "template": {"spec": {"template": template}}}
                for name, template in given.items()
            ]
            patches.append(patch)
        fields.put(spec, _OVERRIDES, overrides)
        fields.put(spec, _PATCHES, patches)


def _steps(before: TrainJob, after: TrainJob) -> Sequence[Step]:
    patch = merge_patch(before.object, after.object)
    # Also where the last override goes, which replaces no list: somebody may add one meanwhile.
    versioned = not fields.mapping(patch, "spec").keys() <= {"suspend"}
    return (guarded(patch, before.object, versioned=versioned),) if patch else ()


def _given(slot: Slot, placement: Placement) -> Object:
    """Return what a start gives to a pod set, as a template."""
    spec: Object = {}
    fields.put(spec, "nodeSelector", dict(placement.node_selector))
    if placement.tolerations:
        spec["tolerations"] = fields.objects(slot.template, "spec", "tolerations")
    fields.put(spec, "schedulingGates", [{"name": each} for each in placement.gates])
    labels, annotations = dict(placement.labels), dict(placement.annotations)
    return {
        "metadata": {"labels": labels, "annotations": annotations},
        **({"spec": spec} if spec else {}),
    }
