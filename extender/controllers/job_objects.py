"""Writes the objects of jobs, and asks how one is of which a write had no answer."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from extender.jobs.generic_job import Step
from extender.jobs.registry import Integration
from extender.kube.errors import NotFoundError, UnavailableError
from extender.kube.queues import objects as path_of
from extender.state.queues import events as ev
from extender.state.queues.records import JobObject
from extender.state.queues.store import Queues

AT_ONCE: Final = 16
"""Objects of one job that are written at the same time."""


def _batches(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Yield the steps in their order; those of one batch are for different objects."""
    batch: dict[str, Step] = {}
    for step in steps:
        if len(batch) == AT_ONCE or step.member in batch:
            yield list(batch.values())
            batch = {}
        batch[step.member] = step
    if batch:
        yield list(batch.values())


class ObjectWriter(Protocol):
    """Writes jobs of any kind; raises ApiError."""

    async def patch(self, path: str, change: Mapping[str, Any], *, kind: str) -> JobObject:
        """Merge a change into an object or a subresource; return it as it is stored."""
        ...

    async def read(self, path: str, *, kind: str) -> JobObject:
        """Return an object as it is stored."""
        ...

    async def delete(self, path: str, options: Mapping[str, Any]) -> None:
        """Delete an object."""
        ...


class JobObjects:
    """Writes objects of jobs; what the API server answers is known here at once."""

    def __init__(
        self, queues: Queues, writer: ObjectWriter, integrations: Mapping[str, Integration]
    ) -> None:
        self._queues = queues
        self._snapshot = queues.snapshot()
        self._writer = writer
        self._integrations = integrations
        self._unsure: dict[tuple[str, str], set[str]] = {}
        """By job: names of its objects of which nobody knows what was written."""

    async def make_sure(self, key: tuple[str, str]) -> None:
        """Learn how those objects of a job are of which a write had no answer. Raises ApiError."""
        if key not in self._unsure:
            return
        for known in self._snapshot.unit(key):
            if known.meta.name in self._unsure[key]:
                path = f"{self._collection(known)}/{known.meta.name}"
                try:
                    stored = await self._writer.read(path, kind=known.kind)
                except NotFoundError:
                    self._queues.apply(ev.JobDeleted(known, for_good=True))
                else:
                    self._queues.apply(ev.JobApplied(stored))
        del self._unsure[key]

    async def take(self, steps: Sequence[Step], of: JobObject) -> None:
        """Take the steps to start, stop or tidy up a job. Raises ApiError.

        Steps of one object are taken in their order. Where a job is many objects, such as a group
        of pods, some are written at the same time; the first error is raised when all have ended.
        """
        for batch in _batches(steps):
            errors: list[Exception] = []
            async with asyncio.TaskGroup() as tasks:
                for step in batch:
                    tasks.create_task(self._try(step, of, errors))
            if errors:
                raise errors[0]

    async def _try(self, step: Step, of: JobObject, errors: list[Exception]) -> None:
        try:
            await self._take(step, of)
        except Exception as error:  # noqa: BLE001 - raised when those beside it have ended
            errors.append(error)

    async def _take(self, step: Step, of: JobObject) -> None:
        name = step.member or of.meta.name
        path = f"{self._collection(of)}/{name}"
        try:
            if step.delete:
                await self._writer.delete(path, step.patch)
                return
            where = f"{path}/{step.subresource}" if step.subresource else path
            stored = await self._writer.patch(where, step.patch, kind=of.kind)
        except NotFoundError:
            return  # the watch tells
        except UnavailableError:
            self._unsure.setdefault(of.unit, set()).add(name)
            raise
        self._queues.apply(ev.JobApplied(stored))

    def _collection(self, of: JobObject) -> str:
        """Return the path of the objects among which a job is."""
        found = self._integrations[of.kind]
        return path_of(found.group, found.version, found.plural, namespace=of.meta.namespace)
