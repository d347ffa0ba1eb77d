"""Writes the objects of jobs, and asks how one is of which a write had no answer."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from extender.jobs.generic_job import Step
from extender.jobs.registry import Integration
from extender.kube.errors import NotFoundError, UnavailableError
from extender.kube.queues import objects as path_of
from extender.state.queues import events as ev
from extender.state.queues.records import JobObject
from extender.state.queues.store import Queues


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
        """Take the steps to start, stop or tidy up a job, in their order. Raises ApiError."""
        for step in steps:
            await self._take(step, of)

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
