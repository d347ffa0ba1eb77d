"""Equal Jobs, in turn into queues that have quota for a part of them, and their nodes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from extender.resources.quantity import CPU
from tests.bench.queue import load as queues
from tests.bench.queue.manifests import NAMESPACE
from tests.harness import objects
from tests.harness.objects import Object

_QUEUES_OF_COHORT = 5
CLASS = "job"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
_NODE_PODS = 110
_ROOM = 2  # times the pods that have quota


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsLoad:
    """How many of what."""

    jobs: int
    pods: int
    """Of a Job, all at once."""
    cohorts: int = 2
    """Of five queues each, which lend each other their quota."""
    quota: int = 20
    """Of a queue, in Jobs."""
    runtime: float = 1.0
    """Seconds of a pod."""
    rate: float = 0.0
    """Jobs created each second; 0 is as fast as the API server takes them."""
    cpu: int = 100
    """Request of a pod, in thousandths of a core."""

    @property
    def request(self) -> int:
        """Quota that a Job needs, in thousandths of a core."""
        return self.pods * self.cpu

    @property
    def at_once(self) -> int:
        """How many Jobs have quota at a time."""
        return self.cohorts * _QUEUES_OF_COHORT * self.quota

    @property
    def nodes(self) -> int:
        """Number of nodes: they have room for more than all that have quota at a time."""
        return math.ceil(_ROOM * self.at_once * self.pods / _NODE_PODS)

    @property
    def node_cpu(self) -> int:
        """CPU of a node, which as many pods fill as it takes at most."""
        return self.cpu * _NODE_PODS

    def quotas(self) -> queues.Load:
        """Return the queues, in the terms of the load of Workloads."""
        kind = {
            "className": CLASS,
            "request": f"{self.request}m",
            "runtimeMs": round(self.runtime * 1000),
        }
        of_cohort = {
            "className": "queue",
            "count": _QUEUES_OF_COHORT,
            "nominalQuota": f"{self.quota * self.request}m",
            "workloadsSets": [{"count": 1, "workloads": [kind]}],
        }
        cohorts = {"className": "team", "count": self.cohorts, "queuesSets": [of_cohort]}
        return queues.Load.model_validate({"cohorts": [cohorts]})


def nodes(load: JobsLoad) -> Iterator[Object]:
    """Yield the nodes."""
    for number in range(load.nodes):
        yield objects.node(f"node-{number}", f"{load.node_cpu}m")


def jobs(load: JobsLoad) -> Iterator[Object]:
    """Yield the suspended Jobs, in the order of their creation: one for each queue in turn."""
    names = [queue.name for queue in load.quotas().queues()]
    for number in range(load.jobs):
        yield _job(f"job-{number:05}", names[number % len(names)], load)


def _job(name: str, queue: str, load: JobsLoad) -> Object:
    job = objects.job(
        name,
        load.pods,
        namespace=NAMESPACE,
        cpu=f"{load.cpu}m",
        indexed=True,
        suspend=True,
        queue=queue,
        run_for=f"{round(load.runtime * 1000)}ms",
    )
    # The queues have quota of CPU alone.
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {CPU: f"{load.cpu}m"}}
    return job
