"""The kinds of jobs that are queued, ours and those that others add."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Final

from extender.jobs.fields import Object
from extender.jobs.job import GenericJob
from extender.jobs.kinds.app_wrapper import AppWrapper
from extender.jobs.kinds.batch_job import BatchJob
from extender.jobs.kinds.jobset import JobSet
from extender.jobs.kinds.kubeflow import JAXJob, MPIJob, PaddleJob, PyTorchJob, TFJob, XGBoostJob
from extender.jobs.kinds.plain_pods import (
    PlainPod,
    PlainPods,
    group_name_of,
    may_concern,
    pod_of,
    read,
)
from extender.jobs.kinds.ray import RayCluster, RayJob
from extender.jobs.kinds.services import LeaderWorkerGroup, Service, StatefulSet, groups_of
from extender.jobs.kinds.spark_application import SparkApplication
from extender.jobs.kinds.train_job import TrainJob


class IntegrationError(ValueError):
    """The reference names no integration."""


@dataclass(frozen=True, slots=True)
class Integration:
    """One kind of job: where its objects are, and the class that wraps them."""

    name: str
    """The name in settings, such as `batch/job`."""
    kind: str
    group: str
    version: str
    plural: str
    build: Callable[[Object], GenericJob]
    compose: Callable[[Sequence[PlainPod]], GenericJob] | None = None
    """Makes one job of several objects, where the kind can."""
    read: Callable[[bytes], PlainPod] | None = None
    """Reads one of these objects out of JSON, where the kind can."""
    group_of: Callable[[Object], str] | None = None
    """Returns which objects of a namespace are one job, as a name; an empty one is a job alone."""
    done: Callable[[Object], Mapping[str, int]] | None = None
    """Returns `GenericJob.done_pods` of an object, where the kind has any."""
    concerns: Callable[[bytes], bool] | None = None
    """Returns whether an object, as JSON, may be a job; of other objects only metadata is kept."""
    parts: Callable[[Object], Sequence[Service]] | None = None
    """Returns the services that an object is, where its kind is one of services."""
    child: type[GenericJob] | None = None
    """`GenericJob.child_kind`."""

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

    def wrap_all(self, members: Sequence[PlainPod]) -> GenericJob:
        """Return objects as one job; there is at least one."""
        if self.compose is None:
            raise TypeError(f"several objects are no job of kind {self.kind}")
        return self.compose(members)


_SAID: Final = ("integration", "kind", "group", "version", "plural")
_CLASSES: Final[Sequence[type]] = (
    BatchJob,
    TrainJob,  # before the JobSet of the same name, where no kind is said
    JobSet,
    MPIJob,
    PyTorchJob,
    TFJob,
    XGBoostJob,
    JAXJob,
    PaddleJob,
    RayJob,
    RayCluster,
    SparkApplication,
    AppWrapper,
)
_THROUGH: Final[Mapping[str, str]] = {"ray.io/rayservice": RayCluster.integration}
"""Kinds that are queued by what their controller makes of them, and the kind of that."""


def builtin() -> dict[str, Integration]:
    """Return our own integrations by name."""
    pods = replace(
        described(PlainPods),
        build=lambda pod: PlainPods([pod_of(pod)]),
        compose=PlainPods,
        read=read,
        group_of=group_name_of,
        concerns=may_concern,
    )
    services = (
        replace(described(StatefulSet), parts=lambda source: [StatefulSet(source)]),
        replace(described(LeaderWorkerGroup), parts=groups_of),
    )
    return {each.name: each for each in (*map(described, _CLASSES), *services, pods)}


def select(names: Sequence[str] | None, references: Sequence[str] = ()) -> list[Integration]:
    """Return the integrations of these names, or all of ours, and those at these references.

    IntegrationError says which one there is not.
    """
    ours = builtin()
    names = names and [*dict.fromkeys(_THROUGH.get(name, name) for name in names)]
    unknown = [name for name in names or () if name not in ours]
    if unknown:
        there = ", ".join([*ours, *_THROUGH])
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
    """Return the integration of a class; IntegrationError where the class is incomplete."""
    if not isinstance(found, type):
        raise IntegrationError(f"{found!r} is not a class")
    missing = [name for name in _SAID if not isinstance(getattr(found, name, None), str)]
    if missing:
        raise IntegrationError(f"{found.__name__} does not set its {', '.join(missing)}")
    if not issubclass(found, GenericJob):
        raise IntegrationError(f"{found.__name__} is no subclass of extender.jobs.job.GenericJob")
    lacks = sorted(found.__abstractmethods__)
    if lacks:
        raise IntegrationError(f"{found.__name__} lacks {', '.join(lacks)}")
    if isinstance(getattr(found, "suspend_path", None), str):
        raise IntegrationError(f"{found.__name__}.suspend_path is not a sequence of strings")
    return Integration(
        found.integration,
        found.kind,
        found.group,
        found.version,
        found.plural,
        found,
        done=None if found.done_pods is GenericJob.done_pods else partial(_done, found),
        child=found.child_kind,
    )


def _done(build: Callable[[Object], GenericJob], source: Object) -> Mapping[str, int]:
    job = build(source)
    try:
        return job.done_pods()
    except Exception:  # noqa: BLE001 - a kind that others added: its reconcile reports the error
        return {}
