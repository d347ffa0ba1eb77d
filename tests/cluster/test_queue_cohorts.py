"""Quota that is lent: limits, trees of cohorts, flavors in order; and what is tried again when."""

from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import API, JOBS, QUEUE, Queues, group
from tests.harness.client import Api

pytestmark = pytest.mark.usefixtures("gang", "reconciler")


@pytest.fixture(autouse=True)
def _nodes(nodes: NodeFactory) -> None:
    nodes(2, "16")


def member(queues: Queues, short: str, flavor: str, cpu: Any, **spec: Any) -> None:
    """Make a ClusterQueue, and a LocalQueue of the short name."""
    groups = [group(flavor, cpu=cpu)]
    queues.local_queue(short, queues.cluster_queue(short, resourceGroups=groups, **spec))


def test_a_tree_of_cohorts_shares_what_its_root_has(queues: Queues, api: Api) -> None:
    """The root has quota of its own; a branch may take so much of it as its limit says."""
    flavor = queues.flavor()
    groups = [group(flavor, cpu=2, memory="1Ti")]
    root = queues.create("Cohort", "root", {"resourceGroups": groups})
    limited = [group(flavor, cpu={"nominalQuota": 0, "borrowingLimit": 1}, memory="1Ti")]
    left = queues.create("Cohort", "left", {"parentName": root, "resourceGroups": limited})
    right = queues.create("Cohort", "right", {"parentName": root})
    member(queues, "left", flavor, 1, cohortName=left)
    member(queues, "right", flavor, 1, cohortName=right)

    queues.job("in-left", 3, queue="left", run_for="1h")
    queues.await_condition("in-left", "QuotaReserved", "False", reason="ExceedsMaxQuota")
    limit = [group(flavor, cpu={"nominalQuota": 0, "borrowingLimit": 2}, memory="1Ti")]
    api.patch(f"{API}/cohorts", left, body={"spec": {"resourceGroups": limit}})
    queues.await_admitted("in-left")

    queues.job("in-right", 2, queue="right", run_for="1h")
    reported = queues.await_condition(
        "in-right", "QuotaReserved", "False", reason="WaitingForQuota"
    )
    assert "1 more needed" in reported["message"]
    api.delete(JOBS, "in-left", queues.namespace)
    queues.await_admitted("in-right")


def test_a_job_that_waits_goes_to_another_queue(queues: Queues, api: Api) -> None:
    queues.simple(cpu=1)
    queues.local_queue("other", queues.cluster_queue("other", cpu=2))
    queues.job("job", 2, run_for="1h")
    queues.await_condition("job", "QuotaReserved", "False", reason="ExceedsMaxQuota")
    before = queues.its_workload("job")

    labels = {"metadata": {"labels": {QUEUE: "other"}}}
    api.patch(JOBS, "job", queues.namespace, body=labels)

    queues.await_admitted("job")
    after = queues.its_workload("job")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["queueName"] == "other"
