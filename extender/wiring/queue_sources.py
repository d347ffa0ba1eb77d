"""What feeds the queue's state: watches, lists, and jobs that are asked for one by one."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast
from urllib.parse import quote

import structlog

from extender.jobs.registry import Integration
from extender.kube.client import KubeClient
from extender.kube.decode_queues import QueueDecoder
from extender.kube.errors import ApiError, NotFoundError
from extender.kube.lists import everything
from extender.kube.owners import Owners
from extender.kube.queues import JobWriter, collection, objects
from extender.kube.reflector import Reflector
from extender.kube.watch import Watcher
from extender.runtime.faults import FAULTS
from extender.runtime.pacer import Pacer
from extender.state.queues import events as ev
from extender.state.queues.events import Record
from extender.state.queues.records import (
    ClusterQueueInfo,
    CohortInfo,
    FlavorInfo,
    JobObject,
    LimitRangeInfo,
    LocalQueueInfo,
    NamespaceInfo,
    OwnerRef,
    PriorityClassInfo,
    RuntimeClassInfo,
    WorkloadInfo,
    WorkloadPriorityClassInfo,
)
from extender.state.queues.store import Queues
from extender.wiring.reflectors import backoff

R = TypeVar("R", bound=Record)

_log = structlog.get_logger(__name__)


class Sources:
    """Keeps the queue's state in step with the API server.

    Jobs are watched by a label where `job_selector` names one; those without it can be asked for.
    """

    def __init__(
        self,
        client: KubeClient,
        queues: Queues,
        decoder: QueueDecoder,
        *,
        integrations: Sequence[Integration],
        job_selector: str,
        pacer: Pacer,
    ) -> None:
        self._client = client
        self._owners = Owners(client)
        self._pacer = pacer
        self._queues = queues
        self._decoder = decoder
        self._integrations = {each.name: each for each in integrations}
        self._job_selector = job_selector
        self._job_reflectors = {each.name: self._jobs(each) for each in integrations}
        self.reflectors: list[Reflector[Any]] = [*self._records(), *self._job_reflectors.values()]
        self.jobs = JobWriter(client, self._decode_job)
        """Reads and writes jobs."""

    def kinds(self) -> set[str]:
        """Return the kinds, as group/Kind, all of whose jobs are known."""
        return {
            f"{each.group}/{each.kind}"
            for each in self._integrations.values()
            if self._job_reflectors[each.name].synced
        }

    async def read(self, owner: OwnerRef, namespace: str) -> JobObject | None:
        """Return a job as it is stored, None where it is gone. Raises ApiError."""
        group = owner.api_version.rpartition("/")[0]
        of = next(
            i for i in self._integrations.values() if (i.group, i.kind) == (group, owner.kind)
        )
        path = objects(of.group, of.version, of.plural, namespace=namespace)
        try:
            found = await self.jobs.read(f"{path}/{owner.name}", kind=of.name)
        except NotFoundError:
            return None
        return found if found.meta.uid == owner.uid else None

    async def exists(self, owner: OwnerRef, namespace: str) -> bool | None:
        """Return whether an object of any kind is there, None where our role may not know."""
        return await self._owners.exists(owner, namespace)

    def is_watched(self, job: JobObject) -> bool:
        """Return whether the watch shows a job as it is now."""
        return bool(job.queue_name) or not self._job_selector

    async def catch_up(self) -> None:
        """Know all that another leader wrote: a watch may be behind, and not notice for minutes."""
        pauses = backoff(0.2, 5.0)
        while True:
            try:
                return await self._read_all()
            except ApiError as error:
                _log.warning("could not read what there is", error=str(error))
                await asyncio.sleep(pauses.next())

    async def _read_all(self) -> None:
        path, pacer = collection("workloads", ""), self._pacer
        found = await everything(self._client, path, self._decoder.workload, pacer=pacer)
        await pacer.go_through(self._guarded(ev.Applied(workload)) for workload in found)
        for each in self._integrations.values():
            path = objects(each.group, each.version, each.plural)
            decode = partial(self._decode_job, kind=each.name)
            selector = f"&labelSelector={quote(self._job_selector)}" if self._job_selector else ""
            with suppress(NotFoundError):  # there may be no such kind
                jobs = await everything(self._client, path, decode, selector=selector, pacer=pacer)
                await pacer.go_through(self._guarded(ev.JobApplied(job)) for job in jobs)

    def _guarded(self, event: ev.Event) -> bool:
        """Have an object known; return whether the state took it."""
        try:
            self._queues.apply(event)
        except Exception as error:  # noqa: BLE001 - a bug, which costs this one object
            FAULTS.report("state", error, key=type(event).__name__)
            return False
        return True

    def _decode_job(self, raw: bytes, kind: str) -> JobObject:
        integration = self._integrations[kind]
        return self._decoder.job(
            raw,
            kind=kind,
            group_of=integration.group_of,
            done=integration.done,
            concerns=integration.concerns,
        )

    def _records(self) -> list[Reflector[Any]]:
        decoder = self._decoder
        return [
            self._reflector("resourceflavors", FlavorInfo, decoder.flavor),
            self._reflector("clusterqueues", ClusterQueueInfo, decoder.cluster_queue),
            self._reflector("cohorts", CohortInfo, decoder.cohort),
            self._reflector("localqueues", LocalQueueInfo, decoder.local_queue),
            self._reflector("workloads", WorkloadInfo, decoder.workload),
            self._reflector(
                "workloadpriorityclasses",
                WorkloadPriorityClassInfo,
                decoder.workload_priority_class,
            ),
            self._reflector(
                "namespaces", NamespaceInfo, decoder.namespace, path="/api/v1/namespaces"
            ),
            self._reflector(
                "priorityclasses",
                PriorityClassInfo,
                decoder.priority_class,
                path="/apis/scheduling.k8s.io/v1/priorityclasses",
            ),
            self._reflector(
                "limitranges", LimitRangeInfo, decoder.limit_range, path="/api/v1/limitranges"
            ),
            self._reflector(
                "runtimeclasses",
                RuntimeClassInfo,
                decoder.runtime_class,
                path="/apis/node.k8s.io/v1/runtimeclasses",
            ),
        ]

    def _reflector(
        self, kind: str, record: type[R], decode: Callable[[bytes], R], *, path: str = ""
    ) -> Reflector[R]:
        of = cast("type[Record]", record)

        def listed(found: Sequence[R]) -> Iterator[ev.Change]:
            return self._queues.replace(ev.Listed(of, found, reflector.version))

        reflector = Reflector[R](
            kind,
            self._watcher(path or collection(kind, "")),
            decode,
            listed=listed,
            applied=lambda found: self._tell(ev.Applied(found)),
            deleted=lambda found: self._tell(ev.Deleted(found)),
        )
        reflector.known = lambda which: cast(
            "R | None", self._queues.known(of, which.key, which.uid)
        )
        return reflector

    def _jobs(self, integration: Integration) -> Reflector[JobObject]:
        name = integration.name
        reflector = Reflector[JobObject](
            f"jobs of {name}",
            self._watcher(
                objects(integration.group, integration.version, integration.plural),
                self._job_selector,
            ),
            lambda raw: self._decode_job(raw, name),
            listed=lambda found: self._queues.replace(
                ev.JobsListed(name, found, reflector.version)
            ),
            applied=lambda found: self._tell(ev.JobApplied(found)),
            deleted=lambda found: self._tell(ev.JobDeleted(found)),
        )
        reflector.known = lambda which: self._queues.snapshot().job_of(which.uid, which.namespace)
        return reflector

    def _watcher(self, path: str, label_selector: str = "") -> Watcher:
        return Watcher(
            self._client,
            path,
            sleep=asyncio.sleep,
            backoff=backoff(0.1, 5.0),
            selectors={"labelSelector": label_selector},
            optional=True,
        )

    def _tell(self, event: ev.Event) -> None:
        self._queues.apply(event)
