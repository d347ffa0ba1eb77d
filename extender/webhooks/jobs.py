"""Jobs of a queue when they are created: held, put in the default queue, refused when wrong.

The same rules as the policies in `manifests/optional`, for API servers that cannot evaluate those,
and for kinds of jobs that others have added.

Source: the API `admission.k8s.io/v1`.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from typing_extensions import override

from extender.api import wellknown
from extender.api.wellknown import DEFAULT_QUEUE
from extender.jobs import fields
from extender.jobs.fields import Object
from extender.jobs.job import LARGEST_INT32, GenericJob
from extender.jobs.registry import Integration

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

_CODES: Final = {"Invalid": 422, "Forbidden": 403}
GroupKind = tuple[str, str]
Kinds = Mapping[GroupKind, Integration]

_MADE_BY_RAY_JOBS: Final = ("ray.io", "RayCluster")
_DNS_NAME: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_CONTROLLER: Final = re.compile(rf"(?=.{{1,63}}$){_DNS_NAME.pattern}/[^\s,]+", re.ASCII)
_LABEL: Final = "metadata.labels[{}]"
_ANNOTATION: Final = "metadata.annotations[{}]"
_SUSPEND: Final = "suspend the job in the same change"


class MalformedReviewError(ValueError):
    """The body is not an AdmissionReview."""


@dataclass(frozen=True, slots=True)
class Request:
    """An object that a client wants to create or change."""

    uid: str
    operation: str
    group: str
    kind: str
    namespace: str
    object: Object = field(default_factory=dict)
    old: Object | None = None
    """The stored object. None: the object is new."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """A field with a wrong value, and the remedy."""

    field: str
    message: str
    reason: Literal["Invalid", "Forbidden"] = "Invalid"

    @override
    def __str__(self) -> str:
        """Return the error as one line."""
        return f"{self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The response: the object is refused if there are refusals, else changed by the patch."""

    refusals: Sequence[FieldError] = ()
    patch: Sequence[Object] = ()
    """The operations of a JSON patch (RFC 6902)."""
    warnings: Sequence[str] = ()


_NOTHING: Final = Verdict()


class QueueFacts(Protocol):
    """The facts about the cluster that the rules need."""

    def has_local_queue(self, namespace: str, name: str) -> bool:
        """Return whether the LocalQueue exists."""

    def holds_all(self, namespace: str) -> bool:
        """Return whether jobs without a queue name are held in the namespace too."""


def by_kind(integrations: Iterable[Integration]) -> Kinds:
    """Return the integrations by the group and kind of their objects."""
    return {(each.group, each.kind): each for each in integrations}


def mutate(request: Request, kinds: Kinds, queues: QueueFacts) -> Verdict:
    """Return the change of a new object, which gives it a queue and makes it wait."""
    integration = kinds.get((request.group, request.kind))
    if (
        integration is None
        or request.operation != "CREATE"
        or (integration.kind != "Pod" and _is_made_by_a_job(request.object, kinds))
    ):
        return _NOTHING
    if integration.kind == "Pod":
        return Verdict(patch=_gate(request.object, integration))
    job = deepcopy(request.object)
    if not fields.label(job, wellknown.QUEUE_LABEL):
        if queues.has_local_queue(request.namespace, DEFAULT_QUEUE):
            fields.ensure(job, "metadata", "labels")[wellknown.QUEUE_LABEL] = DEFAULT_QUEUE
        elif not queues.holds_all(request.namespace):
            return _NOTHING
    integration.wrap(job).suspend()
    return Verdict(patch=_difference(request.object, job))


def validate(request: Request, kinds: Kinds, queues: QueueFacts) -> Verdict:
    """Return the problems of a new or changed job, or warnings for its owner."""
    integration = kinds.get((request.group, request.kind))
    if integration is None or request.operation not in {"CREATE", "UPDATE"}:
        return _NOTHING
    has_default = queues.has_local_queue(request.namespace, DEFAULT_QUEUE)
    refusals = _broken_rules(
        integration.wrap(deepcopy(request.object)),
        integration.wrap(deepcopy(request.old)) if request.old is not None else None,
        has_default_queue=has_default,
    )
    return Verdict(refusals, warnings=() if refusals else _warnings(request, queues))


def _warnings(request: Request, queues: QueueFacts) -> tuple[str, ...]:
    queue = fields.label(request.object, wellknown.QUEUE_LABEL)
    before = fields.label(request.old, wellknown.QUEUE_LABEL) if request.old is not None else ""
    if queue in {"", before} or queues.has_local_queue(request.namespace, queue):
        return ()
    where = f"{request.namespace}/{queue}"
    return (f"there is no LocalQueue {where}: the job waits until it is created",)


def _is_made_by_a_job(source: Object, kinds: Kinds) -> bool:
    """Return whether a job controls the object, which is then held and counted with that job."""
    for owner in fields.objects(source, "metadata", "ownerReferences"):
        group = fields.text(owner, "apiVersion").rpartition("/")[0]
        kind = (group, fields.text(owner, "kind"))
        if fields.flag(owner, "controller") and (kind in kinds or kind == _MADE_BY_RAY_JOBS):
            return True
    return False


