"""What a job may say about its queue, and when it may say something else.

A value that was there before is let be: an object with a bad one must still be ended.
"""

import re
from collections.abc import Iterator
from typing import Final

from extender.jobs import fields, names
from extender.jobs.generic_job import GenericJob
from extender.webhooks.reviews import Refusal

_DNS_NAME: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_LABEL: Final = "metadata.labels[{}]"
_ANNOTATION: Final = "metadata.annotations[{}]"
_LONGEST_SECONDS: Final = 2**31 - 1
_SUSPEND: Final = "suspend the job in the same change"


def broken(
    job: GenericJob, old: GenericJob | None, *, has_default_queue: bool
) -> tuple[Refusal, ...]:
    """Return which rules a job breaks; `old` is None where it is new."""
    refusals = [*_values(job, old)]
    if old is not None:
        refusals += _changes(job, old)
        if has_default_queue and _queue(old) and not _queue(job):
            refusals.append(
                Refusal(
                    _LABEL.format(names.QUEUE_NAME),
                    "cannot be removed in a namespace with the LocalQueue 'default': name another "
                    "queue instead",
                    "Forbidden",
                )
            )
    return tuple(refusals)


def _values(job: GenericJob, old: GenericJob | None) -> Iterator[Refusal]:
    queue = _queue(job)
    if queue and queue != (_queue(old) if old else "") and not _DNS_NAME.fullmatch(queue):
        yield Refusal(
            _LABEL.format(names.QUEUE_NAME),
            f"{queue!r} is no name of a LocalQueue: use lower case letters, digits, '-' and '.', "
            "and begin and end with a letter or digit",
        )
    seconds = _label(job, names.MAX_EXEC_TIME)
    if (
        seconds is not None
        and seconds != (_label(old, names.MAX_EXEC_TIME) if old else None)
        and not 0 < fields.whole(seconds) <= _LONGEST_SECONDS
    ):
        yield Refusal(
            _LABEL.format(names.MAX_EXEC_TIME),
            f"must be a whole number of seconds from 1 to {_LONGEST_SECONDS}: correct it, or leave "
            "it out for no limit",
        )
    if _is_batch_job(job):
        yield from _partial(job, old)


def _partial(job: GenericJob, old: GenericJob | None) -> Iterator[Refusal]:
    """Yield what is wrong with the annotations for fewer pods, which only Jobs have."""
    parallelism = _parallelism(job)
    completions = fields.number(job.object, "spec", "completions")
    least = fields.annotation(job.object, names.MIN_PARALLELISM)
    most = parallelism if completions is None else min(parallelism, completions)
    if (
        least
        and least != _before(old, names.MIN_PARALLELISM)
        and not 0 < fields.whole(least) < most
    ):
        yield Refusal(
            _ANNOTATION.format(names.MIN_PARALLELISM),
            "must be a whole number above 0 and below both spec.parallelism and spec.completions: "
            "correct it, or leave it out",
        )
    synced = fields.annotation(job.object, names.COMPLETIONS_EQUAL_PARALLELISM)
    can = (
        fields.text(job.object, "spec", "completionMode") == "Indexed"
        and completions == parallelism
    )
    if (
        synced not in {"", "false", _before(old, names.COMPLETIONS_EQUAL_PARALLELISM)}
        and not (synced == "true" and can)
    ):  # fmt: skip
        yield Refusal(
            _ANNOTATION.format(names.COMPLETIONS_EQUAL_PARALLELISM),
            "must be 'true' or 'false', and 'true' needs spec.completionMode: Indexed and "
            "spec.completions equal to spec.parallelism",
        )


def _changes(job: GenericJob, old: GenericJob) -> Iterator[Refusal]:
    runs = not job.is_suspended()
    if runs and _queue(job) != _queue(old):
        message = f"cannot become {_queue(job)!r} while the job is not suspended: {_SUSPEND}"
        yield Refusal(_LABEL.format(names.QUEUE_NAME), message, "Forbidden")
    if runs and _label(job, names.PREBUILT_WORKLOAD) != _label(old, names.PREBUILT_WORKLOAD):
        message = f"cannot change while the job is not suspended: {_SUSPEND}"
        yield Refusal(_LABEL.format(names.PREBUILT_WORKLOAD), message, "Forbidden")
    yield from _class_changes(job, old)
    if (runs or not old.is_suspended()) and (
        _label(job, names.MAX_EXEC_TIME) != _label(old, names.MAX_EXEC_TIME)
    ):
        message = "cannot change unless the job is suspended before and after: suspend it first"
        yield Refusal(_LABEL.format(names.MAX_EXEC_TIME), message, "Forbidden")
    if (
        _is_batch_job(job)
        and runs
        and not old.is_suspended()
        and _before(old, names.MIN_PARALLELISM)
        and _parallelism(job) != _parallelism(old)
    ):
        message = (
            f"cannot change while a job with the annotation {names.MIN_PARALLELISM} runs: "
            f"{_SUSPEND}"
        )
        yield Refusal("spec.parallelism", message, "Forbidden")


def _class_changes(job: GenericJob, old: GenericJob) -> Iterator[Refusal]:
    """Yield what is wrong with a change of class: another one is fine at any time."""
    now, before = _label(job, names.PRIORITY_CLASS), _label(old, names.PRIORITY_CLASS)
    where = _LABEL.format(names.PRIORITY_CLASS)
    if before is not None and now is None:
        message = "cannot be removed once it is set: name another WorkloadPriorityClass instead"
        yield Refusal(where, message, "Forbidden")
    if before is None and now is not None and not job.is_suspended():
        message = f"cannot be added while the job is not suspended: {_SUSPEND}"
        yield Refusal(where, message, "Forbidden")


def _label(job: GenericJob, name: str) -> str | None:
    return fields.strings(job.object, "metadata", "labels").get(name)


def _queue(job: GenericJob) -> str:
    return fields.label(job.object, names.QUEUE_NAME)


def _before(old: GenericJob | None, annotation: str) -> str:
    return fields.annotation(old.object, annotation) if old else ""


def _is_batch_job(job: GenericJob) -> bool:
    return job.object.get("kind") == "Job" and job.object.get("apiVersion") == "batch/v1"


def _parallelism(job: GenericJob) -> int:
    return fields.count(job.object, "spec", "parallelism", default=1)
