"""`python -m tests.bench.queue.shown [--groups]`: the smallest program that also shows its Jobs.

It starts Jobs as `smallest` does, and writes what users of the API read: a Workload for each with
its quota, ready pods and end, and one Event; with `--groups` also a PodGroup with the room that is
granted to it, its phases, and one Event. Nothing is decided but the quota, so it is the most that a
queue with these objects could reach.
"""

import argparse
import asyncio
import os
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop

from extender.api.wellknown import (
    JOB_UID_LABEL,
    POD_GROUP_LABEL,
    PODSET_LABEL,
    QUEUE_LABEL,
    WORKLOAD_ANNOTATION,
)
from extender.resources.quantity import CPU, amount
from tests.bench import watching
from tests.bench.queue.jobs import JOBS
from tests.bench.queue.manifests import FLAVOR, NAMESPACE, WORKLOADS, Object, of_queue
from tests.bench.queue.mimic import timestamp
from tests.bench.queue.stand_in import Served
from tests.bench.queue.wire import Condition
from tests.harness.sessions import session

_CONNECTIONS = 32
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
_GROUP_VERSION = "scheduling.x-k8s.io/v1alpha1"
_GROUPS = f"/apis/{_GROUP_VERSION}/namespaces/{NAMESPACE}/podgroups"
_FINALIZER = "kueue.x-k8s.io/resource-in-use"


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class _JobSpec(msgspec.Struct):
    template: dict[str, Any] = {}
    parallelism: int = 1


class _JobStatus(msgspec.Struct):
    ready: int = 0
    conditions: list[Condition] = []


class _Job(msgspec.Struct):
    """A Job, and what is written for it."""

    metadata: _Metadata
    spec: _JobSpec
    status: _JobStatus = msgspec.field(default_factory=_JobStatus)

    @property
    def name(self) -> str:
        """The name of its Workload and of its PodGroup."""
        return f"job-{self.metadata.name}"

    @property
    def queue(self) -> str:
        """The LocalQueue, which has the name of its ClusterQueue."""
        return self.metadata.labels[QUEUE_LABEL]

    @property
    def pods(self) -> int:
        """The number of its pods."""
        return self.spec.parallelism

    @property
    def request(self) -> int:
        """CPU of all its pods, in thousandths of a core."""
        containers = self.spec.template["spec"]["containers"]
        return self.pods * sum(
            amount(CPU, each["resources"]["requests"][CPU]) for each in containers
        )

    def owner(self) -> Object:
        """Return the reference of what it owns."""
        name, uid = self.metadata.name, self.metadata.uid
        return {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}

    def workload(self) -> Object:
        """Return its Workload."""
        pods = {"name": "main", "count": self.pods, "template": self.spec.template}
        found = of_queue(
            *("Workload", self.name),
            {"active": True, "podSets": [pods], "priority": 0, "queueName": self.queue},
            namespace=NAMESPACE,
        )
        found["metadata"] |= {
            "finalizers": [_FINALIZER],
            "labels": {JOB_UID_LABEL: self.metadata.uid},
            "ownerReferences": [{**self.owner(), "controller": True, "blockOwnerDeletion": True}],
        }
        return found

    def admission(self) -> Object:
        """Return the quota of its Workload."""
        usage = {CPU: f"{self.request}m"}
        assigned = {"name": "main", "count": self.pods, "flavors": {CPU: FLAVOR}}
        return {
            "clusterQueue": self.queue,
            "podSetAssignments": [{**assigned, "resourceUsage": usage}],
        }

    def room(self) -> Object:
        """Return the room that is granted to it."""
        node = {CPU: f"{self.request}m", "pods": str(self.pods)}
        return {"until": timestamp(), "nodes": {"node-0": node}}

    def start(self) -> Object:
        """Return the change that starts it."""
        meta = {
            "labels": {PODSET_LABEL: "main", POD_GROUP_LABEL: self.name},
            "annotations": {WORKLOAD_ANNOTATION: self.name},
        }
        return {"spec": {"suspend": False, "template": {"metadata": meta}}}

    def phase(self, phase: str) -> Object:
        """Return the status of its PodGroup in that phase."""
        runs, ended = phase == "Running", phase == "Finished"
        conditions = [
            Condition("Scheduled", "True", "Scheduled", "All pods have a node", timestamp()),
            Condition("Running", str(runs), phase, f"{self.pods} pods", timestamp()),
        ]
        return {
            "phase": phase,
            "scheduled": self.pods,
            "running": self.pods * runs,
            "succeeded": self.pods * ended,
            "failed": 0,
            "conditions": conditions,
            "occupiedBy": f"{NAMESPACE}/{self.metadata.name}",
            "scheduleStartTime": timestamp(),
        }


class _JobEvent(msgspec.Struct):
    type: str
    object: _Job


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _PodSpec


class _PodEvent(msgspec.Struct):
    type: str
    object: _Pod


class _Progress:
    """The progress of one Job."""

    def __init__(self) -> None:
        self.pods = 0
        self.has_quota = asyncio.Event()
        self.placed: set[str] = set()
        """The UIDs of its pods that have a node."""
        self.is_placed = asyncio.Event()
        self.is_ready = asyncio.Event()
        self.is_complete = asyncio.Event()


