"""Jobs whose pods do not become ready in time: sent back, and others kept waiting meanwhile."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import API, JOBS, WORKLOADS, Queues
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang")

OWN = "scheduling.x-k8s.io"
TIMEOUT, RECOVERY = f"{OWN}/pods-ready-timeout", f"{OWN}/pods-ready-recovery-timeout"
BASE, LIMIT = f"{OWN}/pods-ready-backoff-base", f"{OWN}/pods-ready-backoff-limit"
SOON = {TIMEOUT: "2", BASE: "1"}
SECONDS = 60


@pytest.fixture
def blocking(control_plane: ControlPlane, reconciler: Reconciler) -> Iterator[Reconciler]:
    """A reconciler in the place of the one that all tests share."""
    reconciler.stop()
    settings = {
        "reconcile": {"leaderElect": False},
        "queue": {
            "waitForPodsReady": {
                "enable": True,
                "timeoutSeconds": 3,
                "recoveryTimeout": "1h",
                "blockAdmission": True,
                "requeuingStrategy": {"backoffBaseSeconds": 600},
            }
        },
    }
    other = Reconciler(control_plane, name="blocking", settings=settings)
    other.wait_leading()
    yield other
    other.stop()
    reconciler.start()


def _status(queues: Queues, job: str) -> Mapping[str, Any]:
    status: Mapping[str, Any] = (queues.workload(job) or {}).get("status", {})
    return status


def _counts(queues: Queues, job: str) -> dict[tuple[str, str], int]:
    found = _status(queues, job).get("schedulingStats", {}).get("evictions", [])
    return {(each["reason"], each["underlyingCause"]): each["count"] for each in found}


def _await_count(queues: Queues, job: str, least: int) -> None:
    def sent_back() -> bool:
        return _status(queues, job).get("requeueState", {}).get("count", 0) >= least

    queues.api.wait_for(f"{job} was sent back {least} times", sent_back, timeout=SECONDS)


def _await_suspended(queues: Queues, job: str) -> None:
    queues.api.wait_for(f"{job} is suspended", lambda: queues.is_suspended(job), timeout=SECONDS)


# -- one after the other


def test_while_pods_are_not_ready_nobody_else_is_admitted_and_then_the_next_one_is(
    blocking: Reconciler, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "1")
    queues.simple(cpu=8)
    queues.local_queue("other", queues.cluster_queue("other", cpu=8))
    patient = {TIMEOUT: "1h"}
    queues.job("first", 2, labels=patient, run_for="1h")
    queues.await_admitted("first")
    queues.job("second", labels=patient, run_for="1h")
    queues.job("elsewhere", queue="other", labels=patient, run_for="1h")

    for waits in ("second", "elsewhere"):
        told = queues.await_condition(waits, "QuotaReserved", "False", reason="WaitingForPodsReady")
        assert "1 admitted workload" in told["message"]
        assert queues.is_suspended(waits)
    assert queues.condition("first", "PodsReady")["reason"] == "WaitForStart"

    nodes(1, "1", prefix="more")
    queues.await_condition("first", "PodsReady", reason="Started")
    one, other = "second", "elsewhere"
    queues.api.wait_for(
        "one of both is admitted",
        lambda: any(queues.condition(x, "Admitted").get("status") == "True" for x in (one, other)),
    )
    if queues.condition(other, "Admitted").get("status") == "True":
        one, other = other, one
    queues.await_condition(other, "QuotaReserved", "False", reason="WaitingForPodsReady")
    assert queues.condition(one, "PodsReady")["status"] == "False"

    nodes(1, "4", prefix="many")
    queues.await_admitted("second", "elsewhere")
    queues.await_condition("second", "PodsReady")
    queues.await_condition("elsewhere", "PodsReady")


def test_the_next_one_is_admitted_when_the_one_that_is_not_ready_is_gone(
    blocking: Reconciler, queues: Queues
) -> None:
    queues.simple(cpu=8)
    queues.job("first", labels={TIMEOUT: "1h"}, run_for="1h")
    queues.await_admitted("first")
    queues.job("second", run_for="1h")
    queues.await_condition("second", "QuotaReserved", "False", reason="WaitingForPodsReady")

    queues.api.delete(JOBS, "first", queues.namespace)
    queues.await_admitted("second")


def test_for_a_job_that_nobody_waits_for_nobody_is_kept(
    blocking: Reconciler, queues: Queues
) -> None:
    queues.simple(cpu=8)
    queues.job("first", labels={f"{OWN}/wait-for-pods-ready": "false"}, run_for="1h")
    queues.await_admitted("first")
    queues.job("second", run_for="1h")

    queues.await_admitted("second")
    assert queues.condition("first", "PodsReady") == {}


def test_who_is_late_is_suspended_and_inadmissible_and_the_next_one_is_admitted(
    blocking: Reconciler, queues: Queues
) -> None:
    cluster_queue, _ = queues.simple(cpu=8)
    queues.job("late", run_for="1h")
    queues.await_admitted("late")
    queues.job("next", labels={TIMEOUT: "1h"}, run_for="1h")

    queues.await_condition("late", "Evicted", reason="PodsReadyTimeout")
    _await_suspended(queues, "late")
    queues.await_condition("late", "Requeued", "False", reason="PodsReadyTimeout")
    assert "admission" not in _status(queues, "late")
    state = _status(queues, "late")["requeueState"]
    assert state["count"] == 1
    assert state["requeueAt"]
    assert _counts(queues, "late") == {("PodsReadyTimeout", "WaitForStart"): 1}
    waiting = f'kueue_pending_workloads{{cluster_queue="{cluster_queue}",status="inadmissible"}}'
    assert blocking.metric(waiting) == 1
    evicted = (
        f'kueue_evicted_workloads_total{{cluster_queue="{cluster_queue}",priority_class="",'
        'reason="PodsReadyTimeout",underlying_cause="WaitForStart"}'
    )
    assert blocking.metric(evicted) == 1

    queues.await_admitted("next")


# -- time-outs, with nobody held for them


def test_who_was_late_is_admitted_again_and_runs_once_there_is_room(
    reconciler: Reconciler, queues: Queues, nodes: NodeFactory
) -> None:
    cluster_queue, _ = queues.simple(cpu=1)
    queues.job("job", labels=SOON, run_for="1h")
    _await_count(queues, "job", 2)

    nodes(1, "4")
    queues.api.patch(JOBS, "job", queues.namespace, body={"metadata": {"labels": {TIMEOUT: "1h"}}})

    queues.api.wait_for(
        "its pods are ready",
        lambda: queues.condition("job", "PodsReady").get("status") == "True",
        timeout=SECONDS,
    )
    assert queues.condition("job", "Requeued")["reason"] == "BackoffFinished"
    assert queues.condition("job", "Evicted")["status"] == "False"
    state = _status(queues, "job")["requeueState"]
    assert state["count"] >= 2
    assert "requeueAt" not in state
    labels = f'cluster_queue="{cluster_queue}",priority_class=""'
    for name in ("ready_wait_time", "admitted_until_ready_wait_time"):
        assert reconciler.metric(f"kueue_{name}_seconds_count{{{labels}}}") == 1


def test_who_is_late_too_often_is_deactivated_and_begins_anew_when_it_is_activated(
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
    _await_suspended(queues, "job")
    queues.await_condition("job", "QuotaReserved", "False")
    workload = queues.workload("job")
    assert workload is not None
    assert workload["spec"]["active"] is False
    assert "requeueState" not in workload["status"]
    assert queues.condition("job", "DeactivationTarget") == {}
    assert _counts(queues, "job") == {
        ("PodsReadyTimeout", "WaitForStart"): 1,
        ("Deactivated", "RequeuingLimitExceeded"): 1,
    }

    nodes(1, "4")
    name = workload["metadata"]["name"]
    queues.api.patch(WORKLOADS, name, queues.namespace, body={"spec": {"active": True}})
    queues.await_admitted("job")
    queues.await_condition("job", "PodsReady", reason="Started")
    assert queues.condition("job", "Requeued")["reason"] == "Reactivated"
    assert "requeueState" not in _status(queues, "job")


@pytest.mark.usefixtures("reconciler")
def test_pods_that_are_no_longer_ready_may_take_their_time_to_recover_and_no_more(
    queues: Queues, nodes: NodeFactory, api: Api
) -> None:
    [node] = nodes(1, "4")
    queues.simple(cpu=2)
    queues.job("job", 2, labels={RECOVERY: "1h", BASE: "600"}, run_for="1h")
    queues.await_condition("job", "PodsReady", reason="Started")

    def lose_one(*, cordoned: bool) -> None:
        api.patch("nodes", node, body={"spec": {"unschedulable": cordoned}})
        first = next(
            pod["metadata"]["name"]
            for pod in api.list("pods", queues.namespace)
            if pod["spec"].get("nodeName")
        )
        api.delete("pods", first, queues.namespace, grace_seconds=0)

    lose_one(cordoned=True)
    queues.await_condition("job", "PodsReady", "False", reason="WaitForRecovery")
    api.patch("nodes", node, body={"spec": {"unschedulable": False}})
    queues.await_condition("job", "PodsReady", reason="Recovered")
    assert not queues.is_suspended("job")

    api.patch(JOBS, "job", queues.namespace, body={"metadata": {"labels": {RECOVERY: "2"}}})
    lose_one(cordoned=True)
    queues.await_condition("job", "Evicted", reason="PodsReadyTimeout")
    _await_suspended(queues, "job")
    queues.await_condition("job", "QuotaReserved", "False")
    assert _counts(queues, "job") == {("PodsReadyTimeout", "WaitForRecovery"): 1}


@pytest.mark.usefixtures("reconciler")
def test_a_cluster_queue_has_times_of_its_own_and_a_job_the_last_word(queues: Queues) -> None:
    cluster_queue, _ = queues.simple(cpu=2)
    queues.job("short", run_for="1h")
    queues.job("long", labels={TIMEOUT: "1h"}, run_for="1h")
    queues.await_admitted("short", "long")
    annotations = {TIMEOUT: "1s", BASE: "600"}
    queues.api.patch(
        f"{API}/clusterqueues", cluster_queue, body={"metadata": {"annotations": annotations}}
    )

    queues.await_condition("short", "Evicted", reason="PodsReadyTimeout")
    _await_suspended(queues, "short")
    assert not queues.condition("long", "Evicted")
    assert not queues.is_suspended("long")
