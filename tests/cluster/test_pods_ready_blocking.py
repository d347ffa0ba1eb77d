"""Jobs that wait until the pods of those that were admitted before are ready."""

from collections.abc import Iterator

import pytest

from tests.cluster.alone import in_place_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.pods_ready import TIMEOUT, await_suspended, counts, status_of
from tests.cluster.queues import Queues
from tests.harness.control_plane import ControlPlane
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang")


@pytest.fixture(autouse=True)
def _free(queues: Queues) -> None:
    """Let jobs have settings of their own, whatever their ClusterQueue says."""
    queues.job_overrides = "*"


@pytest.fixture(scope="module")
def blocking(control_plane: ControlPlane, reconciler: Reconciler) -> Iterator[Reconciler]:
    """A reconciler in the place of the one that all tests share."""
    pods_ready = {
        "enable": True,
        "timeout": 6,
        "recoveryTimeout": "1h",
        "blockAdmission": True,
        "requeuingStrategy": {"backoffBaseSeconds": 600},
    }
    settings = {"queue": {"waitForPodsReady": pods_ready}}
    with in_place_of(reconciler, control_plane, "blocking", settings) as other:
        yield other


def test_while_pods_are_not_ready_no_other_job_is_admitted_and_then_the_next_one_is(
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
        reported = queues.await_condition(
            waits, "QuotaReserved", "False", reason="WaitingForPodsReady"
        )
        assert "1 admitted workload" in reported["message"]
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


def test_a_late_job_is_suspended_and_inadmissible_and_the_next_one_is_admitted(
    blocking: Reconciler, queues: Queues
) -> None:
    cluster_queue, _ = queues.simple(cpu=8)
    queues.job("late", run_for="1h")
    queues.await_admitted("late")
    queues.job("next", labels={TIMEOUT: "1h"}, run_for="1h")

    queues.await_condition("late", "Evicted", reason="PodsReadyTimeout")
    await_suspended(queues, "late")
    queues.await_condition("late", "Requeued", "False", reason="PodsReadyTimeout")
    assert "admission" not in status_of(queues, "late")
    state = status_of(queues, "late")["requeueState"]
    assert state["count"] == 1
    assert state["requeueAt"]
    assert counts(queues, "late") == {("PodsReadyTimeout", "WaitForStart"): 1}
    waiting = f'kueue_pending_workloads{{cluster_queue="{cluster_queue}",status="inadmissible"}}'
    queues.api.wait_for("it is counted", lambda: blocking.metric(waiting) == 1)
    evicted = (
        f'kueue_evicted_workloads_total{{cluster_queue="{cluster_queue}",priority_class="",'
        'reason="PodsReadyTimeout",underlying_cause="WaitForStart"}'
    )
    queues.api.wait_for("its eviction is counted", lambda: blocking.metric(evicted) == 1)

    queues.await_admitted("next")