class Shown(Served):
    """Starts Jobs, and writes their objects, while it runs."""

    def __init__(self, http: aiohttp.ClientSession, *, groups: bool) -> None:
        super().__init__(http)
        self._groups = groups
        self._progress: defaultdict[str, _Progress] = defaultdict(_Progress)
        self._pending: defaultdict[str, deque[_Job]] = defaultdict(deque)
        self._held: Counter[str] = Counter()  # by cohort

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Follow Jobs, without end."""
        version = await watching.newest(self.http, JOBS)
        async for event in watching.events(self.http, JOBS, version, of=_JobEvent):
            job, progress = event.object, self._progress[event.object.metadata.name]
            if event.type == "ADDED":
                progress.pods = job.pods
                tasks.create_task(self._serve(job, progress))
            is_complete = any(each.type == "Complete" for each in job.status.conditions)
            if is_complete or job.status.ready == job.pods:
                progress.is_ready.set()
            if is_complete:
                progress.is_complete.set()

    async def place(self) -> None:
        """Follow the nodes of pods, without end."""
        version = await watching.newest(self.http, _PODS)
        async for event in watching.events(self.http, _PODS, version, of=_PodEvent):
            meta = event.object.metadata
            progress = self._progress[meta.labels["job-name"]]
            if event.object.spec.node_name and meta.uid not in progress.placed:
                progress.placed.add(meta.uid)
                if len(progress.placed) == progress.pods:
                    progress.is_placed.set()

    async def _serve(self, job: _Job, progress: _Progress) -> None:
        """Bring one Job from its creation to its end."""
        await self._write("POST", WORKLOADS, job.workload())
        self._pending[self._cohort(job)].append(job)
        self._admit(self._cohort(job))
        await progress.has_quota.wait()
        conditions = [
            Condition("PodsReady", "False", "WaitForStart", "Not all pods are ready yet"),
            Condition("QuotaReserved", "True", "QuotaReserved", f"Quota reserved in {job.queue}"),
            Condition("Admitted", "True", "Admitted", "The workload is admitted"),
        ]
        await self._show(job, conditions, admission=job.admission())
        if self._groups:
            await self._apply(job, "queue", spec={"minMember": job.pods})
            await self._apply(job, "room", status={"grantedRoom": job.room()})
        await self.send(f"{JOBS}/{job.metadata.name}", job.start())
        await self._say("batch/v1", "Job", job.metadata.name, "Started")
        if self._groups:
            await progress.is_placed.wait()
            await self._apply(job, "phase", status=job.phase("Scheduled"))
            await self._say(_GROUP_VERSION, "PodGroup", job.name, "Scheduled")
        await progress.is_ready.wait()
        conditions[0] = Condition("PodsReady", "True", "Started", "All pods are ready")
        await self._show(job, conditions)
        if self._groups:
            await self._apply(job, "phase", status=job.phase("Running"))
        await progress.is_complete.wait()
        conditions.append(Condition("Finished", "True", "Succeeded", "All pods have succeeded"))
        await self._show(job, conditions)
        self._held[self._cohort(job)] -= job.request
        self._admit(self._cohort(job))
        await self.send(f"{WORKLOADS}/{job.name}", {"metadata": {"finalizers": []}})
        if self._groups:
            await self._apply(job, "phase", status=job.phase("Finished"))

    def _cohort(self, job: _Job) -> str:
        return self.cohorts[job.queue]

    def _admit(self, cohort: str) -> None:
        """Give quota to the Jobs of a cohort, in the order of their creation."""
        waiting = self._pending[cohort]
        while waiting and self._held[cohort] + waiting[0].request <= self.quota[cohort]:
            job = waiting.popleft()
            self._held[cohort] += job.request
            self._progress[job.metadata.name].has_quota.set()

    async def _show(self, job: _Job, conditions: Sequence[Condition], **status: Object) -> None:
        """Write the status of a Job's Workload."""
        for each in conditions:
            each.last_transition_time = each.last_transition_time or timestamp()
        await self.send(
            f"{WORKLOADS}/{job.name}/status", {"status": {**status, "conditions": conditions}}
        )

    async def _apply(self, job: _Job, manager: str, **fields: Object) -> None:
        """Apply a part of a Job's PodGroup."""
        meta: Object = {"name": job.name, "namespace": NAMESPACE}
        path = f"{_GROUPS}/{job.name}"
        if "status" in fields:
            path += "/status"
        else:
            meta["ownerReferences"] = [job.owner()]
        body = {"apiVersion": _GROUP_VERSION, "kind": "PodGroup", "metadata": meta, **fields}
        path += f"?fieldManager={manager}&force=true"
        await self._write("PATCH", path, body, of="application/apply-patch+yaml")

    async def _say(self, api_version: str, kind: str, name: str, reason: str) -> None:
        """Write an Event."""
        about = {"apiVersion": api_version, "kind": kind, "name": name, "namespace": NAMESPACE}
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": f"{name}-", "namespace": NAMESPACE},
            "eventTime": timestamp().replace("Z", ".000000Z"),
            "reportingController": "gang-extender/bench",
            "reportingInstance": "bench",
            "type": "Normal",
            "action": "Starting",
            "reason": reason,
            "note": "It is on its way",
            "regarding": about,
        }
        await self._write("POST", _EVENTS, event)

    async def _write(
        self, method: str, path: str, body: Object, *, of: str = "application/json"
    ) -> None:
        """Write an object. Raises RuntimeError where the API server refuses it."""
        data, headers = msgspec.json.encode(body), {"Content-Type": of}
        async with self.http.request(method, path, data=data, headers=headers) as answer:
            if not answer.ok:
                raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
            await answer.read()


async def main(kubeconfig: Path, *, groups: bool) -> None:
    """Start Jobs until stopped."""
    async with (
        session(kubeconfig, connections=_CONNECTIONS) as http,
        asyncio.TaskGroup() as tasks,
    ):
        shown = Shown(http, groups=groups)
        tasks.create_task(shown.activate())
        tasks.create_task(shown.start(tasks))
        if groups:
            tasks.create_task(shown.place())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", action="store_true", help="write a PodGroup for each Job too")
    uvloop.run(main(Path(os.environ["KUBECONFIG"]), groups=parser.parse_args().groups))
