"""The API server of Workloads as a script: it keeps versions, refuses, and loses answers."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from typing_extensions import override

from extender.api.core_v1 import LabelSelector
from extender.controllers.job import JobController
from extender.controllers.job_facts import JobOptions, PodGroups
from extender.controllers.workload import Workloads
from extender.jobs.registry import builtin
from extender.kube.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from extender.kube.queues import WorkloadWriter
from extender.kube.recorder import Event
from extender.kube.reflector import ObjectsSetAside
from extender.queueing.rules import AdmissionOptions
from extender.room.nodes import NodeRoom
from extender.state.queue import events as ev
from extender.state.queue.records import Meta, OwnerRef, WorkloadInfo
from extender.state.queue.store import Queues
from tests.makers import ManualClock, cluster_of
from tests.queue_makers import admission, condition, flavor, meta, pod_set, workload

DOWN = UnavailableError("nothing answers")
"""Nothing was done."""


class LostError(UnavailableError):
    """It was done, and the answer is lost."""


LOST = LostError("the answer is lost")


class NoPodGroups(PodGroups):
    """No job has a PodGroup or pods."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        """Read empty caches."""
        queues, self.cluster = Queues().view(), cluster_of()
        view = self.cluster.view()
        room = NodeRoom(queues, view)
        made = clock or ManualClock()
        super().__init__(queues, view, room, options=AdmissionOptions(), make=False, clock=made)


class JobBench:
    """The controller of jobs, beside an API server of Workloads."""

    def __init__(
        self, jobs: Any, groups: NoPodGroups | None = None, clock: Any = None, **options: Any
    ) -> None:
        self.queues, self.server = Queues(), Server()
        self.events: list[Event] = []
        self.clock, self.aside = clock or ManualClock(), ObjectsSetAside()
        self.controller = JobController(
            self.queues,
            Workloads(self.queues, self.server),
            jobs,
            record=self.events.append,
            clock=self.clock,
            options=JobOptions(
                builtin(), LabelSelector(), groups or NoPodGroups(), aside=self.aside, **options
            ),
        )
        self.queues.apply(ev.Applied(flavor()))

    def admit_job(self, source: dict[str, Any], pods: int) -> None:
        """Give the Job `job` a workload `w` with quota for so many of its pods."""
        template = json.dumps(source["spec"]["template"]).encode()
        made = workload("w", replace(pod_set(1, pods), template=template))
        owners = (OwnerRef("batch/v1", "Job", "job", "job"),)
        conditions = (condition("QuotaReserved"), condition("Admitted"))
        self.store(replace(made, owners=owners, admission=admission(made), conditions=conditions))

    def touch(self, key: str, **fields: Any) -> None:
        """Have a workload changed by another client, and seen."""
        self.queues.apply(ev.Applied(self.server.touch(key, **fields)))

    def store(self, found: WorkloadInfo) -> None:
        """Have a workload stored, and seen."""
        self.server.stored[found.key] = found
        self.queues.apply(ev.Applied(found))


class Server(WorkloadWriter):
    """Keeps workloads as they are stored; what is in `script` befalls the next admissions."""

    def __init__(self) -> None:
        self.stored: dict[str, WorkloadInfo] = {}
        self.script: list[Exception | None] = []
        self.reads: list[ApiError] = []
        self.writes = 0
        self.go_on = asyncio.Event()
        self.go_on.set()

    @override
    async def write_status(self, before: WorkloadInfo, after: WorkloadInfo) -> WorkloadInfo:
        """Store a status."""
        error = None
        if after.admission != before.admission:
            self.writes += 1
            await self.go_on.wait()
            error = self.script.pop(0) if self.script else None
        if error is not None and not isinstance(error, LostError):
            raise error
        self._check(before.meta)
        stored = replace(after, meta=self._next(before.meta))
        self.stored[before.key] = stored
        if error is not None:
            raise error
        return stored

    @override
    async def read(self, meta: Meta) -> WorkloadInfo:
        """Return a workload."""
        if self.reads:
            raise self.reads.pop(0)
        if meta.key not in self.stored:
            raise NotFoundError("gone", status=404)
        return self.stored[meta.key]

    @override
    async def create(self, workload: dict[str, Any]) -> WorkloadInfo:
        """Refuse: no test needs it."""
        raise NotImplementedError

    @override
    async def patch(self, meta: Meta, change: Mapping[str, Any]) -> WorkloadInfo:
        """Store a change of metadata, of `active`, or of the priority."""
        self._check(meta)
        found = self.stored[meta.key]
        changed = self._next(found.meta)
        metadata = change.get("metadata", {})
        if "finalizers" in metadata:
            changed = replace(changed, finalizers=tuple(metadata["finalizers"]))
        if "annotations" in metadata:
            changed = replace(
                changed, annotations={**changed.annotations, **metadata["annotations"]}
            )
        if "ownerReferences" in metadata:
            found = replace(found, owners=tuple(map(_owner, metadata["ownerReferences"])))
        found = replace(found, meta=changed, **change.get("spec", {}))
        self.stored[meta.key] = found
        return found

    @override
    async def delete(self, meta: Meta) -> None:
        """Delete a workload."""
        self.stored.pop(meta.key, None)

    def touch(self, key: str, **fields: Any) -> WorkloadInfo:
        """Change a workload as another client does, and return it."""
        found = self.stored[key]
        self.stored[key] = found = replace(found, meta=self._next(found.meta), **fields)
        return found

    def _check(self, seen: Meta) -> None:
        found = self.stored.get(seen.key)
        if found is None:
            raise NotFoundError("gone", status=404)
        if (found.meta.uid, found.meta.version) != (seen.uid, seen.version):
            raise ConflictError("another version", status=409)

    def _next(self, before: Meta) -> Meta:
        return replace(before, version=meta(before.name).version)


def _owner(ref: Mapping[str, Any]) -> OwnerRef:
    named = ref["apiVersion"], ref["kind"], ref["name"], ref["uid"]
    return OwnerRef(*named, controller=ref.get("controller", False))
