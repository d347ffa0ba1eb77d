"""Quota and room: a job is admitted when its queue has quota and the nodes have room for it."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import POD_GROUPS, Gangs
from tests.cluster.operators import Operator
from tests.cluster.queues import Queues, condition
from tests.harness import kinds, objects
from tests.harness.client import Api
from tests.harness.kinds import CRDS

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

HOLD = "test.example/hold"
SECONDS = 120


def needs_room(queues: Queues, cpu: int, **spec: Any) -> str:
    """Make a ClusterQueue whose jobs need room, and the LocalQueue `queue`."""
    name, _ = queues.simple(cpu=cpu, **spec)
    queues.require_room(name)
    return name


def group_of(queues: Queues, api: Api, job: str) -> Mapping[str, Any]:
    workload = queues.its_workload(job)
    return api.get(POD_GROUPS, workload["metadata"]["name"], queues.namespace)


def await_reported(queues: Queues, job: str, message: str) -> None:
    """Wait until a job waits for room with this message; jobs before it may still be ending."""

    def reported() -> bool:
        found = queues.condition(job, "QuotaReserved")
        said = (found.get("status"), found.get("reason"), found.get("message"))
        return said == ("False", "WaitingForRoom", message)

    queues.api.wait_for(f"{job} has the message {message}", reported, SECONDS)


def pods_of(api: Api, namespace: str, job: str) -> list[dict[str, Any]]:
    """Return the pods of a job that are ready."""
    return [
        pod
        for pod in api.list("pods", namespace)
        if pod["metadata"].get("labels", {}).get("job-name") == job
        and condition(pod, "Ready").get("status") == "True"
    ]


def running(api: Api, namespace: str) -> set[str]:
    """Return the names of the jobs of which pods have a node and have not ended."""
    return {
        pod["metadata"]["labels"]["job-name"]
        for pod in api.list("pods", namespace)
        if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed")
    }


def await_running(api: Api, queues: Queues, job: str, count: int) -> list[dict[str, Any]]:
    """Wait until so many pods of a job are ready, and return them."""

    def run() -> list[dict[str, Any]] | None:
        found = pods_of(api, queues.namespace, job)
        return found if len(found) == count else None

    pods = api.wait_for(f"{count} pods of {job} run", run, SECONDS)
    assert pods is not None
    return pods


def test_with_room_they_run_one_after_the_other(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(2, "2")
    needs_room(queues, 16)
    queues.job("one", 4, run_for="1h")
    queues.job("two", 4, run_for="1h")

    def admitted() -> list[str]:
        return [
            job
            for job in ("one", "two")
            if queues.condition(job, "Admitted").get("status") == "True"
        ]

    first = api.wait_for("one of them is admitted", admitted, SECONDS)[0]
    second = "one" if first == "two" else "two"
    await_reported(queues, second, "quota yes; room for 0 of 4: 4 cpu short on 2 nodes")
    assert admitted() == [first]
    await_running(api, queues, first, 4)
    assert queues.is_suspended(second)
    queues.end_pods(first)

    queues.await_admitted(second)
    assert not running(api, queues.namespace) & {first}
    await_running(api, queues, second, 4)
    queues.end_pods(second)
    queues.await_finished(first, second)
    made = group_of(queues, api, second)
    assert made["spec"]["minMember"] == 4
    [owner] = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Job", second)


def test_a_node_that_comes_lets_in_a_waiting_job(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "2")
    needs_room(queues, 16)
    queues.job("job", 4, run_for="1h")
    await_reported(queues, "job", "quota yes; room for 2 of 4: 2 cpu short on 1 node")

    nodes(1, "2", prefix="new")

    queues.await_admitted("job")
    api.wait_for(
        "all pods have a node",
        lambda: (
            len([p for p in api.list("pods", queues.namespace) if p["spec"].get("nodeName")]) == 4
        ),
        SECONDS,
    )


# -- victims whose pods take their time to end


def let_go(api: Api, pod: Mapping[str, Any]) -> None:
    """Let a pod go whose kubelet has ended it."""
    meta = pod["metadata"]
    left = [name for name in meta.get("finalizers", []) if name != HOLD]
    if left != meta.get("finalizers", []):
        body = {"metadata": {"finalizers": left}}
        api.patch("pods", meta["name"], meta["namespace"], body=body)


def stubborn(queues: Queues, api: Api, job: str) -> None:
    """Run a job whose pod does not go at once when it is deleted."""
    made = objects.job(
        job, 1, namespace=queues.namespace, queue="queue", suspend=True, cpu="1", run_for="1h"
    )
    made["spec"]["template"]["metadata"]["finalizers"] = [HOLD]
    api.create(made)
    await_running(api, queues, job, 1)


def ending(api: Api, queues: Queues) -> list[dict[str, Any]]:
    """Return the pods that are being deleted and still there, by name."""
    found = [
        p for p in api.list("pods", queues.namespace) if p["metadata"].get("deletionTimestamp")
    ]
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def evictions(queues: Queues, job: str) -> int:
    """Return how often a job was preempted."""
    workload = queues.its_workload(job)
    return sum(each["count"] for each in workload["status"]["schedulingStats"]["evictions"])


def test_victims_stay_away_until_the_pods_of_all_have_ended(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(2, "2")
    needs_room(queues, 4, preemption={"withinClusterQueue": "LowerPriority"})
    victims = [f"small{number}" for number in range(4)]
    for job in victims:
        stubborn(queues, api, job)
    queues.job("large", 4, cpu="1", labels=priority(queues, 10), run_for="1h")

    for job in victims:
        queues.await_condition(job, "QuotaReserved", "False")
    api.wait_for("their pods end", lambda: len(ending(api, queues)) == 4, SECONDS)

    def are_left(count: int) -> bool:
        return len(ending(api, queues)) == count

    for left in (3, 2, 1):
        queues.await_condition(
            "large", "QuotaReserved", "False", reason="WaitingForPreemptedWorkloads"
        )
        let_go(api, ending(api, queues)[0])
        gone = f"{left} of their pods are left"
        api.wait_for(gone, partial(are_left, left), SECONDS)
        # What fits on what is free now is tried before anything behind it.
        queues.job(f"late{left}", 1, cpu=f"{left}00m", run_for="1h")
        queues.await_condition(f"late{left}", "QuotaReserved", "False", reason="WaitingForQuota")
        assert all(queues.is_suspended(job) for job in [*victims, "large"])
    let_go(api, ending(api, queues)[0])

    queues.await_admitted("large")
    await_running(api, queues, "large", 4)
    assert [evictions(queues, job) for job in victims] == [1, 1, 1, 1]


def test_others_do_not_take_room_that_was_found_for_a_job(
    api: Api, queues: Queues, gangs: Gangs, nodes: NodeFactory
) -> None:
    """Its pods are not there yet: the operator of its kind is slow."""
    api.apply(CRDS)
    nodes(1, "4")
    needs_room(queues, 8)
    job = kinds.kubeflow("PyTorchJob", "pytorchReplicaSpecs", Master=1, Worker=3)
    labels = {kinds.QUEUE: "queue"}
    meta = {"name": "slow", "namespace": queues.namespace, "labels": labels}
    operator = Operator(api, api.create({**job, "metadata": meta}))
    queues.await_admitted("slow")
    api.wait_for("it is let go", lambda: not operator.suspended, SECONDS)
    granted = group_of(queues, api, "slow")["status"]["grantedRoom"]
    assert [amounts["cpu"] for amounts in granted["nodes"].values()] == ["4"]

    gangs.create("quick", 2, cpu="1")
    gangs.await_refused("quick", "", timeout=SECONDS)
    operator.start()

    def all_run() -> bool:
        pods = [p for p in api.list("pods", queues.namespace) if p["spec"].get("nodeName")]
        return len(pods) == 4 and all(p["metadata"]["name"].startswith("slow-") for p in pods)

    api.wait_for("all of its pods have nodes, and no others", all_run, SECONDS)

    # Nothing is kept for it any more.
    names = [pod["metadata"]["name"] for pod in api.list("pods", queues.namespace)]
    for name in names:
        if name.startswith("slow-"):
            api.delete("pods", name, queues.namespace)
    gangs.await_phases("quick", Running=2)


# -- victims for room alone


FOR_ROOM = {"metadata": {"annotations": {"scheduling.x-k8s.io/preempt-for-room": "LowerPriority"}}}


def priority(queues: Queues, value: int) -> dict[str, str]:
    """Make a WorkloadPriorityClass, and return the label for it."""
    return {"kueue.x-k8s.io/priority-class": queues.priority_class(f"p{value}", value)}


def test_as_few_as_needed_are_preempted_for_room(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    """Two of three nodes are needed: the one with the most important job is spared."""
    nodes(3, "2")
    name = needs_room(queues, 100)
    queues.job("spared", 2, labels=priority(queues, 5), run_for="1h")
    await_running(api, queues, "spared", 2)
    queues.job("wide", 2, run_for="1h")
    await_running(api, queues, "wide", 2)
    stubborn(queues, api, "slow")
    queues.job("beside", 1, run_for="1h")
    await_running(api, queues, "beside", 1)
    queues.job("large", 4, labels=priority(queues, 10), run_for="1h")
    await_reported(queues, "large", "quota yes; room for 0 of 4: 4 cpu short on 3 nodes")

    api.patch("kueue.x-k8s.io/v1beta2/clusterqueues", name, body=FOR_ROOM)

    victims = ("wide", "slow", "beside")
    for job in victims:
        queues.await_condition(job, "QuotaReserved", "False")
    preempted = queues.condition("slow", "Preempted")
    assert (preempted["status"], preempted["reason"]) == ("True", "ForRoom")
    assert f"workload {queues.namespace}/job-large-" in preempted["message"]
    assert "due to room on nodes" in preempted["message"]
    waits = queues.await_condition(
        "large", "QuotaReserved", "False", reason="WaitingForPreemptedWorkloads"
    )
    assert waits["message"].startswith("quota yes; room for ")
    api.wait_for("all other pods have ended", lambda: len(ending(api, queues)) == 1, SECONDS)
    queues.job("late", 1, cpu="900m", run_for="1h")  # it would fit beside that pod
    queues.await_condition("late", "QuotaReserved", "False", reason="WaitingForRoom")
    assert queues.is_suspended("large")
    let_go(api, ending(api, queues)[0])

    queues.await_admitted("large")
    await_running(api, queues, "large", 4)
    assert len(pods_of(api, queues.namespace, "spared")) == 2
    assert queues.condition("spared", "Evicted") == {}
    assert [evictions(queues, job) for job in victims] == [1, 1, 1]
