"""The base class of every kind of job (KEP-369, GenericJob), its pod sets, and its writes.

A job wraps one object as the API server has it, or several of them. It has no client and no clock:
a method sees the wrapped object, and a method that changes something changes only that object.
Starts and stops are steps: merge patches (RFC 7386) and deletions.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import sha1
from typing import ClassVar, Final, Self

import msgspec
from typing_extensions import override

from extender.api import wellknown
from extender.api.values import LONGEST_NAME
from extender.api.wellknown import STOPPED_ANNOTATION
from extender.jobs import fields, templates
from extender.jobs.fields import Object
from extender.jobs.templates import Placement
from extender.state.queue.records import PodSetInfo, WorkloadInfo


@dataclass(frozen=True, slots=True)
class Step:
    """One write of a start or a stop.

    `patch` is a merge patch; for a deletion it is the body of the DELETE. The UID in it is a
    precondition, and so is the resourceVersion where there is one.
    """

    patch: Object
    subresource: str = ""
    member: str = ""
    """The name of the object, for a composed job."""
    delete: bool = False


@dataclass(frozen=True, slots=True)
class ChildChange:
    """A suspended child Job that is to follow the template of its owner."""

    name: str
    before: Object
    """The parts of its template that an earlier start wrote."""
    after: Object
    """The owner's template as it is started."""
    owner: str = ""
    """The UID of its owner, where that is not the job itself."""


def guarded(
    patch: Object, source: Object, *, subresource: str = "", versioned: bool = False
) -> Step:
    """Return a write to this very object; one that replaces a list, to this very version of it.

    Any write is to this version if it is to be `versioned`.
    """
    mine = ["uid", *(["resourceVersion"] if versioned or replaces_list(patch) else [])]
    known = {name: fields.text(source, "metadata", name) for name in mine}
    precondition = {name: text for name, text in known.items() if text}
    metadata = {**fields.mapping(patch, "metadata"), **precondition}
    return Step({**patch, "metadata": metadata}, subresource)


def merge_patch(before: Object, after: Object) -> Object:
    """Return the patch that makes `after` of `before`; empty where they are equal.

    A list is replaced as a whole. A null in `after` counts as a field that is not there.
    """
    patch: Object = {
        name: None for name, old in before.items() if old is not None and after.get(name) is None
    }
    for name, new in after.items():
        old = before.get(name)
        if new is None or new is old or new == old:
            continue
        if isinstance(new, dict):
            # Also where nothing was there: a null inside would mean a field to take away.
            inner = merge_patch(old if isinstance(old, dict) else {}, new)
            if inner or not isinstance(old, dict):
                patch[name] = inner
        else:
            patch[name] = deepcopy(new)
    return patch


def replaces_list(patch: object) -> bool:
    """Return whether a patch replaces a list as a whole."""
    if isinstance(patch, dict):
        return any(map(replaces_list, patch.values()))
    return isinstance(patch, list)


_decode = msgspec.json.Decoder(dict[str, object]).decode


@dataclass(frozen=True, slots=True)
class Slot:
    """A pod set of a job: equal pods, and their template, itself and not a copy."""

    name: str
    count: int
    template: Object = field(repr=False)
    min_count: int | None = None
    """The smallest number of pods that the job can start with; None is all of them."""
    counted: Object | None = field(default=None, repr=False)
    """The template with the containers that the kind's controller adds; None where it adds none."""

    def asked(self) -> "Slot":
        """Return the pod set that needs quota; it shares its template with the job."""
        template = self.template if self.counted is None else self.counted
        return Slot(self.name, self.count, template, self.min_count)


def template_of(pod_set: PodSetInfo) -> Object:
    """Return the pod template of a workload's pod set; an empty one where it cannot be read."""
    try:
        return _decode(pod_set.template) if pod_set.template else {}
    except (msgspec.MsgspecError, RecursionError):
        return {}


def pod_sets_of(workload: WorkloadInfo) -> list[Slot]:
    """Return the pod sets of a workload: a job's as they were before it was started."""
    return [
        Slot(each.name, each.count, template_of(each), each.min_count) for each in workload.pod_sets
    ]


def pod_sets_agree(slots: Sequence[Slot], workload: WorkloadInfo, *, exact: bool = False) -> bool:
    """Return whether a job's templates are those of a workload.

    Where it is not to be `exact`, they may have got scheduling directives since, and the count may
    be that for which quota was reserved. What was given is not compared with what the flavors would
    give now: a flavor that is edited stops no job that runs in it.
    """
    if len(slots) != len(workload.pod_sets):
        return False
    given = workload.admission.assignments if workload.admission is not None else ()
    counts = {(each.name, each.count) for each in workload.pod_sets}
    counts |= {(each.name, each.count) for each in given if not exact}
    for slot, stored in zip(slots, workload.pod_sets, strict=True):
        if slot.name != stored.name or (slot.name, slot.count) not in counts:
            return False
        if exact and slot.min_count != stored.min_count:
            return False
        agrees = templates.same if exact else templates.extends
        if not agrees(slot.template, template_of(stored)):
            return False
    return True


