"""Of which queued job a job is a part: then that one's quota is for both.

Any user who may create an object may write any ownerReferences into it. So they count only where
the owner is in the same namespace, has the kind and the name that the reference says, is of a kind
whose controller makes such objects, and would give the object its name. An owner that has ended
gives its quota to nothing any more.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from cachetools import LRUCache

from extender.jobs.context import Ancestor
from extender.jobs.generic_job import GenericJob, is_making
from extender.jobs.registry import Integration
from extender.runtime.faults import FAULTS
from extender.state.queues.records import JobObject, OwnerRef
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
        if parent is None or not self._is_named(parent, child.owner):
            return None
        job = self._job(parent)
        if job is None or job.finished() is not None:
            return None
        makes = not is_making(job) or job.makes(child.kind, child.meta.name)
        return parent if makes else None

    def _is_named(self, parent: JobObject, reference: OwnerRef) -> bool:
        """Return whether a reference names the very object that has its UID.

        The policy for such Jobs asks who controls the kind and name that the reference says.
        """
        of = self._integrations[parent.kind]
        named = reference.group_kind, reference.name
        return named == (f"{of.group}/{of.kind}", parent.meta.name)

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
