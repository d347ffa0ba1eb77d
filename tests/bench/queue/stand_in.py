"""`python -m tests.bench.queue.stand_in`: the smallest controller that admits Workloads.

It shows what `--external` asks of a program, and lets the benchmark be tested by itself. The
oldest of the highest priority goes first, what does not fit is passed by, and each admission
is one write. It preempts nothing.
"""

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import Any, cast

import aiohttp
import msgspec
import uvloop

from extender.resources.quantity import CPU, amount
from tests.bench import watching
from tests.bench.queue.manifests import API_VERSION, FLAVOR, NAMESPACE, WORKLOADS
from tests.bench.queue.mimic import merged, timestamp
from tests.bench.queue.wire import Condition, Workload, WorkloadEvent
from tests.harness.sessions import session

_CONNECTIONS = 16
_CYCLE_SECONDS = 0.02
_LOOK_SECONDS = 0.2
_CLUSTER_QUEUES = f"/apis/{API_VERSION}/clusterqueues"
_LOCAL_QUEUES = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/localqueues"
_CONFLICT = 409


class Served:
    """The queues of a load: says of each that it is active, and knows their quota."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.http = http
        self.cohorts: dict[str, str] = {}  # by queue
        self.limits: dict[str, int] = {}
        self.quota: Counter[str] = Counter()  # by cohort

    async def activate(self) -> None:
        """Say of each queue that it is active, without end."""
        while True:
            for each in await self._list(_CLUSTER_QUEUES):
                self._learn(each)
                await self._activate(_CLUSTER_QUEUES, each)
            for each in await self._list(_LOCAL_QUEUES):
                await self._activate(_LOCAL_QUEUES, each)
            await asyncio.sleep(_LOOK_SECONDS)

    def _learn(self, queue: dict[str, Any]) -> None:
        name, spec = queue["metadata"]["name"], queue["spec"]
        if name in self.cohorts:
            return
        quota = spec["resourceGroups"][0]["flavors"][0]["resources"][0]
        nominal = amount(CPU, quota["nominalQuota"])
        self.cohorts[name] = spec["cohortName"]
        self.limits[name] = nominal + amount(CPU, quota.get("borrowingLimit", "1000000"))
        self.quota[spec["cohortName"]] += nominal

    async def _activate(self, path: str, queue: dict[str, Any]) -> None:
        if not queue.get("status", {}).get("conditions"):
            condition = Condition("Active", "True", "Ready", "It is served", timestamp())
            body = {"status": {"conditions": [condition]}}
            await self.send(f"{path}/{queue['metadata']['name']}/status", body)

    async def _list(self, path: str) -> list[dict[str, Any]]:
        async with self.http.get(path) as answer:
            answer.raise_for_status()
            return cast("list[dict[str, Any]]", msgspec.json.decode(await answer.read())["items"])

    async def send(self, path: str, body: object) -> int:
        """Merge a patch, and return 200 or 409. Raises RuntimeError for other answers."""
        headers = {"Content-Type": "application/merge-patch+json"}
        data = msgspec.json.encode(body)
        async with self.http.patch(path, data=data, headers=headers) as answer:
            if not answer.ok and answer.status != _CONFLICT:
                raise RuntimeError(f"PATCH {path}: {answer.status} {await answer.text()}")
            await answer.read()
            return answer.status


class StandIn(Served):
    """Admits while it runs."""

    def __init__(self, http: aiohttp.ClientSession, tasks: asyncio.TaskGroup) -> None:
        super().__init__(http)
        self._tasks = tasks
        self._changed = asyncio.Event()
        self._pending: dict[str, Workload] = {}
        self._assumed: dict[str, Workload] = {}  # admitted by us, not seen yet
        self._held: dict[str, tuple[str, int]] = {}  # queue and amount

    async def follow(self) -> None:
        """Take in what happens to Workloads, without end."""
        version = await watching.newest(self.http, WORKLOADS)
        async for event in watching.events(self.http, WORKLOADS, version, of=WorkloadEvent):
            self._take(event)
            self._changed.set()

    async def admit(self) -> None:
        """Admit what fits whenever something changed, without end."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._cycle()
            await asyncio.sleep(_CYCLE_SECONDS)

    def _take(self, event: WorkloadEvent) -> None:
        workload = event.object
        name = workload.metadata.name
        self._pending.pop(name, None)
        self._held.pop(name, None)
        if event.type == "DELETED" or workload.is_true("Finished"):
            self._assumed.pop(name, None)
            return
        if workload.held:
            self._held[name] = workload.spec.queue_name, workload.held
            self._assumed.pop(name, None)
        elif name not in self._assumed:
            self._pending[name] = workload

    def _cycle(self) -> None:
        by_queue: Counter[str] = Counter()
        for queue, held in self._held.values():
            by_queue[queue] += held
        for each in self._assumed.values():
            by_queue[each.spec.queue_name] += each.request
        by_cohort: Counter[str] = Counter()
        for queue, held in by_queue.items():
            by_cohort[self.cohorts[queue]] += held
        refused = set()
        for each in sorted(self._pending.values(), key=lambda one: -one.spec.priority):
            queue, request = each.spec.queue_name, each.request
            if (queue, request) in refused:
                continue
            cohort = self.cohorts[queue]
            if (
                by_queue[queue] + request > self.limits[queue]
                or by_cohort[cohort] + request > self.quota[cohort]
            ):
                refused.add((queue, request))
                continue
            by_queue[queue] += request
            by_cohort[cohort] += request
            self._assume(each)

    def _assume(self, workload: Workload) -> None:
        name = workload.metadata.name
        self._assumed[name] = self._pending.pop(name)
        self._tasks.create_task(self._reserve(workload))

    async def _reserve(self, workload: Workload) -> None:
        assignment = {
            "name": "main",
            "count": 1,
            "flavors": {CPU: FLAVOR},
            "resourceUsage": {CPU: f"{workload.request}m"},
        }
        queue = workload.spec.queue_name
        admission = {"clusterQueue": queue, "podSetAssignments": [assignment]}
        changed = [
            Condition("QuotaReserved", "True", "QuotaReserved", f"Quota reserved in {queue}"),
            Condition("Admitted", "True", "Admitted", "The Workload is admitted"),
        ]
        if await self._patch(workload, changed, admission=admission) == _CONFLICT:
            self._assumed.pop(workload.metadata.name, None)
            self._changed.set()

    async def _patch(self, workload: Workload, changed: list[Condition], **status: object) -> int:
        name = workload.metadata.name
        conditions = merged(workload.status.conditions, changed, timestamp())
        version = {"resourceVersion": workload.metadata.resource_version}
        body = {"metadata": version, "status": {**status, "conditions": conditions}}
        return await self.send(f"{WORKLOADS}/{name}/status", body)


async def main(kubeconfig: Path) -> None:
    """Admit until stopped."""
    async with (
        session(kubeconfig, connections=_CONNECTIONS) as http,
        asyncio.TaskGroup() as tasks,
    ):
        stand_in = StandIn(http, tasks)
        tasks.create_task(stand_in.follow())
        tasks.create_task(stand_in.activate())
        tasks.create_task(stand_in.admit())


if __name__ == "__main__":
    uvloop.run(main(Path(os.environ["KUBECONFIG"])))
