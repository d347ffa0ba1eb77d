"""Keeps the status and the finalizers of ClusterQueues, LocalQueues and ResourceFlavors."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec
import structlog

from extender.api import job_overrides
from extender.api.wellknown import IN_USE_FINALIZER
from extender.controllers.unreadable import Unreadable
from extender.controllers.workload_writer import API_VERSION
from extender.jobs import reclaim
from extender.kube.errors import NotFoundError
from extender.kube.pod_groups import as_condition
from extender.kube.recorder import Event, ObjectRef
from extender.queueing import readiness, room
from extender.queueing.active import Activity, activity, local_activity
from extender.queueing.status import (
    QueueStatus,
    Used,
    cluster_queue_status,
    local_queue_status,
)
from extender.resources.quantity import exact
from extender.runtime.clock import Clock
from extender.state.pod_groups import ConditionInfo
from extender.state.queues.records import ClusterQueueInfo, FlavorInfo, LocalQueueInfo, Meta
from extender.state.queues.store import Queues

_log = structlog.get_logger(__name__)

Json = dict[str, Any]

PAUSE: Final = 5.0
"""Seconds between two writes of one queue's status: the numbers change with every workload."""
LONGEST_PAUSE: Final = 30.0


class Writer(Protocol):
    """Writes; raises ApiError."""

    async def write_status(self, plural: str, meta: Meta, status: Json) -> None:
        """Replace the fields of a status that are given."""
        ...

    async def set_finalizers(self, plural: str, meta: Meta, finalizers: Sequence[str]) -> None:
        """Replace the finalizers."""
        ...


