"""The workload of a job: its name, its priority, and the object to be created."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Final

from extender.api.class_values import value_taken
from extender.api.wellknown import PRIORITY_TAKEN
from extender.jobs import fields, names
from extender.jobs.context import Context
from extender.jobs.equivalence import max_execution
from extender.jobs.fields import Object
from extender.jobs.generic_job import GenericJob, PodSet, is_composed
from extender.jobs.templates import plain

_LONGEST_NAME: Final = 253
_HASH_LENGTH: Final = 5
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
        found = (group, kind) == names.WORKLOAD_PRIORITY_CLASS
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
    name = fields.label(job.object, names.PRIORITY_CLASS)
    if name:
        found = context.workload_priority_classes.get(name)
        if found is None:
            raise PriorityClassNotFoundError(f"there is no WorkloadPriorityClass {name}")
        return Priority(found.value, (*names.WORKLOAD_PRIORITY_CLASS, name))
    name = job.priority_class()
    if not name:
        return Priority()
    pods = context.priority_classes.get(name)
    if pods is None:
        raise PriorityClassNotFoundError(f"there is no PriorityClass {name}")
    return Priority(pods.value, (*names.POD_PRIORITY_CLASS, name))


def prebuilt_name(source: Object) -> str:
    """Return the name of the workload that a job brings along, or nothing."""
    wanted = names.PREBUILT_WORKLOAD
    return fields.label(source, wanted) or fields.annotation(source, wanted)


def workload_name(source: Object, attempt: int = 0) -> str:
    """Return the name of the workload of a job, which it has for all its life.

    A further `attempt` gives another name, for where one is taken by a Workload of something else.
    """
    group = fields.text(source, "apiVersion").rpartition("/")[0]
    kind = fields.text(source, "kind")
    name, uid = (fields.text(source, "metadata", each) for each in ("name", "uid"))
    told = "\n".join((kind, group, name, uid, *([str(attempt)] if attempt else [])))
    suffix = sha1(told.encode(), usedforsecurity=False).hexdigest()[:_HASH_LENGTH]
    prefix = f"{kind.lower()}-{name}"[: _LONGEST_NAME - _HASH_LENGTH - 1]
    return f"{prefix}-{suffix}"


def free_name(job: GenericJob, is_taken: Callable[[str], bool]) -> str:
    """Return the first name for the workload of a job that no other Workload has.

    Anybody who may create Workloads in the namespace can take a name before the job is there.
    """
    name, attempt = _first_name(job), 0
    while attempt < _ATTEMPTS and is_taken(name):
        attempt += 1
        name = workload_name(job.object, attempt)
    return name


def _first_name(job: GenericJob) -> str:
    return job.workload_name() if is_composed(job) else workload_name(job.object)


def build(job: GenericJob, priority: Priority, name: str = "") -> Object:
    """Return the workload to be created for a job, of that name or of its first one."""
    composed = is_composed(job)
    metadata: Object = {
        "name": name or _first_name(job),
        "namespace": fields.text(job.object, "metadata", "namespace"),
        "finalizers": [names.RESOURCE_IN_USE],
        "ownerReferences": owners(job),
    }
    if priority.note:
        metadata["annotations"] = {PRIORITY_TAKEN: priority.note}
    if not composed:
        metadata["labels"] = {names.JOB_UID: fields.text(job.object, "metadata", "uid")}
    return {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": "Workload",
        "metadata": metadata,
        "spec": spec(job, priority),
    }


def spec(job: GenericJob, priority: Priority) -> Object:
    """Return the spec of a job's workload."""
    seconds = max_execution(job.object)
    limit: Object = {} if seconds is None else {"maximumExecutionTimeSeconds": seconds}
    name = job.queue_name()  # a job that is managed without one has none, and waits for one
    return {
        "podSets": pod_sets_as_json(job.pod_sets()),
        **({"queueName": name} if name else {}),
        **priority.as_json(),
        **limit,
    }


def pod_sets_as_json(pod_sets: Sequence[PodSet]) -> list[Object]:
    """Return `spec.podSets`."""
    return [
        {
            "name": each.name,
            "count": each.count,
            **({} if each.min_count is None else {"minCount": each.min_count}),
            "template": plain(each.template),
        }
        for each in pod_sets
    ]


def owners(job: GenericJob) -> list[Object]:
    """Return the owner references of a job's workload; of several owners none controls it."""
    if is_composed(job):
        return job.owners()
    return [{**_owner(job.object), "controller": True, "blockOwnerDeletion": True}]


def _owner(source: Object) -> Object:
    return {
        "apiVersion": fields.text(source, "apiVersion"),
        "kind": fields.text(source, "kind"),
        "name": fields.text(source, "metadata", "name"),
        "uid": fields.text(source, "metadata", "uid"),
    }