LARGEST_INT32: Final = 2**31 - 1
"""The largest number that most fields of the API can hold."""


def split_gates(annotation: str) -> list[str]:
    """Return the controllers that an annotation `kueue.x-k8s.io/admission-gated-by` names."""
    return [name for each in annotation.split(",") if (name := each.strip())]


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a job."""

    success: bool
    message: str = ""


class GenericJob(ABC):
    """A job of any kind.

    A kind implements the four abstract methods and sets the class variables. Every other method has
    a default, which a kind overrides where it differs.
    """

    integration: ClassVar[str]
    """The name of the kind in settings, such as `batch/job`."""
    kind: ClassVar[str]
    group: ClassVar[str]
    version: ClassVar[str]
    plural: ClassVar[str]

    suspend_path: ClassVar[tuple[str, ...]] = ("spec", "suspend")
    is_composed: ClassVar[bool] = False
    """True if several objects are one job with one workload (ComposableJob in Kueue)."""
    serves: ClassVar[bool] = False
    """True if it has no end, and its pods follow its Workload (`services.py`)."""
    pods_outlive_job: ClassVar[bool] = False
    """True if pods may run on when the job has ended. It keeps its quota until they are gone."""
    child_kind: ClassVar["type[GenericJob] | None"] = None
    """The kind of the one object, named like the job, that its controller makes, starts and stops.
    A kind whose own objects do not say which pods they get is read from both."""

    child: Object | None = None
    """The object of the `child_kind`, None where there is none."""

    def __init__(self, source: Object) -> None:
        self._object = source

    @property
    def object(self) -> Object:
        """The wrapped object. For a composed job, the object that Events are about."""
        return self._object

    # -- what each kind implements

    @abstractmethod
    def slots(self) -> list[Slot]:
        """Return the pod templates in the order of the pod sets."""

    @abstractmethod
    def finished(self) -> Finished | None:
        """Return how the job ended, or None while it has not ended."""

    @abstractmethod
    def pods_ready(self) -> bool:
        """Return whether all pods that should run now are ready."""

    @abstractmethod
    def is_active(self) -> bool:
        """Return whether pods still run. The job keeps its quota that long."""

    # -- the rest of GenericJob

    def is_suspended(self) -> bool:
        """Return whether the job is suspended."""
        return fields.flag(self._object, *self.suspend_path)

    def suspend(self) -> None:
        """Suspend the job."""
        *path, last = self.suspend_path
        fields.ensure(self._object, *path)[last] = True

    def unsuspend(self) -> None:
        """Unsuspend the job."""
        *path, last = self.suspend_path
        fields.ensure(self._object, *path)[last] = False

    def inject_node_selectors(self, placements: Sequence[Placement]) -> None:
        """Write the placements into the templates; PlacementError where a template conflicts."""
        by_name = {each.name: each for each in placements}
        for slot in self.slots():
            if slot.name not in by_name:
                raise templates.PlacementError(f"pod set {slot.name} is given no place")
            templates.inject(slot.template, by_name[slot.name])

    def restore_node_selectors(self, pod_sets: Sequence[Slot]) -> None:
        """Undo the injection: `pod_sets` has the templates as they were before it."""
        by_name = {each.name: each for each in pod_sets}
        for slot in self.slots():
            if slot.name in by_name:
                templates.restore(slot.template, by_name[slot.name].template)

    def pod_sets(self) -> list[Slot]:
        """Return the pods that the job asks for."""
        return [deepcopy(slot.asked()) for slot in self.slots()]

    def equivalent_to_workload(self, workload: WorkloadInfo) -> bool:
        """Return whether the workload asks for what the job asks for, before or after injection.

        With quota it is as the job was when it got that: metadata can change and stops nothing.
        """
        exact = self.is_suspended() and workload.admission is None
        if exact and self.max_execution() != workload.max_execution:
            return False
        asked = [slot.asked() for slot in self.slots()]
        return pod_sets_agree(asked, workload, exact=exact)

    def priority_class(self) -> str:
        """Return the first PriorityClass that a pod template names, or an empty text.

        JobWithPriorityClass in Kueue.
        """
        found = (fields.text(s.template, "spec", "priorityClassName") for s in self.slots())
        return next(filter(None, found), "")

    def queue_name(self) -> str:
        """Return the name of the LocalQueue, or an empty text."""
        return fields.label(self.object, wellknown.QUEUE_LABEL)

    def admission_gate(self) -> str:
        """Return the controllers that hold the job back from its queue, separated by commas."""
        return fields.annotation(self.object, wellknown.ADMISSION_GATED_BY).strip()

    def ignore_from_queueing(self) -> bool:
        """Return whether the job names no queue."""
        return not self.queue_name()

    def max_execution(self) -> int | None:
        """Return for how many seconds the job may run, as its label says; None is without limit.

        A label counts only if it is a whole number above zero that a workload can hold.
        """
        seconds = fields.whole(fields.label(self.object, wellknown.MAX_EXEC_TIME_LABEL))
        return seconds if 0 < seconds <= LARGEST_INT32 else None

    # -- what some kinds override

    def skip(self) -> bool:
        """Return whether the job is not to be touched (JobWithSkip in Kueue)."""
        return False

    def is_idle(self) -> bool:
        """Return whether it is to have no pods now, and needs no workload."""
        return False

    def reclaimable_pods(self) -> Mapping[str, int] | None:
        """Return by pod set how many pods are done and are not replaced, without zeros.

        None where the kind does not know. JobWithReclaimablePods in Kueue (KEP-78).
        """
        return None

    def done_pods(self) -> Mapping[str, int]:
        """Return by pod set how many pods a start does not make any more, without zeros.

        They may keep their quota.
        """
        return {}

    def terminating_pods(self) -> Mapping[str, int]:
        """Return by pod set how many pods are being deleted and have not ended."""
        return {}

    def pods_done(self) -> int:
        """Return how many pods are done for good, where other pods follow them."""
        return 0

    def pods_ready_since(self, done: int) -> bool:
        """Return whether each pod was ready at some time since `done` pods were done."""
        return self.pods_ready()

    def late_pod_sets(self) -> Collection[str]:
        """Return the pod sets whose pods are made only when others run; no gang waits for them."""
        return ()

    def last_pods(self) -> int:
        """Return how many pods its controller makes when it is deleted, after the others."""
        return 0

    def makes(self, kind: str, name: str) -> bool:
        """Return whether the controller of this kind makes an object of a kind and name.

        A kind that does not know its children returns True: their owner references count.
        """
        return True

    # -- start, stop and end

    def start_steps(self, placements: Sequence[Placement]) -> Sequence[Step]:
        """Return the writes that start the job; PlacementError as in `inject_node_selectors`."""
        changed = deepcopy(self)
        changed.inject_node_selectors(placements)
        changed.unsuspend()
        return self._steps_to(changed)

    def stop_steps(self, pod_sets: Sequence[Slot] | None) -> Sequence[Step]:
        """Return the writes that are left to stop the job (JobWithCustomStop in Kueue).

        Without `pod_sets` the templates are not restored.
        """
        changed = deepcopy(self)
        changed.suspend()
        if pod_sets is not None:
            changed.restore_node_selectors(pod_sets)
        return self._steps_to(changed)

    def stop_message(self, why: str) -> str:
        """Return what the Event says of a stop and its cause."""
        return why

    def child_changes(self, placements: Sequence[Placement]) -> Sequence[ChildChange]:
        """Return the child Jobs that a start brings in line with the templates before it."""
        del placements
        return ()

    def stop_mark(self, pod_sets: Sequence[Slot] | None) -> str:
        """Return what a stop writes into an annotation of the job, or an empty text."""
        del pod_sets
        return ""

    def is_stopping(self) -> bool:
        """Return whether a stop has begun and not ended."""
        return False

    def has_stopped(self) -> bool:
        """Return whether the kind's controller is known to have noticed the last stop."""
        return True

    def finalize_steps(self) -> Sequence[Step]:
        """Return the writes that tidy up after the job has ended (JobWithFinalize in Kueue)."""
        return ()

    # -- composed jobs (ComposableJob in Kueue)

    def owners(self) -> list[Object]:
        """Return the owner references of the workload; of several owners none controls it."""
        return [{**self._owner(), "controller": True, "blockOwnerDeletion": True}]

    def workload_name(self, attempt: int = 0) -> str:
        """Return the name of the job's workload, which stays the same for the life of the job.

        A further `attempt` returns another name, for where something else has the first one.
        """
        owner = self._owner()
        group = str(owner["apiVersion"]).rpartition("/")[0]
        kind, name = str(owner["kind"]), str(owner["name"])
        parts = [kind, group, name, str(owner["uid"]), *([str(attempt)] if attempt else [])]
        hashed = sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()
        prefix = f"{kind.lower()}-{name}"[: LONGEST_NAME - templates.HASH_LENGTH - 1]
        return f"{prefix}-{hashed[: templates.HASH_LENGTH]}"

    def lasting(self) -> Collection[str]:
        """Return the UIDs of the objects that will stay for a while."""
        return ()

    def succeeded(self) -> Sequence[tuple[str, str]]:
        """Return UID and pod set of the objects that have succeeded and still exist."""
        return ()

    def remember(self, done: Mapping[str, int], pods: int = 0) -> None:
        """Set how many pods of each pod set have succeeded, including those that are deleted.

        `pods` is how many the job has quota for: edits of its objects do not change that.
        """
        del done, pods

    def problem(self) -> str:
        """Return why no workload can ever be made for the objects, or an empty text."""
        return ""

    def incomplete(self) -> str:
        """Return why no workload can be made for the objects yet, or an empty text."""
        return ""

    def tidy_steps(self) -> Sequence[Step]:
        """Return the deletions of surplus objects."""
        return ()

    # -- for the kinds

    def ended_by(self, *, succeeded: str, failed: str) -> Finished | None:
        """Return how the job ended, for kinds with one condition for each of the two ends."""
        for kind, success in ((succeeded, True), (failed, False)):
            found = fields.condition(self._object, kind)
            if found is not None:
                return Finished(success, fields.text(found, "message"))
        return None

    def _steps_to(self, changed: Self) -> Sequence[Step]:
        """Return the one write that makes this job what `changed` is; none where they are equal."""
        patch = merge_patch(self.object, changed.object)
        return (guarded(patch, self.object),) if patch else ()

    def _owner(self) -> Object:
        return {
            "apiVersion": fields.text(self.object, "apiVersion"),
            "kind": fields.text(self.object, "kind"),
            "name": fields.text(self.object, "metadata", "name"),
            "uid": fields.text(self.object, "metadata", "uid"),
        }


