"""The workload of a job: its name, its priority, and the object to be created."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from extender.api import wellknown
from extender.api.values import value_taken
from extender.api.wellknown import ADMISSION_GATED_BY, PRIORITY_TAKEN
from extender.jobs import fields, topology
from extender.jobs.context import Context
from extender.jobs.fields import Object
from extender.jobs.job import GenericJob
from extender.jobs.pod_sets import JobPodSet
from extender.jobs.templates import plain

_ATTEMPTS: Final = 100
"""Names that are tried at most; to take them all one has to know the UID of the job."""

Source = tuple[str, str, str]
"""Group, kind and name of the class that a priority comes from."""


class PriorityClassNotFoundError(LookupError):
    """A class that a job names is not there."""


@dataclass(frozen=True, slots=True)
class Priority:
    """A workload's priority, and where it comes from."""

    value: int = 0
    source: Source | None = None

    @property
    def note(self) -> str:
        """What the workload says of the WorkloadPriorityClass, or nothing."""
        group, kind, name = self.source or ("", "", "")
        found = (group, kind) == wellknown.WORKLOAD_PRIORITY_CLASS
        return value_taken(name, self.value) if found else ""

    def as_json(self) -> Object:
        """Return the fields of a workload's spec."""
        if self.source is None:
            return {"priority": self.value}
        group, kind, name = self.source
        reference = {"group": group, "kind": kind, "name": name}
        return {"priority": self.value, "priorityClassRef": reference}


def priority_of(job: GenericJob, context: Context) -> Priority:
    """Return the priority; PriorityClassNotFoundError where the named class is not there."""
    name = fields.label(job.object, wellknown.PRIORITY_CLASS_LABEL)
    if name:
        found = context.workload_priority_classes.get(name)
        if found is None:
            raise PriorityClassNotFoundError(f"there is no WorkloadPriorityClass {name}")
        return Priority(found.value, (*wellknown.WORKLOAD_PRIORITY_CLASS, name))
    name, classes = job.priority_class(), context.priority_classes
    if name:
        pods = classes.get(name)
        if pods is None:
            raise PriorityClassNotFoundError(f"there is no PriorityClass {name}")
    else:  # of several the API server takes the lowest; pods that exist have had theirs
        defaults = [] if job.is_composed else [c for c in classes.values() if c.is_default]
        pods = min(defaults, key=lambda each: each.value, default=None)
        if pods is None:
            return Priority()
    return Priority(pods.value, (*wellknown.POD_PRIORITY_CLASS, pods.name))


def prebuilt_name(source: Object) -> str:
    """Return the name of the workload that a job brings along, or nothing."""
    wanted = wellknown.PREBUILT_LABEL
    return fields.label(source, wanted) or fields.annotation(source, wanted)


def free_name(job: GenericJob, is_taken: Callable[[str], bool]) -> str:
    """Return the first name for the workload of a job that no other Workload has.

    Another user of the namespace can create a Workload of that name before the job is there.
    """
    name, attempt = job.workload_name(), 0
    while attempt < _ATTEMPTS and is_taken(name):
        attempt += 1
        name = job.workload_name(attempt)
    return name


def build(job: GenericJob, priority: Priority, name: str = "") -> Object:
    """Return the workload to be created for a job, of that name or of its first one."""
    metadata: Object = {
        "name": name or job.workload_name(),
        "namespace": fields.text(job.object, "metadata", "namespace"),
        "finalizers": [wellknown.IN_USE_FINALIZER],
        "ownerReferences": job.owners(),
    }
    gate = job.admission_gate()
    annotations: Object = {
        **({PRIORITY_TAKEN: priority.note} if priority.note else {}),
        **({ADMISSION_GATED_BY: gate} if gate else {}),
    }
    if annotations:
        metadata["annotations"] = annotations
    if not job.is_composed:
        metadata["labels"] = {wellknown.JOB_UID_LABEL: fields.text(job.object, "metadata", "uid")}
    return {
        "apiVersion": f"{wellknown.QUEUE_GROUP}/{wellknown.QUEUE_VERSION}",
        "kind": "Workload",
        "metadata": metadata,
        "spec": spec(job, priority),
    }


def spec(job: GenericJob, priority: Priority) -> Object:
    """Return the spec of a job's workload."""
    seconds = job.max_execution()
    limit: Object = {} if seconds is None else {"maximumExecutionTimeSeconds": seconds}
    name = job.queue_name()  # a job that is managed without one has none, and waits for one
    return {
        "podSets": pod_sets_as_json(job.pod_sets()),
        **({"queueName": name} if name else {}),
        **priority.as_json(),
        **limit,
    }


def pod_sets_as_json(pod_sets: Sequence[JobPodSet]) -> list[Object]:
    """Return `spec.podSets`."""
    return [
        {
            "name": each.name,
            "count": each.count,
            **({} if each.min_count is None else {"minCount": each.min_count}),
            "template": plain(each.template),
            **({"topologyRequest": asked} if (asked := topology.request_of(each.template)) else {}),
        }
        for each in pod_sets
    ]
