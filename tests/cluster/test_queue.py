"""Suspended Jobs under quota: admitted, started in their flavor, run, and quota given back."""

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import API, JOBS, Queues, condition
from tests.harness.client import Api

pytestmark = pytest.mark.usefixtures("gang", "reconciler")


def test_a_suspended_job_is_admitted_runs_and_ends(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    [ssd] = nodes(1, "4", labels={"disk": "ssd"})
    nodes(1, "4", prefix="other")
    flavor = queues.flavor("ssd", nodeLabels={"disk": "ssd"})
    cluster_queue, _ = queues.simple(cpu=4, flavor=flavor)
    queues.job("job", 2, run_for="300ms")

    queues.await_finished("job")

    workload = queues.its_workload("job")
    assert workload["status"]["admission"]["clusterQueue"] == cluster_queue
    [given] = workload["status"]["admission"]["podSetAssignments"]
    assert given == {
        "name": "main",
        "count": 2,
        "flavors": {"cpu": flavor, "memory": flavor},
        "resourceUsage": {"cpu": "2", "memory": "128Mi"},
    }
    assert condition(workload, "Finished")["reason"] == "Succeeded"
    pods = api.list("pods", queues.namespace)
    assert {pod["spec"]["nodeName"] for pod in pods} == {ssd}
    assert condition(api.get(JOBS, "job", queues.namespace), "Complete")["status"] == "True"
    api.wait_for(
        "the numbers are written",
        lambda: (
            api.get(f"{API}/clusterqueues", cluster_queue)["status"].get("admittedWorkloads") == 0
        ),
        timeout=120,  # numbers pause for 40 times what the last write took, at most 30 s
    )


def test_a_job_behind_an_equal_one_gets_the_reason_as_well(queues: Queues) -> None:
    cluster_queue, _ = queues.simple(cpu=1)
    queues.job("first", run_for="1h")
    queues.await_admitted("first")
    where = f"{API}/clusterqueues"
    queues.api.patch(where, cluster_queue, body={"spec": {"stopPolicy": "Hold"}})
    for name in ("next", "third", "fourth"):
        queues.job(name, run_for="1h")
    for name in ("next", "third", "fourth"):
        queues.await_condition(name, "QuotaReserved", "False", reason="Suspended")
    # From here on all stand in one line, of which the first is tried.
    queues.api.patch(where, cluster_queue, body={"spec": {"stopPolicy": "None"}})

    for name in ("next", "third", "fourth"):
        queues.await_condition(name, "QuotaReserved", "False", reason="WaitingForQuota")
