"""The kinds of jobs that are queued, ours and those that others add."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from extender.jobs.batch_job import BatchJob
from extender.jobs.fields import Object
from extender.jobs.generic_job import GenericJob


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


_BUILTIN: Sequence[Integration] = (
    Integration("batch/job", "Job", "batch", "v1", "jobs", BatchJob),
)
_SAID = ("integration", "kind", "group", "version", "plural")


def builtin() -> dict[str, Integration]:
    """Return our own integrations by name."""
    return {each.name: each for each in _BUILTIN}


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
    return _described(found, reference)


def _described(found: object, reference: str) -> Integration:
    if not isinstance(found, type):
        raise IntegrationError(f"{reference} is not a class")
    missing = [name for name in _SAID if not isinstance(getattr(found, name, None), str)]
    if missing:
        raise IntegrationError(f"{reference} does not say its {', '.join(missing)}")
    lacks = sorted(name for name in _required() if not callable(getattr(found, name, None)))
    if lacks:
        raise IntegrationError(f"{reference} lacks {', '.join(lacks)}")
    name, kind, group, version, plural = (str(getattr(found, each)) for each in _SAID)
    build = cast("Callable[[Object], GenericJob]", found)
    return Integration(name, kind, group, version, plural, build)


def _required() -> set[str]:
    return {name for name in vars(GenericJob) if not name.startswith("_")} - {"object"}