def _gate(pod: Object, integration: Integration) -> list[Object]:
    """Return the patch that gates a plain pod of a queue, which cannot be suspended."""
    gates = fields.objects(pod, "spec", "schedulingGates")
    if (
        not fields.label(pod, wellknown.QUEUE_LABEL)
        # A pod that comes with its node is not scheduled, and may have no gates.
        or fields.text(pod, "spec", "nodeName")
        or any(fields.text(gate, "name") == wellknown.ADMISSION_GATE for gate in gates)
    ):
        return []
    held = deepcopy(pod)
    fields.ensure(held, "spec")["schedulingGates"] = [*gates, {"name": wellknown.ADMISSION_GATE}]
    job = integration.wrap(held)
    if job.skip():
        return []  # nothing would ever remove the gate
    return _difference(pod, held)


def _difference(before: Mapping[str, object], after: Object, path: str = "") -> list[Object]:
    """Return the JSON patch for what was added or replaced; nothing is removed."""
    patch: list[Object] = []
    for name, new in after.items():
        old = before.get(name)
        where = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        if isinstance(old, dict) and isinstance(new, dict):
            patch += _difference(old, new, where)
        elif old != new:
            patch.append({"op": "add", "path": where, "value": new})
    return patch


# -- the rules for the labels and annotations with which a job chooses its queue, and for changes
# A wrong value that is stored already is not refused: the job must still be deletable.


def _broken_rules(
    job: GenericJob, old: GenericJob | None, *, has_default_queue: bool
) -> tuple[FieldError, ...]:
    """Return the rules that a job breaks. `old` is None for a new job."""
    refusals = [*_values(job, old)]
    if old is not None:
        refusals += _changes(job, old)
        if has_default_queue and _queue(old) and not _queue(job):
            refusals.append(
                FieldError(
                    _LABEL.format(wellknown.QUEUE_LABEL),
                    "cannot be removed in a namespace with the LocalQueue 'default': name another "
                    "queue instead",
                    "Forbidden",
                )
            )
    return tuple(refusals)


def _values(job: GenericJob, old: GenericJob | None) -> Iterator[FieldError]:
    queue = _queue(job)
    if queue and queue != (_queue(old) if old else "") and not _DNS_NAME.fullmatch(queue):
        yield FieldError(
            _LABEL.format(wellknown.QUEUE_LABEL),
            f"{queue!r} is no name of a LocalQueue: use lower case letters, digits, '-' and '.', "
            "and begin and end with a letter or digit",
        )
    seconds = _label(job, wellknown.MAX_EXEC_TIME_LABEL)
    if (
        seconds is not None
        and seconds != (_label(old, wellknown.MAX_EXEC_TIME_LABEL) if old else None)
        and not 0 < fields.whole(seconds) <= LARGEST_INT32
    ):
        yield FieldError(
            _LABEL.format(wellknown.MAX_EXEC_TIME_LABEL),
            f"must be a whole number of seconds from 1 to {LARGEST_INT32}: correct it, or leave "
            "it out for no limit",
        )
    yield from _gates(job, old)
    if _is_batch_job(job):
        yield from _partial(job, old)


def _gates(job: GenericJob, old: GenericJob | None) -> Iterator[FieldError]:
    """Yield the problems of admission gates, which a job may only lose (KEP-6915 of Kueue)."""
    said = fields.strings(job.object, "metadata", "annotations").get(wellknown.ADMISSION_GATED_BY)
    before = _before(old, wellknown.ADMISSION_GATED_BY)
    if said is None or (old is not None and said in {"", before}):
        return
    where = _ANNOTATION.format(wellknown.ADMISSION_GATED_BY)
    names = [each.strip() for each in said.split(",")]
    if old is not None and not set(names) <= {each.strip() for each in before.split(",")}:
        message = "can only lose controllers once the job is created: remove those that are new"
        yield FieldError(where, message, "Forbidden")
    elif len(set(names)) < len(names) or not all(map(_CONTROLLER.fullmatch, names)):
        yield FieldError(
            where,
            "must be names of controllers such as example.com/name, of 63 characters at most, each "
            "once and separated by commas: correct it, or leave it out",
        )


