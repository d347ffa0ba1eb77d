"""The one writer of workloads: a stored change is in the state at once, before the watch has it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from extender.api.wellknown import QUEUE_API_VERSION
from extender.kube.errors import ConflictError, NotFoundError, RefusedError, UnavailableError
from extender.kube.queues import WorkloadWriter
from extender.kube.recorder import Event, ObjectRef, refusal
from extender.state.queue import events as ev
from extender.state.queue.events import QueueChange
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.store import Queues

Written = Callable[[WorkloadInfo, WorkloadInfo], None]
"""Called once for each stored status, with the status before and after."""


class Workloads:
    """Writes workloads, and applies the answers of the API server to the state.

    So the next decision sees what was written, even where the watch lags. The change goes on to
    `AdmissionLoop.on_change`, and to `JobController.reconcile` for the job. Every write holds for
    one version only: ConflictError means that a newer one is stored. A missing workload is no
    error. An Event about the workload says what the API server refuses.
    """

    def __init__(
        self,
        queues: Queues,
        writer: WorkloadWriter,
        *,
        written: Written = lambda _before, _after: None,
        record: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._queues = queues
        self._writer = writer
        self._written = written
        self._record = record
        self._unanswered: dict[str, tuple[WorkloadInfo, WorkloadInfo]] = {}
        """By workload: the status before and after a write without an answer."""
        queues.subscribe(self._on_change)

    async def write_status(self, before: WorkloadInfo, after: WorkloadInfo) -> None:
        """Write what differs between the two statuses, if anything. Raises ApiError."""
        if before == after:
            return
        try:
            with self._reported(before):
                stored = await self._writer.write_status(before, after)
        except NotFoundError:
            self._queues.apply(ev.Deleted(before))
            return
        except ConflictError:
            await self.read_again(before)
            raise
        except UnavailableError:
            self._unanswered[before.key] = (before, after)
            raise
        self._unanswered.pop(before.key, None)
        self._apply(stored)
        self._written(before, stored)

    async def create(self, workload: dict[str, Any]) -> None:
        """Create a workload. Raises ApiError."""
        self._apply(await self._writer.create(workload))

    async def patch(self, workload: WorkloadInfo, change: Mapping[str, Any]) -> None:
        """Change its spec or metadata. Raises ApiError."""
        try:
            with self._reported(workload):
                self._apply(await self._writer.patch(workload.meta, change))
        except NotFoundError:
            self._queues.apply(ev.Deleted(workload))
        except ConflictError:
            await self.read_again(workload)
            raise

    async def drop_finalizer(self, workload: WorkloadInfo, finalizer: str) -> None:
        """Remove a finalizer of a workload. Raises ApiError."""
        left = [name for name in workload.meta.finalizers if name != finalizer]
        if len(left) == len(workload.meta.finalizers):
            return
        await self.patch(workload, {"metadata": {"finalizers": left}})

    async def delete(self, workload: WorkloadInfo) -> None:
        """Delete a workload. Raises ApiError."""
        try:
            with self._reported(workload):
                await self._writer.delete(workload.meta)
        except NotFoundError:
            self._queues.apply(ev.Deleted(workload))

    @contextmanager
    def _reported(self, workload: WorkloadInfo) -> Iterator[None]:
        """Record an Event about what the API server refuses to write, and raise that again."""
        try:
            yield
        except RefusedError as error:
            self._record(refusal(about(workload), error))
            raise

    async def read_again(self, workload: WorkloadInfo) -> None:
        """Read a workload, because the watch may lag. Raises ApiError."""
        try:
            self._apply(await self._writer.read(workload.meta))
        except NotFoundError:
            self._queues.apply(ev.Deleted(workload))

    def _on_change(self, change: QueueChange) -> None:
        """Find out what became of writes without an answer."""
        for key in change.workloads & self._unanswered.keys() if self._unanswered else ():
            before, after = self._unanswered[key]
            found = self._queues.view().workloads.get(key)
            if found is not None and found.meta.version == before.meta.version:
                continue  # only the assumed admission has changed
            del self._unanswered[key]
            if found is not None and _stored_parts(found) == _stored_parts(after):
                self._written(before, found)

    def _apply(self, workload: WorkloadInfo) -> None:
        self._queues.apply(ev.Applied(workload))


def _stored_parts(workload: WorkloadInfo) -> tuple[str, list[tuple[str, str, str]]]:
    """Return the parts of a status that are stored as they were sent."""
    return workload.meta.uid, [(c.type, c.status, c.reason) for c in workload.conditions]


def about(workload: WorkloadInfo) -> ObjectRef:
    """Return what Events of a workload point to."""
    meta = workload.meta
    return ObjectRef(QUEUE_API_VERSION, "Workload", meta.namespace, meta.name, meta.uid)


def event(
    workload: WorkloadInfo, reason: str, note: str, *, warning: bool = False, occasion: str = ""
) -> Event:
    """Return an Event about a workload, one for each `occasion`: by default for each version."""
    return Event(
        about=about(workload),
        reason=reason,
        note=note,
        action=reason,
        warning=warning,
        occasion=occasion or str(workload.meta.version),
    )
