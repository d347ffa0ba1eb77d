"""The rules for what a job says about its queue, and for changes of that.

A wrong value that was there before is not refused: such a job must still be deletable.
"""

import re
from collections.abc import Iterator
from typing import Final

from extender.api import wellknown
from extender.jobs import fields
from extender.jobs.job import GenericJob
from extender.webhooks.reviews import FieldError

_DNS_NAME: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_CONTROLLER: Final = re.compile(rf"(?=.{{1,63}}$){_DNS_NAME.pattern}/[^\s,]+", re.ASCII)
_LABEL: Final = "metadata.labels[{}]"
_ANNOTATION: Final = "metadata.annotations[{}]"
_LONGEST_SECONDS: Final = 2**31 - 1
_SUSPEND: Final = "suspend the job in the same change"


def broken(
    job: GenericJob, old: GenericJob | None, *, has_default_queue: bool
) -> tuple[FieldError, ...]:
    """Return which rules a job breaks; `old` is None where it is new."""
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
        and not 0 < fields.whole(seconds) <= _LONGEST_SECONDS
    ):
        yield FieldError(
            _LABEL.format(wellknown.MAX_EXEC_TIME_LABEL),
            f"must be a whole number of seconds from 1 to {_LONGEST_SECONDS}: correct it, or leave "
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
