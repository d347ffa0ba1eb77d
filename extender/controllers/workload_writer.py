"""One door for every change of a workload: written once, and known here as soon as it is stored."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from extender.kube.errors import ConflictError, NotFoundError, UnavailableError
from extender.kube.recorder import Event, ObjectRef
from extender.state.queues import events as ev
from extender.state.queues.events import Change
from extender.state.queues.records import Meta, WorkloadInfo
from extender.state.queues.store import Queues

Written = Callable[[WorkloadInfo, WorkloadInfo], None]
"""Is told once of each status that is stored: what it was, and what it is."""

API_VERSION = "kueue.x-k8s.io/v1beta2"


class Writer(Protocol):
    """Writes; raises ApiError."""

    async def write_status(self, before: WorkloadInfo, after: WorkloadInfo) -> WorkloadInfo:
        """Make a workload's status what differs between the two."""
        ...

    async def read(self, meta: Meta) -> WorkloadInfo:
        """Return a workload as it is stored."""
        ...

    async def create(self, workload: dict[str, Any]) -> WorkloadInfo:
        """Create a Workload."""
        ...

    async def patch(self, meta: Meta, change: Mapping[str, Any]) -> WorkloadInfo:
        """Merge a change of spec or metadata into a Workload."""
        ...

    async def delete(self, meta: Meta) -> None:
        """Delete a Workload."""
        ...


class Workloads:
    """Writes workloads, and takes what the API server answers for a fact.

    So the next look sees what was written, whenever the watch tells. Every write holds only for the
    version that was seen: ConflictError says that there is a newer one. What is gone is no error.
    """

    def __init__(
        self, queues: Queues, writer: Writer, *, written: Written = lambda _before, _after: None
    ) -> None:
        self._queues = queues
        self._writer = writer
        self._written = written
        self._unheard: dict[str, tuple[WorkloadInfo, WorkloadInfo]] = {}
        """By workload: the status that it had, and that of a write which had no answer."""
        queues.subscribe(self._on_change)

    async def write_status(self, before: WorkloadInfo, after: WorkloadInfo) -> None:
        """Write what differs between the two statuses, if anything. Raises ApiError."""
        if before == after:
            return
        try:
            stored = await self._writer.write_status(before, after)
        except NotFoundError:
            self._queues.apply(ev.Deleted(before))
            return
        except ConflictError:
            await self.read_again(before)
            raise
        except UnavailableError:
            self._unheard[before.key] = (before, after)
            raise
        self._unheard.pop(before.key, None)
        self._know(stored)
        self._written(before, stored)

    async def create(self, workload: dict[str, Any]) -> None:
        """Create a workload. Raises ApiError."""
        self._know(await self._writer.create(workload))

    async def patch(self, workload: WorkloadInfo, change: Mapping[str, Any]) -> None:
        """Change its spec or metadata. Raises ApiError."""
        try:
            self._know(await self._writer.patch(workload.meta, change))
        except NotFoundError:
            self._queues.apply(ev.Deleted(workload))
        except ConflictError:
            await self.read_again(workload)
            raise

    async def drop_finalizer(self, workload: WorkloadInfo, finalizer: str) -> None:
        """Let a workload go. Raises ApiError."""
        left = [name for name in workload.meta.finalizers if name != finalizer]
        if len(left) == len(workload.meta.finalizers):
            return
        await self.patch(workload, {"metadata": {"finalizers": left}})

    async def delete(self, workload: WorkloadInfo) -> None:
        """Delete a workload. Raises ApiError."""
        try:
            await self._writer.delete(workload.meta)
        except NotFoundError:
            self._queues.apply(ev.Deleted(workload))

    async def read_again(self, workload: WorkloadInfo) -> None:
        """Know at once what the watch has not told yet. Raises ApiError."""
        try:
            self._know(await self._writer.read(workload.meta))
        except NotFoundError:
            self._queues.apply(ev.Deleted(workload))

    def _on_change(self, change: Change) -> None:
        """Learn what became of writes without an answer: the watch tells it, or a look."""
        for key in change.workloads & self._unheard.keys() if self._unheard else ():
            before, after = self._unheard[key]
            found = self._queues.snapshot().workloads.get(key)
            if found is not None and found.meta.version == before.meta.version:
                continue  # another thing of it has changed here
            del self._unheard[key]
            if found is not None and _said(found) == _said(after):
                self._written(before, found)

    def _know(self, workload: WorkloadInfo) -> None:
        self._queues.apply(ev.Applied(workload))


def _said(workload: WorkloadInfo) -> tuple[str, list[tuple[str, str, str]]]:
    """Return what a status says, as far as it is stored as it was sent."""
    return workload.meta.uid, [(c.type, c.status, c.reason) for c in workload.conditions]


def about(workload: WorkloadInfo) -> ObjectRef:
    """Return what Events of a workload point to."""
    meta = workload.meta
    return ObjectRef(API_VERSION, "Workload", meta.namespace, meta.name, meta.uid)


def event(
    workload: WorkloadInfo, reason: str, note: str, *, warning: bool = False, occasion: str = ""
) -> Event:
    """Return an Event about a workload, one for each version of it unless told otherwise."""
    return Event(
        about=about(workload),
        reason=reason,
        note=note,
        action=reason,
        warning=warning,
        occasion=occasion or str(workload.meta.version),
    )
