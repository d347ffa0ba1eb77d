"""Finds the queued job that a job is part of, and whose quota it shares.

Users may write any ownerReferences into the objects that they create. So a reference counts only
where the owner is in the same namespace, has the kind and the name of the reference, is of a kind
whose controller makes such objects, and would give the object its name. An owner that has ended
shares its quota no more.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from cachetools import LRUCache

from extender.jobs.context import Ancestor
from extender.jobs.job import GenericJob
from extender.jobs.registry import Integration
from extender.runtime.faults import FAULTS
from extender.state.queue.records import JobObject, OwnerRef
from extender.state.queue.view import QueueView

_DEEPEST: Final = 10
_REMEMBERED: Final = 256


class Ancestors:
    """Finds the topmost owner that is itself a managed job."""

    def __init__(
        self,
        view: QueueView,
        integrations: Mapping[str, Integration],
        *,
        manages_all: bool,
    ) -> None:
        self._view = view
        self._integrations = integrations
        self._manages_all = manages_all
        self._wrapped: LRUCache[tuple[str, int], GenericJob | None] = LRUCache(_REMEMBERED)
        """Cache by UID and version: each child asks about its parent."""

    def find(self, found: JobObject) -> Ancestor | None:
        """Return the job whose admission covers this one, None where it needs its own."""
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
        keys = self._view.workloads_of(top.meta.uid, top.meta.namespace)
        own = map(self._view.workloads.get, keys)
        admitted = any(w is not None and w.admitted and not w.evicted for w in own)
        return Ancestor(f"{top.kind} {top.meta.name}", admitted=admitted)

    def _parent(self, child: JobObject) -> JobObject | None:
        if child.owner is None:
            return None
        parent = self._view.job_of(child.owner.uid, child.meta.namespace)
        if parent is None or not self._is_named(parent, child.owner):
            return None
        job = self._job(parent)
        if job is None or job.finished() is not None:
            return None
        return parent if job.makes(child.kind, child.meta.name) else None

    def _is_named(self, parent: JobObject, reference: OwnerRef) -> bool:
        """Return whether a reference has the kind and name of the object with its UID.

        The admission policy for such Jobs checks the kind and name of the reference.
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
        except Exception as error:  # noqa: BLE001 - an error of an external integration harms its job alone
            FAULTS.report("job", error, key=parent.unit)
            return None