def _partial(job: GenericJob, old: GenericJob | None) -> Iterator[FieldError]:
    """Yield the problems of the annotations for fewer pods, which only Jobs have."""
    parallelism = _parallelism(job)
    completions = fields.number(job.object, "spec", "completions")
    least = fields.annotation(job.object, wellknown.MIN_PARALLELISM_ANNOTATION)
    most = parallelism if completions is None else min(parallelism, completions)
    if (
        least
        and least != _before(old, wellknown.MIN_PARALLELISM_ANNOTATION)
        and not 0 < fields.whole(least) < most
    ):
        yield FieldError(
            _ANNOTATION.format(wellknown.MIN_PARALLELISM_ANNOTATION),
            "must be a whole number above 0 and below both spec.parallelism and spec.completions: "
            "correct it, or leave it out",
        )
    synced = fields.annotation(job.object, wellknown.COMPLETIONS_EQUAL_PARALLELISM)
    can = (
        fields.text(job.object, "spec", "completionMode") == "Indexed"
        and completions == parallelism
    )
    if (
        synced not in {"", "false", _before(old, wellknown.COMPLETIONS_EQUAL_PARALLELISM)}
        and not (synced == "true" and can)
    ):  # fmt: skip
        yield FieldError(
            _ANNOTATION.format(wellknown.COMPLETIONS_EQUAL_PARALLELISM),
            "must be 'true' or 'false', and 'true' needs spec.completionMode: Indexed and "
            "spec.completions equal to spec.parallelism",
        )


def _changes(job: GenericJob, old: GenericJob) -> Iterator[FieldError]:
    runs = not job.is_suspended()
    if runs and _queue(job) != _queue(old):
        message = f"cannot become {_queue(job)!r} while the job is not suspended: {_SUSPEND}"
        yield FieldError(_LABEL.format(wellknown.QUEUE_LABEL), message, "Forbidden")
    if runs and _label(job, wellknown.PREBUILT_LABEL) != _label(old, wellknown.PREBUILT_LABEL):
        message = f"cannot change while the job is not suspended: {_SUSPEND}"
        yield FieldError(_LABEL.format(wellknown.PREBUILT_LABEL), message, "Forbidden")
    yield from _class_changes(job, old)
    if (runs or not old.is_suspended()) and (
        _label(job, wellknown.MAX_EXEC_TIME_LABEL) != _label(old, wellknown.MAX_EXEC_TIME_LABEL)
    ):
        message = "cannot change unless the job is suspended before and after: suspend it first"
        yield FieldError(_LABEL.format(wellknown.MAX_EXEC_TIME_LABEL), message, "Forbidden")
    if (
        _is_batch_job(job)
        and runs
        and not old.is_suspended()
        and _before(old, wellknown.MIN_PARALLELISM_ANNOTATION)
        and _parallelism(job) != _parallelism(old)
    ):
        message = (
            f"cannot change while a job with the annotation "
            f"{wellknown.MIN_PARALLELISM_ANNOTATION} runs: {_SUSPEND}"
        )
        yield FieldError("spec.parallelism", message, "Forbidden")


def _class_changes(job: GenericJob, old: GenericJob) -> Iterator[FieldError]:
    """Yield the problems of a change of class: another class is allowed at any time."""
    now, before = (
        _label(job, wellknown.PRIORITY_CLASS_LABEL),
        _label(old, wellknown.PRIORITY_CLASS_LABEL),
    )
    where = _LABEL.format(wellknown.PRIORITY_CLASS_LABEL)
    if before is not None and now is None:
        message = "cannot be removed once it is set: name another WorkloadPriorityClass instead"
        yield FieldError(where, message, "Forbidden")
    if before is None and now is not None and not job.is_suspended():
        message = f"cannot be added while the job is not suspended: {_SUSPEND}"
        yield FieldError(where, message, "Forbidden")


def _label(job: GenericJob, name: str) -> str | None:
    return fields.strings(job.object, "metadata", "labels").get(name)


def _queue(job: GenericJob) -> str:
    return fields.label(job.object, wellknown.QUEUE_LABEL)


def _before(old: GenericJob | None, annotation: str) -> str:
    return fields.annotation(old.object, annotation) if old else ""


def _is_batch_job(job: GenericJob) -> bool:
    return job.object.get("kind") == "Job" and job.object.get("apiVersion") == "batch/v1"


def _parallelism(job: GenericJob) -> int:
    return fields.count(job.object, "spec", "parallelism", default=1)


# -- requests of the API server, and responses


def read(review: Mapping[str, object]) -> Request:
    """Return the request of a review. Raises MalformedReviewError."""
    asked = fields.mapping(review, "request")
    uid, operation = fields.text(asked, "uid"), fields.text(asked, "operation")
    if review.get("apiVersion") != API_VERSION or review.get("kind") != KIND:
        raise MalformedReviewError(f"should be an {KIND} of {API_VERSION}")
    if not uid or not operation:
        raise MalformedReviewError("request.uid and request.operation should be there")
    old = fields.mapping(asked, "oldObject")
    return Request(
        uid,
        operation,
        fields.text(asked, "kind", "group"),
        fields.text(asked, "kind", "kind"),
        fields.text(asked, "namespace"),
        dict(fields.mapping(asked, "object")),
        dict(old) or None,
    )


def answer(request: Request, verdict: Verdict) -> Object:
    """Return the review that goes back."""
    response: Object = {"uid": request.uid, "allowed": not verdict.refusals}
    if verdict.refusals:
        reason = verdict.refusals[0].reason
        response["status"] = {
            "code": _CODES[reason],
            "reason": reason,
            "message": "; ".join(map(str, verdict.refusals)),
        }
    elif verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(list(verdict.patch)).encode()).decode()
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}
