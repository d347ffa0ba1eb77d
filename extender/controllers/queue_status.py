"""Keeps the status and the finalizers of queues and flavors, and says what has no effect."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import structlog

from extender.api.reasons import JobReason
from extender.api.values import unreadable_overrides
from extender.api.wellknown import IN_USE_FINALIZER, QUEUE_API_VERSION
from extender.controllers.timing import SETTLE
from extender.controllers.workload import SettingWarnings
from extender.jobs.actions import unreadable_release
from extender.kube.errors import NotFoundError
from extender.kube.pod_groups import as_condition
from extender.kube.queues import QueueWriter
from extender.kube.recorder import Event, ObjectRef
from extender.queueing import lifecycle, provisioning, rules
from extender.queueing.status import (
    Activity,
    QueueStatus,
    Used,
    activity,
    cluster_queue_status,
    local_activity,
    local_queue_status,
)
from extender.resources.quantity import exact
from extender.runtime.clock import Clock
from extender.state.queue.records import (
    AdmissionCheckInfo,
    ClusterQueueInfo,
    CohortInfo,
    FlavorInfo,
    LocalQueueInfo,
    Meta,
    quotas_of,
)
from extender.state.queue.store import Queues

_log = structlog.get_logger(__name__)

Json = dict[str, Any]
HasMeta = ClusterQueueInfo | LocalQueueInfo | CohortInfo | FlavorInfo

MISCONFIGURED: Final = "Misconfigured"
_KINDS: Final = {
    "clusterqueues": "ClusterQueue",
    "localqueues": "LocalQueue",
    "cohorts": "Cohort",
    "resourceflavors": "ResourceFlavor",
    "admissionchecks": "AdmissionCheck",
}


class QueueStatusController:
    """Keeps one object at a time; keys are its plural name and `namespace/name`."""

    def __init__(
        self,
        queues: Queues,
        writer: QueueWriter,
        *,
        record: Callable[[Event], None],
        clock: Clock,
    ) -> None:
        self._view = queues.view()
        self.provisions: Callable[[], bool] = lambda: False
        """Returns whether the API server has ProvisioningRequests."""
        self._writer = writer
        self._record = record
        self._clock = clock
        self._warnings = SettingWarnings(
            rules.unreadable,
            rules.unreadable_room,
            unreadable_release,
            lambda meta: unreadable_overrides(meta.annotations),
        )
        self._unused = SettingWarnings()
        """The warnings for kinds that have no settings of ours."""
        self._written: dict[tuple[str, str], tuple[float, Activity]] = {}
        view = self._view
        self._known: Mapping[str, Mapping[str, Any]] = {
            "clusterqueues": view.cluster_queues,
            "localqueues": view.local_queues,
            "resourceflavors": view.flavors,
            "admissionchecks": view.admission_checks,
        }

    async def reconcile(self, key: tuple[str, str]) -> float | None:
        """Bring one object up to date; return in how many seconds to look again.

        Raises ApiError when something could not be written.
        """
        plural, name = key
        try:
            match plural:
                case "clusterqueues":
                    return await self._cluster_queue(key, self._view.cluster_queues.get(name))
                case "localqueues":
                    return await self._local_queue(key, self._view.local_queues.get(name))
                case "cohorts":
                    self._warn(key, self._view.cohorts.get(name))
                case "admissionchecks":
                    return await self._admission_check(self._view.admission_checks.get(name))
                case _:
                    flavor = self._view.flavors.get(name)
                    self._warn(key, flavor)
                    if flavor is not None:
                        queues = self._view.cluster_queues.values()
                        used = any(name in queue.flavors for queue in queues)
                        await self._finalize("resourceflavors", flavor.meta, in_use=used)
        except NotFoundError:
            pass
        return None

    async def _admission_check(self, check: AdmissionCheckInfo | None) -> float | None:
        """Keep a check that a queue lists, and write whether one that asks for nodes is active."""
        if check is None:
            return None
        queues = self._view.cluster_queues.values()
        listed = (rule.name for queue in queues for rule in queue.admission_checks)
        if await self._finalize("admissionchecks", check.meta, in_use=check.meta.name in listed):
            return None
        if check.controller != provisioning.CONTROLLER or check.meta.terminating:
            return None
        served, configs = self.provisions(), self._view.provisioning_configs
        new = provisioning.activity(check, configs, served=served)
        now = self._clock.wall()
        found = lifecycle.set_condition(check.conditions, new, meta=check.meta, now=now)
        if found != check.conditions:
            status = {"conditions": [as_condition(each) for each in found]}
            await self._writer.write_status("admissionchecks", check.meta, status)
        return None if served else SETTLE

    def about(self, key: tuple[str, str]) -> ObjectRef | None:
        """Return what Events about an object point to, None where it is gone."""
        found = self._known[key[0]].get(key[1])
        return _about(key[0], found.meta) if found is not None else None

    async def _cluster_queue(
        self, key: tuple[str, str], queue: ClusterQueueInfo | None
    ) -> float | None:
        overruled = rules.without_effect(queue, self._view.flavors) if queue is not None else ()
        self._warn(key, queue, overruled)
        if queue is None:
            self._written.pop(key, None)
            return None
        used = bool(self._view.reserving(queue.name))
        if await self._finalize("clusterqueues", queue.meta, in_use=used):
            return None
        active = activity(queue, self._view)
        pause = self._pause(key, queue, active)
        if pause:
            return pause
        status = _status(cluster_queue_status(queue, self._view), borrowed=True)
        return await self._write(key, queue, status=status, active=active)

    def _warn(
        self, key: tuple[str, str], found: HasMeta | None, overruled: Iterable[str] = ()
    ) -> None:
        """Record an Event about what of an object cannot be read, is overruled or has no effect."""
        kind = _KINDS[key[0]]
        warnings = self._warnings if kind == "ClusterQueue" else self._unused
        if found is None:
            warnings.forget(key)
            return
        meta = found.meta
        about = _about(key[0], meta)
        for which, text in warnings.news(key, meta, overruled):
            _log.warning("settings are ignored", kind=kind, name=meta.key, settings=text)
            unused = which is JobReason.NOT_HONOURED
            reason, occasion = (which, str(meta.generation)) if unused else (MISCONFIGURED, text)
            self._record(Event(about, reason, text, "Read", warning=True, occasion=occasion))

    async def _local_queue(
        self, key: tuple[str, str], queue: LocalQueueInfo | None
    ) -> float | None:
        self._warn(key, queue)
        if queue is None:
            self._written.pop(key, None)
            return None
        active = local_activity(queue, self._view)
        pause = self._pause(key, queue, active)
        if pause:
            return pause
        parent = self._view.cluster_queues.get(queue.cluster_queue)
        listed = quotas_of(parent.resource_groups) if parent else ()
        status = _status(local_queue_status(queue, self._view, listed), borrowed=False)
        return await self._write(key, queue, status=status, active=active)

    async def _finalize(self, plural: str, meta: Meta, *, in_use: bool) -> bool:
        """Keep a used object from being deleted; return whether something was written."""
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
        new = lifecycle.condition("Active", active.reason, active.message, holds=active.active)
        now = self._clock.wall()
        found = lifecycle.set_condition(queue.conditions, new, meta=queue.meta, now=now)
        wanted = {**status, "conditions": [as_condition(each) for each in found]}
        stored = msgspec.json.decode(queue.status) if queue.status else {}
        if all(stored.get(name) == value for name, value in wanted.items()):
            return None
        await self._writer.write_status(key[0], queue.meta, wanted)
        # The numbers change with every workload, and none of them is urgent.
        self._written[key] = (asyncio.get_running_loop().time() + SETTLE, active)
        return None

    def _pause(
        self, key: tuple[str, str], queue: ClusterQueueInfo | LocalQueueInfo, active: Activity
    ) -> float | None:
        """Return for how many seconds a change of numbers alone has to wait; None: write now."""
        until, written = self._written.get(key, (0.0, None))
        left = until - asyncio.get_running_loop().time()
        if written != active or queue.meta.terminating:
            return None
        return left if left > 0 else None


def _about(plural: str, meta: Meta) -> ObjectRef:
    return ObjectRef(QUEUE_API_VERSION, _KINDS[plural], meta.namespace, meta.name, meta.uid)


def _status(found: QueueStatus, *, borrowed: bool) -> Json:
    return {
        "pendingWorkloads": found.pending,
        "reservingWorkloads": found.reserving,
        "admittedWorkloads": found.admitted,
        "flavorsReservation": _rows(found.reservation, borrowed=borrowed),
        "flavorsUsage": _rows(found.usage, borrowed=borrowed),
    }


def _rows(used: Sequence[Used], *, borrowed: bool) -> list[Json]:
    rows: dict[str, list[Json]] = {}
    for each in used:
        row: Json = {"name": each.resource, "total": exact(each.resource, each.total)}
        if borrowed:
            row["borrowed"] = exact(each.resource, each.borrowed)
        rows.setdefault(each.flavor, []).append(row)
    return [{"name": flavor, "resources": resources} for flavor, resources in rows.items()]
