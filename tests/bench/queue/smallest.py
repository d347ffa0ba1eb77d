"""`python -m tests.bench.queue.smallest`: the smallest program that starts queued Jobs.

It resumes a suspended Job where its cohort has quota, by one write, and makes no Workload: what it
reaches in part `jobs` is the most that any queue could, beside the same job controller,
kube-scheduler and kubelets. It is measured as others are, by `--external`.
"""

import asyncio
import os
from collections import Counter, deque
from pathlib import Path

import uvloop

from tests.bench import watching
from tests.bench.queue.jobs import JOBS
from tests.bench.queue.stand_in import Served
from tests.bench.queue.wire import Job, JobEvent
from tests.harness.sessions import session

_CONNECTIONS = 32


class Smallest(Served):
    """Starts Jobs while it runs."""

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Start Jobs in the order of their creation in each cohort, without end."""
        pending: dict[str, deque[Job]] = {}
        used: dict[str, tuple[str, int]] = {}  # cohort and amount, by Job
        held: Counter[str] = Counter()
        version = await watching.newest(self.http, JOBS)
        async for event in watching.events(self.http, JOBS, version, of=JobEvent):
            job = event.object
            name, cohort = job.metadata.name, self.cohorts[job.queue]
            waiting = pending.setdefault(cohort, deque())
            if event.type == "ADDED" and job.spec.suspend:
                waiting.append(job)
            elif name in used and not job.spec.suspend and not job.used:
                held[cohort] -= used.pop(name)[1]
            while waiting and held[cohort] + _request(waiting[0]) <= self.quota[cohort]:
                first = waiting.popleft()
                used[first.metadata.name] = cohort, _request(first)
                held[cohort] += _request(first)
                path = f"{JOBS}/{first.metadata.name}"
                tasks.create_task(self.send(path, {"spec": {"suspend": False}}))


def _request(job: Job) -> int:
    return job.spec.parallelism * job.spec.template.request


async def main(kubeconfig: Path) -> None:
    """Start Jobs until stopped."""
    async with (
        session(kubeconfig, connections=_CONNECTIONS) as http,
        asyncio.TaskGroup() as tasks,
    ):
        smallest = Smallest(http)
        tasks.create_task(smallest.activate())
        tasks.create_task(smallest.start(tasks))


if __name__ == "__main__":
    uvloop.run(main(Path(os.environ["KUBECONFIG"])))
