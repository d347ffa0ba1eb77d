"""The objects of a load. All Jobs are in the namespace of the queues."""

from collections.abc import Iterator

from extender.resources.quantity import CPU
from tests.bench.jobs.load import Load
from tests.bench.queue import manifests as queues
from tests.harness import objects
from tests.harness.objects import Object

NAMESPACE = queues.NAMESPACE
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"


def nodes(load: Load) -> Iterator[Object]:
    """Yield the nodes."""
    for number in range(load.nodes):
        yield objects.node(f"node-{number}", f"{load.node_cpu}m")


def jobs(load: Load) -> Iterator[Object]:
    """Yield the suspended Jobs, in the order of their creation: one for each queue in turn."""
    names = [queue.name for queue in load.quotas().queues()]
    for number in range(load.jobs):
        yield _job(f"job-{number:05}", names[number % len(names)], load)


def _job(name: str, queue: str, load: Load) -> Object:
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
