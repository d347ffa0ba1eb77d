"""Room is kept for a job of a queue that has waited for it for long."""

from collections.abc import Iterator

import pytest

from tests.cluster.alone import in_place_of
from tests.cluster.conftest import NodeFactory
from tests.cluster.queues import Queues
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("gang")

KEPT = "room for 4 pods is kept on 2 nodes"


@pytest.fixture(scope="module")
def aging(control_plane: ControlPlane, reconciler: Reconciler) -> Iterator[Reconciler]:
    """A reconciler in the place of the one that all tests share."""
    settings = {"queue": {"requireRoom": True, "agingSeconds": 1}}
    with in_place_of(reconciler, control_plane, "aging-queue", settings) as other:
        yield other


def test_small_jobs_do_not_pass_a_wide_one_that_has_waited_long(
    aging: Reconciler, api: Api, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(2, "2")
    queues.simple(cpu=32)
    for name in ("first", "second"):
        queues.job(name, 2, run_for="1h")
        queues.await_started(name)
    queues.job("wide", 4, run_for="1h")

    kept = queues.await_condition("wide", "RoomReserved", reason="WaitedLong")
    assert kept["message"] == KEPT
    queues.await_condition("wide", "QuotaReserved", "False", reason="WaitingForRoom")
    assert aging.metric("gang_extender_queue_reserved_workloads") == 1

    # The next process knows it too, and begins with room for a small job alone.
    aging.stop()
    queues.job("small", 2, run_for="1h")
    queues.end_pods("first")
    queues.await_ended("first")
    aging.start()
    waits = queues.await_condition("small", "QuotaReserved", "False", reason="WaitingForRoom")
    assert waits["message"].startswith("quota yes; room for 0 of 2")
    assert queues.condition("wide", "RoomReserved") == kept

    queues.end_pods("second")
    queues.await_started("wide")
    assert queues.condition("wide", "RoomReserved") == {}
    assert queues.is_suspended("small")
    queues.end_pods("wide")
    queues.await_started("small")
