"""Passes the admission checks that ask an autoscaler for nodes: see `queueing.provisioning`.

A check belongs to `kueue.x-k8s.io/provisioning-request` and names a ProvisioningRequestConfig. The
PodTemplates are created before the request that names them, because autoscalers give up a request
whose templates are missing.
"""

from collections.abc import Callable, Set
from dataclasses import replace

import msgspec

from extender.api.queue_wire import ProvisioningConfigSpec
from extender.api.reasons import CheckReason
from extender.controllers.timing import LATE
from extender.controllers.workload import Workloads, event
from extender.jobs.templates import FlavorNotFoundError, PlacementError
from extender.kube.autoscaling import REQUESTS, TEMPLATES, Autoscaling
from extender.kube.decode_queues import QueueDecoder
from extender.kube.errors import LONGEST_NOTE, RefusedError
from extender.kube.recorder import Event
from extender.queueing import provisioning
from extender.runtime.clock import Clock
from extender.state.queue import events
from extender.state.queue.records import ProvisioningConfigInfo, WorkloadInfo
from extender.state.queue.store import Queues


class ProvisioningChecks:
    """Decides for one workload at a time."""

    def __init__(
        self,
        queues: Queues,
        workloads: Workloads,
        autoscaling: Autoscaling,
        *,
        decoder: QueueDecoder,
        record: Callable[[Event], None],
        clock: Clock,
    ) -> None:
        self._queues, self._view = queues, queues.view()
        self._workloads, self._autoscaling = workloads, autoscaling
        self._decoder, self._record, self._clock = decoder, record, clock
        self.version: Callable[[], str] = lambda: ""
        """Returns the version in which the API server serves ProvisioningRequests, or nothing."""

    def on_change(self, workloads: Set[str], notice: Callable[[str], None]) -> None:
        """Call `notice` for those of these workloads that have checks, or requests."""
        for key in workloads:
            found = self._view.workloads.get(key)
            if found is not None and (found.checks or self._view.requests_of(key)):
                notice(key)

    async def reconcile(self, key: str) -> float | None:
        """Do what is due; return in how many seconds to look again. Raises ApiError."""
        workload, version = self._view.workloads.get(key), self.version()
        if workload is None or not version:
            return None  # the requests of a deleted workload go with it
        configs = self._configs(workload)
        requests = self._view.requests_of(key)
        step = provisioning.decide(workload, configs, requests, now=self._clock.wall())
        for old in step.delete:
            where = {"version": version, "namespace": old.meta.namespace}
            await self._autoscaling.delete(REQUESTS, old.meta.name, **where)
            for pods in old.spec.pod_sets:
                await self._drop_template(pods.pod_template_ref.get("name", ""), old.meta.namespace)
        again = None
        for check, name in step.create.items():
            config = configs[check]
            assert config is not None, "nothing is created for a check that is not active"
            again = await self._create(workload, name, config) or again
        await self._write(workload, step)
        return again

    def _configs(self, workload: WorkloadInfo) -> dict[str, ProvisioningConfigInfo | None]:
        """Return the configurations of a workload's checks that are ours; None: not active."""
        found: dict[str, ProvisioningConfigInfo | None] = {}
        for state in workload.checks:
            check = self._view.admission_checks.get(state.name)
            if check is not None and check.controller == provisioning.CONTROLLER:
                config = provisioning.config_of(check, self._view.provisioning_configs)
                found[state.name] = config if check.active else None
        return found

    async def _write(self, before: WorkloadInfo, step: provisioning.RequestsStep) -> None:
        changed = zip(before.checks, step.checks, strict=True)
        await self._workloads.write_status(before, replace(before, checks=step.checks))
        for was, new in changed:
            if was.state != new.state:
                moved = f"updated state from {was.state} to {new.state}"
                note = f"Admission check {new.name} {moved} with message: {new.message}"
                occasion = f"{new.name}{new.state}{new.last_transition}"
                self._record(
                    event(before, CheckReason.UPDATED, note[:LONGEST_NOTE], occasion=occasion)
                )

    async def _create(
        self, workload: WorkloadInfo, name: str, config: ProvisioningConfigInfo
    ) -> float | None:
        """Ask for nodes; return in how many seconds to try again where that is refused."""
        try:
            raw = await self._ask(workload, name, config.spec)
        except (PlacementError, FlavorNotFoundError, msgspec.MsgspecError, RefusedError) as error:
            note = f'Error creating ProvisioningRequest "{name}": {error}'[:LONGEST_NOTE]
            failed = CheckReason.FAILED_CREATE
            self._record(event(workload, failed, note, warning=True, occasion=note))
            return LATE
        if raw is None:
            return LATE  # the watch has not shown it yet, or it is another client's
        self._queues.apply(events.Applied(self._decoder.provisioning_request(raw)))
        note = f'Created ProvisioningRequest: "{name}"'
        self._record(event(workload, CheckReason.REQUEST_CREATED, note, occasion=name))
        return None

    async def _ask(
        self, workload: WorkloadInfo, name: str, spec: ProvisioningConfigSpec
    ) -> bytes | None:
        asked = provisioning.pod_templates(
            workload,
            self._view.flavors,
            name,
            managed=spec.managed_resources,
            merge=spec.pod_set_merge_policy,
        )
        for each in asked:
            if not await self._autoscaling.create(TEMPLATES, each.template):
                # One of an earlier attempt to ask, which may have other contents.
                await self._drop_template(each.name, workload.meta.namespace)
                await self._autoscaling.create(TEMPLATES, each.template)
        body = provisioning.request(
            workload,
            name,
            asked,
            class_name=spec.provisioning_class_name,
            parameters=spec.parameters,
            version=self.version(),
        )
        return await self._autoscaling.post(REQUESTS, body)

    async def _drop_template(self, name: str, namespace: str) -> None:
        await self._autoscaling.delete(TEMPLATES, name, version="v1", namespace=namespace)
