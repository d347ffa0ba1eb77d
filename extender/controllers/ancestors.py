"""Of which queued job a job is a part: then that one's quota is for both.

Any user who may create an object may write any ownerReferences into it. So they count only where
the owner is in the same namespace, is of a kind whose controller makes such objects, and would
give the object its name. An owner that has ended gives its quota to nothing any more.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from cachetools import LRUCache

from extender.jobs.context import Ancestor
from extender.jobs.generic_job import GenericJob, is_making
from extender.jobs.registry import Integration
from extender.runtime.faults import FAULTS
from extender.state.queues.records import JobObject
from extender.state.queues.snapshot import QueueSnapshot

_DEEPEST: Final = 10
_REMEMBERED: Final = 256


class Ancestors:
    """Finds the topmost job of the owners that is managed itself."""

    def __init__(
        self,
        snapshot: QueueSnapshot,
        integrations: Mapping[str, Integration],
        *,
        manages_all: bool,
    ) -> None:
        self._snapshot = snapshot
        self._integrations = integrations
        self._manages_all = manages_all
        self._wrapped: LRUCache[tuple[str, int], GenericJob | None] = LRUCache(_REMEMBERED)
        """By UID and version: a parent is asked by each of its children."""

    def find(self, found: JobObject) -> Ancestor | None:
        """Return the job that has to be admitted for this one, None where it stands for itself."""
        top: JobObject | None = None
        above = found
        for _ in range(_DEEPEST):
            parent = self._parent(above)
            if parent is None:
                break
            if parent.queue_name or self._manages_all:
                top = parent
            above = parent
        if top is None:
            return None
        keys = self._snapshot.workloads_of(top.meta.uid, top.meta.namespace)
        own = map(self._snapshot.workloads.get, keys)
        admitted = any(w is not None and w.admitted and not w.evicted for w in own)
        return Ancestor(f"{top.kind} {top.meta.name}", admitted=admitted)

    def _parent(self, child: JobObject) -> JobObject | None:
        if child.owner is None:
            return None
        parent = self._snapshot.job_of(child.owner.uid, child.meta.namespace)
        if parent is None:
            return None
        job = self._job(parent)
        if job is None or job.finished() is not None:
            return None
        makes = not is_making(job) or job.makes(child.kind, child.meta.name)
        return parent if makes else None

    def _job(self, parent: JobObject) -> GenericJob | None:
        known = parent.meta.uid, parent.meta.version
        if known not in self._wrapped:
            self._wrapped[known] = self._wrap(parent)
        return self._wrapped[known]

    def _wrap(self, parent: JobObject) -> GenericJob | None:
        try:
            return self._integrations[parent.kind].wrap(msgspec.json.decode(parent.raw))
        except (msgspec.MsgspecError, RecursionError):
            return None
        except Exception as error:  # noqa: BLE001 - a kind that others added: its job is at fault
            FAULTS.report("job", error, key=parent.unit)
            return None