class _Mark(msgspec.Struct):
    """A stop of ours."""

    active: bool = False
    """True if the status counted pods or child Jobs when the stop was written."""
    given: dict[str, Object] = {}
    """The scheduling directives that the last start gave to the pods, by pod set."""


class OperatedJob(GenericJob):
    """A job of another project."""

    resumes_as_made: ClassVar[bool] = False
    """True if the operator resumes a child Job with the template that it was made with. Otherwise
    it adds what the owner's template has, and takes nothing away."""
    forgets_after: ClassVar[float] = 0.0
    """The seconds after a stop for which the operator waits for pods that it has made and not seen.
    A job that is started before gets its pods minutes later."""

    @abstractmethod
    def notices_stop(self) -> bool:
        """Return whether the status says that the operator has seen the job suspended."""

    def child_jobs(self) -> Iterable[tuple[str, str]]:
        """Yield the pod set and the name of each child Job that stays while the job is stopped."""
        return ()

    @override
    def has_stopped(self) -> bool:
        return self._mark() is None or (self.notices_stop() and not self.is_active())

    @override
    def unsuspend(self) -> None:
        """Unsuspend the job, and take away the mark of a stop."""
        super().unsuspend()
        if self._mark() is not None:
            del fields.ensure(self.object, "metadata", "annotations")[STOPPED_ANNOTATION]

    @override
    def child_changes(self, placements: Sequence[Placement]) -> Sequence[ChildChange]:
        changed, given = deepcopy(self), self.given()
        changed.inject_node_selectors(placements)
        after = {slot.name: slot.template for slot in changed.slots()}
        stale = {
            name
            for name, template in after.items()
            if self.resumes_as_made or templates.added(given.get(name, {}), template)
        }
        return [
            ChildChange(name, given.get(pod_set, {}), after[pod_set])
            for pod_set, name in (self.child_jobs() if stale else ())
            if pod_set in stale
        ]

    @override
    def stop_mark(self, pod_sets: Sequence[Slot] | None) -> str:
        before = {each.name: each.template for each in pod_sets or ()}
        given = {
            slot.name: found
            for slot in self.slots()
            if (found := templates.added(slot.template, before.get(slot.name, slot.template)))
        }
        return msgspec.json.encode(_Mark(self.is_active(), given)).decode()

    def given(self) -> Mapping[str, Object]:
        """Return the directives that the start before the last stop gave, by pod set."""
        return (self._mark() or _Mark()).given

    def was_active(self) -> bool:
        """Return whether the status counted pods or child Jobs when the job was stopped."""
        return (self._mark() or _Mark()).active

    def stopped_early(self) -> bool:
        """Return whether the job was stopped before its status counted pods or child Jobs.

        The operator may be about to make them, and its status does not say so.
        """
        mark = self._mark()
        return mark is not None and not mark.active

    def _mark(self) -> _Mark | None:
        said = fields.annotation(self.object, STOPPED_ANNOTATION)
        try:
            return msgspec.json.decode(said, type=_Mark) if said else None
        except msgspec.MsgspecError:
            return _Mark()