class QueueStatusController:
    """Decides for one object at a time; keys are its plural name and `namespace/name`."""

    def __init__(
        self, queues: Queues, writer: Writer, *, record: Callable[[Event], None], clock: Clock
    ) -> None:
        self._snapshot = queues.snapshot()
        self._writer = writer
        self._record = record
        self._clock = clock
        self._unreadable = Unreadable(
            readiness.unreadable,
            room.unreadable,
            reclaim.unreadable,
            lambda meta: job_overrides.unreadable(meta.annotations),
        )
        self._written: dict[tuple[str, str], tuple[float, tuple[bool, str, str]]] = {}

    async def reconcile(self, key: tuple[str, str]) -> float | None:
        """Bring one object up to date; return in how many seconds to look again.

        Raises ApiError when something could not be written.
        """
        plural, name = key
        try:
            match plural:
                case "clusterqueues":
                    return await self._cluster_queue(key, self._snapshot.cluster_queues.get(name))
                case "localqueues":
                    return await self._local_queue(key, self._snapshot.local_queues.get(name))
                case _:
                    return await self._flavor(self._snapshot.flavors.get(name))
        except NotFoundError:
            return None

    async def _cluster_queue(
        self, key: tuple[str, str], queue: ClusterQueueInfo | None
    ) -> float | None:
        if queue is None:
            self._written.pop(key, None)
            self._unreadable.forget(key)
            return None
        odd = self._unreadable.news(key, queue.meta)
        if odd:
            self._tell(queue, odd)
        used = bool(self._snapshot.reserving(queue.name))
        if await self._finalize("clusterqueues", queue.meta, in_use=used):
            return None
        active = activity(queue, self._snapshot)
        pause = self._pause(key, queue, active)
        if pause:
            return pause
        found = cluster_queue_status(queue, self._snapshot)
        status = {
            **_numbers(found),
            "flavorsReservation": _rows(found.reservation, borrowed=True),
            "flavorsUsage": _rows(found.usage, borrowed=True),
        }
        return await self._write(key, queue, status=status, active=active)

    def _tell(self, queue: ClusterQueueInfo, odd: str) -> None:
        _log.warning("settings cannot be read", cluster_queue=queue.name, settings=odd)
        about = ObjectRef(API_VERSION, "ClusterQueue", "", queue.name, queue.meta.uid)
        self._record(Event(about, "Misconfigured", odd, "Read", warning=True, occasion=odd))

    async def _local_queue(
        self, key: tuple[str, str], queue: LocalQueueInfo | None
    ) -> float | None:
        if queue is None:
            self._written.pop(key, None)
            return None
        active = local_activity(queue, self._snapshot)
        pause = self._pause(key, queue, active)
        if pause:
            return pause
        parent = self._snapshot.cluster_queues.get(queue.cluster_queue)
        listed = [
            (quotas.flavor, resource)
            for group in (parent.resource_groups if parent else ())
            for quotas in group.flavors
            for resource in quotas.resources
        ]
        found = local_queue_status(queue, self._snapshot, listed)
        status = {
            **_numbers(found),
            "flavorsReservation": _rows(found.reservation, borrowed=False),
            "flavorsUsage": _rows(found.usage, borrowed=False),
        }
        return await self._write(key, queue, status=status, active=active)

    async def _flavor(self, flavor: FlavorInfo | None) -> float | None:
        if flavor is not None:
            name = flavor.meta.name
            used = any(
                quotas.flavor == name
                for queue in self._snapshot.cluster_queues.values()
                for group in queue.resource_groups
                for quotas in group.flavors
            )
            await self._finalize("resourceflavors", flavor.meta, in_use=used)
        return None

    async def _finalize(self, plural: str, meta: Meta, *, in_use: bool) -> bool:
        """Keep an object from going while it is used; return whether something was written."""
        has = IN_USE_FINALIZER in meta.finalizers
        if has and meta.terminating and not in_use:
            left = [name for name in meta.finalizers if name != IN_USE_FINALIZER]
            await self._writer.set_finalizers(plural, meta, left)
            return True
        if not has and not meta.terminating:
            await self._writer.set_finalizers(plural, meta, [*meta.finalizers, IN_USE_FINALIZER])
            return True
        return False

    async def _write(
        self,
        key: tuple[str, str],
        queue: ClusterQueueInfo | LocalQueueInfo,
        *,
        status: Json,
        active: Activity,
    ) -> float | None:
        wanted = {**status, "conditions": self._conditions(queue, active)}
        if _said(queue.status, wanted):
            return None
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._writer.write_status(key[0], queue.meta, wanted)
        # An API server that takes its time has more important things to write.
        pause = min(LONGEST_PAUSE, max(PAUSE, 40 * (loop.time() - began)))
        told = active.active, active.reason, active.message
        self._written[key] = (loop.time() + pause, told)
        return None

    def _pause(
        self, key: tuple[str, str], queue: ClusterQueueInfo | LocalQueueInfo, active: Activity
    ) -> float | None:
        """Return for how many seconds more only the numbers have changed; they can wait."""
        until, told = self._written.get(key, (0.0, None))
        left = until - asyncio.get_running_loop().time()
        if told != (active.active, active.reason, active.message) or queue.meta.terminating:
            return None
        return left if left > 0 else None

    def _conditions(self, queue: ClusterQueueInfo | LocalQueueInfo, active: Activity) -> list[Json]:
        before = next((c for c in queue.conditions if c.type == "Active"), None)
        status = "True" if active.active else "False"
        kept = before is not None and before.status == status
        after = ConditionInfo(
            "Active",
            status,
            active.reason,
            active.message,
            before.transition if before is not None and kept else self._clock.wall(),
            queue.meta.generation or None,
        )
        others = [c for c in queue.conditions if c.type != "Active"]
        return [as_condition(each) for each in (*others, after)]


def _numbers(found: QueueStatus) -> Json:
    return {
        "pendingWorkloads": found.pending,
        "reservingWorkloads": found.reserving,
        "admittedWorkloads": found.admitted,
    }


def _rows(used: Sequence[Used], *, borrowed: bool) -> list[Json]:
    rows: dict[str, list[Json]] = {}
    for each in used:
        row: Json = {"name": each.resource, "total": exact(each.resource, each.total)}
        if borrowed:
            row["borrowed"] = exact(each.resource, each.borrowed)
        rows.setdefault(each.flavor, []).append(row)
    return [{"name": flavor, "resources": resources} for flavor, resources in rows.items()]


def _said(stored: bytes, wanted: Json) -> bool:
    """Return whether a stored status says all that it should."""
    before = msgspec.json.decode(stored) if stored else {}
    return all(before.get(name) == value for name, value in wanted.items())
