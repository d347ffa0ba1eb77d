"""Writes that the API server refuses: texts are cut to fit, and an Event says the rest."""

from functools import partial
from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import API, JOBS, WORKLOADS, Queues, condition
from tests.harness.client import Api
from tests.harness.kinds import CRDS, fresh, rayjob, template

pytestmark = pytest.mark.usefixtures("gang", "reconciler")

RAY_JOBS = "ray.io/v1/rayjobs"
LONGEST = 32768


def test_a_job_that_ends_with_a_long_message_gives_its_quota_back(api: Api, queues: Queues) -> None:
    api.apply(CRDS)
    queues.simple(cpu=40)
    api.create(fresh(rayjob(), namespace=queues.namespace, queue="queue"))
    api.wait_for("it has a workload", lambda: queues.workload("work"))
    queues.await_admitted("work")
    message = "\u2588" * 40_000
    status = {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed", "message": message}

    api.patch(RAY_JOBS, "work", queues.namespace, body={"status": status}, subresource="status")

    ended = queues.await_condition("work", "Finished", reason="Failed")
    assert len(ended["message"]) == LONGEST
    assert ended["message"].startswith("\u2588" * 30_000)


def test_a_long_reason_is_written(api: Api, queues: Queues) -> None:
    names = [queues.flavor(f"{'long-' * 30}{number}") for number in range(60)]
    quotas = [{"name": "cpu", "nominalQuota": 1}]
    given = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": name, "resources": quotas} for name in names],
    }
    queues.local_queue("queue", queues.cluster_queue(resourceGroups=[given]))
    pod: Any = template("2")
    del pod["spec"]["containers"][0]["resources"]["requests"]["memory"]
    pod_sets = [{"name": f"set-{number}", "count": 1, "template": pod} for number in range(8)]
    api.create(
        {
            "apiVersion": API,
            "kind": "Workload",
            "metadata": {"name": "large", "namespace": queues.namespace},
            "spec": {"queueName": "queue", "podSets": pod_sets},
        }
    )

    def reported() -> Any:
        found = condition(api.get(WORKLOADS, "large", queues.namespace), "QuotaReserved")
        return found if found.get("reason") == "ExceedsMaxQuota" else None

    reason = api.wait_for("it says why it waits", reported)
    assert len(reason["message"]) == LONGEST


def test_a_workload_that_may_not_be_made_is_an_event_about_the_job(
    api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "4")
    queues.simple(cpu=4)
    hard = {"count/workloads.kueue.x-k8s.io": "0"}
    metadata = {"name": "none", "namespace": queues.namespace}
    api.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata,
                "spec": {"hard": hard}})  # fmt: skip
    api.patch(
        "resourcequotas", "none", queues.namespace,
        body={"status": {"hard": hard, "used": hard}}, subresource="status",
    )  # fmt: skip
    queues.job("job", run_for="100ms")

    refused = partial(api.notes, queues.namespace, "Invalid", kind="Job", name="job")
    [note] = api.wait_for("the refusal is told", refused)
    assert "exceeded quota" in note

    api.delete("resourcequotas", "none", queues.namespace)
    queues.await_finished("job")
    assert api.get(JOBS, "job", queues.namespace)["status"]["succeeded"] == 1


def test_a_queue_that_lacks_many_flavors_says_so(api: Api, queues: Queues) -> None:
    name = queues.create(
        "ClusterQueue",
        "lacking",
        {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": [f"example.com/{group}"],
                    "flavors": [
                        {
                            "name": f"{'missing-' * 28}{group}-{number}",
                            "resources": [{"name": f"example.com/{group}", "nominalQuota": 1}],
                        }
                        for number in range(16)
                    ],
                }
                for group in range(16)
            ],
        },
    )
    queues.await_inactive(name, "FlavorNotFound")
    message = condition(api.get(f"{API}/clusterqueues", name), "Active")["message"]
    assert len(message) == LONGEST
