"""Jobs whose pods do not become ready in time: sent back, for longer each time, or for good."""

from functools import partial

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.operators import Operator
from tests.cluster.pods_ready import (
    BASE,
    OWN,
    SECONDS,
    TIMEOUT,
    await_count,
    await_suspended,
    counts,
    status_of,
)
from tests.cluster.queues import JOBS, WORKLOADS, Queues
from tests.harness import kinds
from tests.harness.client import Api
from tests.harness.kinds import CRDS
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang")

RECOVERY, LIMIT = f"{OWN}/pods-ready-recovery-timeout", f"{OWN}/pods-ready-backoff-limit"
SOON = {TIMEOUT: "2", BASE: "1"}


@pytest.fixture(autouse=True)
def _free(queues: Queues) -> None:
    """Let jobs have settings of their own, whatever their ClusterQueue says."""
    queues.job_overrides = "*"


def test_a_late_job_is_admitted_again_and_runs_once_there_is_room(
    reconciler: Reconciler, queues: Queues, nodes: NodeFactory
) -> None:
    cluster_queue, _ = queues.simple(cpu=1)
    queues.job("job", labels=SOON, run_for="1h")
    await_count(queues, "job", 2)

    nodes(1, "4")
    queues.api.patch(JOBS, "job", queues.namespace, body={"metadata": {"labels": {TIMEOUT: "1h"}}})

    queues.api.wait_for(
        "its pods are ready",
        lambda: queues.condition("job", "PodsReady").get("status") == "True",
        timeout=SECONDS,
    )
    assert queues.condition("job", "Requeued")["reason"] == "BackoffFinished"
    assert queues.condition("job", "Evicted")["status"] == "False"
    state = status_of(queues, "job")["requeueState"]
    assert state["count"] >= 2
    assert "requeueAt" not in state
    labels = f'cluster_queue="{cluster_queue}",priority_class=""'

    def is_one(sample: str) -> bool:
        return reconciler.metric(sample) == 1

    for name in ("ready_wait_time", "admitted_until_ready_wait_time"):
        counted = f"kueue_{name}_seconds_count{{{labels}}}"
        queues.api.wait_for(f"{counted} is 1", partial(is_one, counted))


def test_a_job_that_is_late_too_often_is_deactivated_and_begins_anew_when_it_is_activated(
    reconciler: Reconciler, queues: Queues, nodes: NodeFactory
) -> None:
    queues.simple(cpu=1)
    queues.job("job", labels={**SOON, LIMIT: "1"}, run_for="1h")

    why = "DeactivatedDueToRequeuingLimitExceeded"
    queues.api.wait_for(
        "it is deactivated",
        lambda: queues.condition("job", "Evicted").get("reason") == why,
        timeout=SECONDS,
    )
    await_suspended(queues, "job")
    queues.await_condition("job", "QuotaReserved", "False")
    workload = queues.its_workload("job")
    assert workload["spec"]["active"] is False
    assert "requeueState" not in workload["status"]
    assert queues.condition("job", "DeactivationTarget") == {}
    assert counts(queues, "job") == {
        ("PodsReadyTimeout", "WaitForStart"): 1,
        ("Deactivated", "RequeuingLimitExceeded"): 1,
    }

    nodes(1, "4")
    queues.api.patch(JOBS, "job", queues.namespace, body={"metadata": {"labels": {TIMEOUT: "1h"}}})
    name = workload["metadata"]["name"]
    queues.api.patch(WORKLOADS, name, queues.namespace, body={"spec": {"active": True}})
    queues.await_admitted("job")
    queues.await_condition("job", "PodsReady", reason="Started")
    assert queues.condition("job", "Requeued")["reason"] == "Reactivated"
    assert "requeueState" not in status_of(queues, "job")


# -- what counts as ready


@pytest.mark.usefixtures("reconciler")
def test_a_training_job_of_which_a_worker_does_not_come_is_sent_back(
    queues: Queues, api: Api
) -> None:
    """Its operator says that it runs as soon as its master does."""
    api.apply(CRDS)
    queues.simple(cpu=8)
    job = kinds.kubeflow("PyTorchJob", "pytorchReplicaSpecs", Master=1, Worker=2)
    labels = {kinds.QUEUE: "queue", TIMEOUT: "1h", BASE: "600"}
    meta = {"name": "job", "namespace": queues.namespace, "labels": labels}
    operator = Operator(api, api.create({**job, "metadata": meta}))
    queues.await_admitted("job")
    api.wait_for("it is started", lambda: not operator.suspended, SECONDS)
    running = {"conditions": [{"type": "Running", "status": "True"}]}

    operator.report(
        {**running, "replicaStatuses": {"Master": {"active": 1}, "Worker": {"active": 2}}}
    )
    queues.await_condition("job", "PodsReady", reason="Started")
    operator.report(
        {**running, "replicaStatuses": {"Master": {"active": 1}, "Worker": {"active": 1}}}
    )
    queues.await_condition("job", "PodsReady", "False", reason="WaitForRecovery")
    resource = "kubeflow.org/v1/pytorchjobs"
    api.patch(resource, "job", queues.namespace, body={"metadata": {"labels": {RECOVERY: "1"}}})

    queues.await_condition("job", "Evicted", reason="PodsReadyTimeout")
    api.wait_for("it is stopped", lambda: operator.suspended, SECONDS)
    operator.stop()
    queues.await_condition("job", "QuotaReserved", "False")
    assert counts(queues, "job") == {("PodsReadyTimeout", "WaitForRecovery"): 1}


# -- over a restart
