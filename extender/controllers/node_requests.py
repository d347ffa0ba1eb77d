"""Asks an autoscaler for the nodes of workloads that hold quota and lack room.

A ProvisioningRequest where the API server serves these and the settings name a class, otherwise a
CapacityBuffer for each pod set. What an autoscaler says of them is no reason to admit a workload:
only its pods' room on nodes is, which the next cycle looks for. Both are deleted once the workload
is admitted or has lost its quota, since a buffer that stays would buy its room again.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import structlog

from extender.api.reasons import JobReason, NotYetAdmitted
from extender.api.wellknown import MANAGED_BY_LABEL, MANAGER, WorkloadCondition
from extender.controllers.workload import Workloads, event
from extender.jobs import fields
from extender.jobs.fields import Object
from extender.jobs.templates import FlavorNotFoundError, PlacementError
from extender.kube.autoscaling import BUFFERS, REQUESTS, TEMPLATES, Autoscaling, buffer
from extender.kube.errors import ApiError, RefusedError
from extender.kube.recorder import Event
from extender.queueing import lifecycle, provisioning
from extender.queueing.provisioning import PodsAsked
from extender.room.nodes import NodeRoom
from extender.runtime.clock import Clock, in_turns
from extender.state.queue.records import WorkloadInfo
from extender.state.queue.view import QueueView

_SERVED_SECONDS: Final = 60.0
"""Pause between two looks at which APIs are served."""
_LOOK_SECONDS: Final = 10.0
"""Pause between two looks at one request."""

_PLURALS: Final = (REQUESTS, BUFFERS)
"""The resources by which nodes are asked for, the preferred one first."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NodesAsked:
    """The objects by which nodes were asked for."""

    plural: str
    version: str
    names: frozenset[str]
    templates: frozenset[str] = frozenset()
    """The PodTemplates; none where they are not known."""
    complete: bool = False
    """True if all objects are known to have been created."""


