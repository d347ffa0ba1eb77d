"""The kinds of jobs that are queued, ours and those that others add."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Final, cast

from extender.jobs.batch_job import BatchJob
from extender.jobs.fields import Object
from extender.jobs.generic_job import GenericJob, Remembering, is_remembering
from extender.jobs.jobset import JobSet
from extender.jobs.kubeflow import MPIJob, PyTorchJob, TFJob, XGBoostJob
from extender.jobs.pod import Pod, pod_of, read
from extender.jobs.pod_group import PodGroup, group_of, may_concern
from extender.jobs.ray import RayJob


class IntegrationError(ValueError):
    """What was named is no integration."""


@dataclass(frozen=True, slots=True)
class Integration:
    """One kind of job: where its objects are, and the class that wraps them."""

    name: str
    """As in settings, such as `batch/job`."""
    kind: str
    group: str
    version: str
    plural: str
    build: Callable[[Object], GenericJob]
    compose: Callable[[Sequence[Pod]], GenericJob] | None = None
    """Makes one job of several objects, where the kind can."""
    read: Callable[[bytes], Pod] | None = None
    """Reads one of these objects out of JSON, where the kind can."""
    group_of: Callable[[Object], str] | None = None
    """Tells which objects of a namespace are one job; nothing is one alone."""
    done: Callable[[Object], Mapping[str, int]] | None = None
    """Tells which pods of an object no start makes any more, where the kind can (`Remembering`)."""
    concerns: Callable[[bytes], bool] | None = None
    """Tells of an object as JSON whether it may be a job; of others only metadata is kept."""
    templates: tuple[str, ...] = ()
    """Where its pod templates are, as `jobs/access.py` has paths; nothing where it does not say."""
    changes: tuple[str, ...] = ()
    """Which other fields a start or a stop changes."""

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def wrap(self, source: Object) -> GenericJob:
        """Return an object as a job, which owns it from now on.

        An object out of a list does not say of what kind it is: that is added.
        """
        source.setdefault("apiVersion", self.api_version)
        source.setdefault("kind", self.kind)
        return self.build(source)

    def wrap_all(self, members: Sequence[Pod]) -> GenericJob:
        """Return objects as one job; there is at least one."""
        if self.compose is None:
            raise TypeError(f"several objects are no job of kind {self.kind}")
        return self.compose(members)


_SAID: Final = ("integration", "kind", "group", "version", "plural")
_CLASSES: Final[Sequence[type]] = (BatchJob, JobSet, MPIJob, PyTorchJob, TFJob, XGBoostJob, RayJob)


def builtin() -> dict[str, Integration]:
    """Return our own integrations by name."""
    found = [described(each) for each in _CLASSES]
    return {each.name: each for each in (*found, _pods())}


def select(names: Sequence[str] | None, references: Sequence[str] = ()) -> list[Integration]:
    """Return the integrations of these names, or all of ours, and those at these references.

    IntegrationError says which one there is not.
    """
    ours = builtin()
    unknown = [name for name in names or () if name not in ours]
    if unknown:
        there = ", ".join(ours)
        raise IntegrationError(f"there is no integration {unknown[0]!r}; there are {there}")
    return [*(ours[name] for name in (ours if names is None else names)), *map(load, references)]


def load(reference: str) -> Integration:
    """Return the integration `module:Class`; IntegrationError says what is wrong with it."""
    module_name, colon, class_name = reference.partition(":")
    if not (module_name and colon and class_name):
        raise IntegrationError(f"{reference!r} is not of the form module:Class")
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise IntegrationError(f"cannot import {module_name}: {error}") from error
    found = getattr(module, class_name, None)
    if found is None:
        raise IntegrationError(f"there is no {class_name} in {module_name}")
    return described(found)


def described(found: object) -> Integration:
    """Return the integration that a class is; IntegrationError where it does not say so."""
    if not isinstance(found, type):
        raise IntegrationError(f"{found!r} is not a class")
    missing = [name for name in _SAID if not isinstance(getattr(found, name, None), str)]
    if missing:
        raise IntegrationError(f"{found.__name__} does not say its {', '.join(missing)}")
    lacks = sorted(name for name in _required() if not callable(getattr(found, name, None)))
    if lacks:
        raise IntegrationError(f"{found.__name__} lacks {', '.join(lacks)}")
    name, kind, group, version, plural = (str(getattr(found, each)) for each in _SAID)
    build = cast("Callable[[Object], GenericJob]", found)
    done = partial(_done, build) if issubclass(found, Remembering) else None
    suspend = ".".join(_paths(found, "suspend_path"))
    return Integration(
        name,
        kind,
        group,
        version,
        plural,
        build,
        done=done,
        templates=_paths(found, "template_paths"),
        changes=tuple(filter(None, (suspend, *_paths(found, "changed_paths")))),
    )


def _paths(found: type, name: str) -> tuple[str, ...]:
    said = getattr(found, name, ())
    if isinstance(said, str) or not all(isinstance(each, str) for each in said):
        raise IntegrationError(f"{found.__name__}.{name} is not a sequence of strings")
    return tuple(said)


def _done(build: Callable[[Object], GenericJob], source: Object) -> Mapping[str, int]:
    job = build(source)
    try:
        return job.done_pods() if is_remembering(job) else {}
    except Exception:  # noqa: BLE001 - a kind that others added: the look at the job tells
        return {}


def _required() -> set[str]:
    return {name for name in vars(GenericJob) if not name.startswith("_")} - {"object"}


def _pods() -> Integration:
    said = (getattr(PodGroup, each) for each in _SAID)
    name, kind, group, version, plural = map(str, said)

    def alone(pod: Object) -> GenericJob:
        return PodGroup([pod_of(pod)])

    return Integration(
        name, kind, group, version, plural, alone, PodGroup, read, group_of, concerns=may_concern
    )
