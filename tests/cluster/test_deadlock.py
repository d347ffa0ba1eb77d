"""Two PyTorchJobs that have quota and would block each other forever on the nodes there are."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.operators import Operator
from tests.cluster.queues import Queues, condition
from tests.harness import kinds
from tests.harness.client import Api, Object
from tests.harness.control_plane import ControlPlane
from tests.harness.kinds import CRDS

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

NODES, CPU = 3, 2
WORKERS = 3
SECONDS = 120


class Training:
    """A PyTorchJob that does its work once all of its pods run: they talk to each other.

    A master takes a node for itself, a worker half of one. Masters are more urgent, so that both
    jobs have theirs before any worker is placed: then two places are left, and both want three.
    """

    def __init__(self, api: Api, queues: Queues, name: str, **pod_spec: Any) -> None:
        self.name = name
        self._api, self._namespace = api, queues.namespace
        urgent = {"priorityClassName": queues.name("master"), **pod_spec}
        job = kinds.kubeflow("PyTorchJob", "pytorchReplicaSpecs", Master=1, Worker=WORKERS)
        roles = job["spec"]["pytorchReplicaSpecs"]
        roles["Master"]["template"] = kinds.template(str(CPU), **urgent)
        roles["Worker"]["template"] = kinds.template("1", **pod_spec)
        meta = {"name": name, "namespace": self._namespace, "labels": {kinds.QUEUE: "queue"}}
        self.operator = Operator(api, api.create({**job, "metadata": meta}))

    def pods(self) -> list[Object]:
        """Return its pods."""
        found = self._api.list("pods", self._namespace)
        return [each for each in found if each["metadata"]["name"].startswith(f"{self.name}-")]

    def placed(self) -> int:
        """Return how many of its pods have a node."""
        return sum("nodeName" in pod["spec"] for pod in self.pods())

    def can_work(self) -> bool:
        """Return whether all of its pods run."""
        ready = [condition(pod, "Ready").get("status") == "True" for pod in self.pods()]
        return len(ready) == 1 + WORKERS and all(ready)


@pytest.fixture
def training(api: Api, queues: Queues, nodes: NodeFactory) -> Iterator[ExitStack]:
    """Nodes, and what is to be undone."""
    api.apply(CRDS)
    nodes(NODES, str(CPU))
    name = queues.name("master")
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    api.create({**kind, "metadata": {"name": name}, "preemptionPolicy": "Never"})
    with ExitStack() as stack:
        stack.callback(api.delete, "scheduling.k8s.io/v1/priorityclasses", name)
        yield stack


def found_no_node(pods: Sequence[Object]) -> bool:
    """Return whether kube-scheduler has tried all pods that have no node."""
    rest = (pod for pod in pods if "nodeName" not in pod["spec"])
    return all(condition(pod, "PodScheduled").get("reason") == "Unschedulable" for pod in rest)


def test_under_quota_alone_they_block_each_other(
    api: Api, control_plane: ControlPlane, queues: Queues, training: ExitStack
) -> None:
    """What the next test is for."""
    scheduler = f"late-{queues.suffix}"
    queues.simple(cpu=16)
    jobs = [Training(api, queues, name, schedulerName=scheduler) for name in ("one", "two")]
    queues.await_admitted("one", "two")
    for job in jobs:
        job.operator.start()

    profiles = {"profiles": [{"schedulerName": scheduler}]}
    training.callback(control_plane.scheduler(profiles, name=scheduler).stop)

    def blocked() -> bool:
        pods = [pod for job in jobs for pod in job.pods()]
        return sum(job.placed() for job in jobs) == 4 and found_no_node(pods)

    api.wait_for("the nodes are full, and nothing goes on", blocked, SECONDS)
    assert all(0 < job.placed() < 1 + WORKERS for job in jobs)
    assert not any(job.can_work() for job in jobs)


def test_with_room_both_finish_one_after_the_other(
    api: Api, queues: Queues, training: ExitStack
) -> None:
    name, _ = queues.simple(cpu=16)
    queues.require_room(name)
    by_name = {each: Training(api, queues, each) for each in ("one", "two")}

    def admitted() -> list[str]:
        return [n for n in by_name if queues.condition(n, "Admitted").get("status") == "True"]

    first = api.wait_for("one of them is admitted", admitted, SECONDS)[0]
    second = next(each for each in by_name if each != first)
    queues.await_condition(second, "QuotaReserved", "False", reason="WaitingForRoom")
    assert admitted() == [first]
    assert by_name[second].operator.suspended
    by_name[first].operator.start()
    api.wait_for(f"{first} works", by_name[first].can_work, SECONDS)
    assert by_name[second].operator.suspended

    by_name[first].operator.finish()
    queues.await_finished(first)
    queues.await_admitted(second)
    by_name[second].operator.start()
    api.wait_for(f"{second} works", by_name[second].can_work, SECONDS)
    by_name[second].operator.finish()
    queues.await_finished(second)