class NodeRequests:
    """Keeps one request for each workload that awaits nodes, and none for others."""

    def __init__(  # noqa: PLR0913 - all that its decisions and writes need
        self,
        view: QueueView,
        workloads: Workloads,
        autoscaling: Autoscaling,
        *,
        room: NodeRoom,
        record: Callable[[Event], None],
        clock: Clock,
        class_name: str,
    ) -> None:
        self._view, self._workloads, self._autoscaling = view, workloads, autoscaling
        self._room = room
        self._record, self._clock, self._class = record, clock, class_name
        self._served: tuple[str, str] | None = None
        """The resource and the version by which nodes are asked for."""
        self._asked: dict[str, NodesAsked] = {}

    def can_ask(self) -> bool:
        """Return whether the API server serves what an autoscaler is asked by."""
        return self._served is not None

    def on_change(self, workloads: Set[str], notice: Callable[[str], None]) -> None:
        """Call `notice` for those of these workloads that await nodes, or have a request."""
        for key in workloads:
            if key in self._view.reserved_only or key in self._asked:
                notice(key)

    async def run(self, notice: Callable[[str], None], wake: Callable[[], None]) -> None:
        """Look again and again at what is served; call `wake` where that changes.

        `notice` is called for workloads for which another leader has asked.
        """
        self._served = None  # there may have been another leader meanwhile
        while True:
            try:
                there = {name: await self._autoscaling.version(name) for name in _PLURALS}
                ways = _PLURALS if self._class else (BUFFERS,)
                plural = next((name for name in ways if there[name]), "")
                served = (plural, there[plural]) if plural else None
                if served != self._served:
                    await self._recall(there, plural, notice)
                    self._served = served
                    _log.info("how nodes are asked for has changed", resource=plural)
                    wake()
            except ApiError as error:
                _log.warning("could not see how nodes are asked for", error=str(error))
            await asyncio.sleep(_SERVED_SECONDS)

    async def _recall(
        self, served: Mapping[str, str], chosen: str, notice: Callable[[str], None]
    ) -> None:
        """Find what another leader has asked for, and delete what was asked for in another way."""
        for key, asked in self._asked.items():  # objects go with their definition
            self._asked[key] = replace(asked, complete=False)
        names: dict[str, set[str]] = {}
        for plural, version in served.items():
            for key, name in await self._autoscaling.owners(plural, version) if version else ():
                if plural == chosen:
                    names.setdefault(key, set()).add(name)
                    continue
                namespace = key.partition("/")[0]
                await self._autoscaling.delete(plural, name, version=version, namespace=namespace)
        for key, found in names.items():
            self._asked.setdefault(key, NodesAsked(chosen, served[chosen], frozenset(found)))
            notice(key)

    async def reconcile(self, key: str) -> float | None:
        """Ask for nodes, or withdraw; return the seconds until the next look. Raises ApiError."""
        workload, asked = self._view.workloads.get(key), self._asked.get(key)
        if workload is None or not _awaits_nodes(workload):
            if asked is not None:
                await self._withdraw(key, asked)
            return None
        if self._served is None:
            return _LOOK_SECONDS
        failure = await self._ask(workload, *self._served)
        if failure is None:
            return _LOOK_SECONDS
        step = lifecycle.nodes_refused(workload, failure, now=self._clock.wall())
        if step.after is not None:
            await self._workloads.write_status(workload, step.after)
            self._record(event(workload, step.reason, step.message))
        return None

    async def _ask(self, workload: WorkloadInfo, plural: str, version: str) -> str | None:
        """Create a request unless it was made; return why no nodes will come, if that is known."""
        try:
            name, pods = await self._needed(workload)
        except (PlacementError, FlavorNotFoundError, msgspec.MsgspecError) as error:
            return f"its pods cannot be asked for: {error}"
        if self._view.workloads.get(workload.key) is not workload:
            return None  # it has changed meanwhile, and is looked at again
        made = [buffer(fields.mapping(e.template, "metadata"), e.count) for e in pods]
        if plural == REQUESTS:
            asked_for = {"class_name": self._class, "version": version}
            made = [provisioning.request(workload, name, pods, parameters={}, **asked_for)]
        names = frozenset(fields.text(each, "metadata", "name") for each in made)
        templates = frozenset(each.name for each in pods)
        asked = NodesAsked(plural, version, names, templates, complete=True)
        try:
            if await self._create(workload.key, asked, pods=pods, made=made):
                count, kind = sum(each.count for each in pods), made[0]["kind"]
                note = f"Asked for nodes for {count} pod(s) by {kind} {', '.join(sorted(names))}"
                self._record(event(workload, JobReason.NODES_REQUESTED, note, occasion=name))
        except RefusedError as error:
            return f"nodes cannot be asked for: {error}"
        if plural == REQUESTS:
            where = {"version": version, "namespace": workload.meta.namespace}
            return await self._autoscaling.failure(name, **where)
        return None

    async def _create(
        self, key: str, asked: NodesAsked, *, pods: Sequence[PodsAsked], made: Sequence[Object]
    ) -> bool:
        """Create the objects of a request in place of earlier ones; return whether any is new."""
        known = self._asked.get(key)
        if known is not None and known.names != asked.names:
            await self._withdraw(key, known)
        if known == asked:
            return False
        self._asked[key] = replace(asked, complete=False)
        # Autoscalers give up a request whose templates are missing.
        for template in (each.template for each in pods):
            await self._autoscaling.create(TEMPLATES, template)
        news = False
        for each in made:
            fields.ensure(each, "metadata")["labels"] = {MANAGED_BY_LABEL: MANAGER}
            news = await self._autoscaling.create(asked.plural, each) or news
        self._asked[key] = asked
        return news

    async def _needed(self, workload: WorkloadInfo) -> tuple[str, Sequence[PodsAsked]]:
        """Return the name of a request, and its pods; raises what `pod_templates` does.

        Where no node shows in which domain the pods of a set could be, nodes are asked for one of
        them alone. The one that comes shows a domain, and then they are asked for there.
        """
        held, flavors = workload.admission, self._view.flavors
        given, attempt = held.assignments if held else (), lifecycle.nodes_missed(workload)
        steps = self._room.to_grow(workload, given, attempt=attempt)
        domains = await in_turns(steps, self._clock)
        there = {pod_set: labels for pod_set, labels in domains.items() if labels is not None}
        alone = domains.keys() - there
        name = _name(workload, "-first" if alone else "")
        pods = provisioning.pod_templates(workload, flavors, name, domains=there)
        if alone:
            pods = [replace(each, count=1) for each in pods if alone.intersection(each.pod_sets)]
        return name, pods

    async def _withdraw(self, key: str, asked: NodesAsked) -> None:
        """Delete the objects of a request."""
        namespace = key.partition("/")[0]
        for name in asked.names:
            await self._autoscaling.delete(
                asked.plural, name, version=asked.version, namespace=namespace
            )
        for name in asked.templates or asked.names:
            await self._autoscaling.delete(TEMPLATES, name, version="v1", namespace=namespace)
        self._asked.pop(key, None)


def _awaits_nodes(workload: WorkloadInfo) -> bool:
    held, said = workload.admission, workload.condition(WorkloadCondition.ADMITTED)
    return (
        held is not None
        and held.reserved_only
        and not (workload.evicted or workload.finished or workload.meta.terminating)
        and said is not None
        and said.reason == NotYetAdmitted.WAITING_FOR_NODES
    )


def _name(workload: WorkloadInfo, end: str) -> str:
    """Return the name of a request, another one for each reservation of quota."""
    attempt = lifecycle.nodes_missed(workload) + 1
    at = provisioning.reservation_of(workload)
    return provisioning.short_name(f"{workload.meta.name}-nodes-{attempt}-{at}{end}")
