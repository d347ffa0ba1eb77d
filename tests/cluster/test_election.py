"""Several reconcilers, of which one works."""

import os
import signal
from collections.abc import Iterator

import httpx
import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.gangs import Gangs
from tests.cluster.groups import SECONDS, Groups
from tests.cluster.queues import Queues
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.harness.gang_scheduler import NAMESPACE
from tests.harness.reconciler import Reconciler
from tests.harness.started import fetch, metrics
from tests.tiers import long_but_for

LEASES = "coordination.k8s.io/v1/leases"
LEASE = "gang-extender-reconciler"
QUICK = {"reconcile": {"leaseSeconds": 15, "renewSeconds": 10, "retrySeconds": 0.3}}


@pytest.fixture(scope="module")
def replicas(
    control_plane: ControlPlane, api: Api, reconciler: Reconciler
) -> Iterator[tuple[Reconciler, Reconciler]]:
    """Two replicas. The one of the other tests, which runs no election, rests."""
    reconciler.stop()
    first = Reconciler(control_plane, name="first", settings=QUICK)
    first.wait_leading()
    second = Reconciler(control_plane, name="second", settings=QUICK)
    yield first, second
    for each in (first, second):
        each.stop()
    api.delete(LEASES, LEASE, NAMESPACE)
    reconciler.start()


@pytest.fixture
def pair(
    control_plane: ControlPlane, replicas: tuple[Reconciler, Reconciler]
) -> tuple[Reconciler, Reconciler]:
    """Both replicas: the one that leads, and one that never has since it started."""
    for each in replicas:
        if not each.process.running:
            each.process.start()
        each.wait_ready()
    control_plane.wait_until(
        "one leads", lambda: [each.leads for each in replicas].count(True) == 1
    )
    first, second = replicas
    return (first, second) if first.leads else (second, first)


def holder(api: Api) -> str:
    return str(api.get(LEASES, LEASE, NAMESPACE)["spec"].get("holderIdentity") or "")


@pytest.mark.parametrize("end", long_but_for(["kill", "stop"], "kill"))
def test_the_second_goes_on_where_the_first_ended(
    end: str,
    pair: tuple[Reconciler, Reconciler],
    api: Api,
    gangs: Gangs,
    nodes: NodeFactory,
) -> None:
    first, second = pair
    groups = Groups(api, gangs.namespace)
    gangs.create("g", 3, gates=["harness/never"])
    groups.await_reported("Gated", "0 of the 3 pods that it needs are free of gates")
    api.wait_for("there is an Event", lambda: groups.reasons() == ["Gated"], SECONDS)
    before = groups.status(), holder(api)
    assert (first.leads, second.leads) == (True, False)

    if end == "kill":
        first.process.kill()
    else:
        first.stop()
        assert first.process.exit_code == 0
    second.wait_leading()
    second.await_looks()
    assert groups.status() == before[0]
    assert holder(api) != before[1]
    gangs.delete(["g-2"])
    groups.await_status(phase="Pending")
    gangs.add("g", 1, start=2, gates=["harness/never"])
    api.wait_for("there is an Event", lambda: len(groups.reasons()) == 2, SECONDS)
    assert groups.reasons() == ["Gated", "Gated"]


def test_a_leader_that_was_out_for_too_long_ends_and_writes_no_more(
    pair: tuple[Reconciler, Reconciler], api: Api
) -> None:
    first, second = pair
    os.kill(first.process.pid, signal.SIGSTOP)
    second.wait_leading()
    mine = holder(api)
    os.kill(first.process.pid, signal.SIGCONT)

    assert first.process.wait(SECONDS) == 1
    assert "lease" in first.process.tail(3) or "leads now" in first.process.tail(3)
    assert second.leads
    assert holder(api) == mine


def test_a_replica_that_waits_is_ready_and_writes_nothing(
    pair: tuple[Reconciler, Reconciler], api: Api, gangs: Gangs
) -> None:
    first, second = pair
    groups = Groups(api, gangs.namespace)
    gangs.create("g", 2, min_member=3, gates=["harness/never"])
    groups.await_status(phase="Pending")
    second.wait_ready()

    first.await_looks()
    assert second.looks == 0
    assert second.metric('gang_extender_events_total{result="written"}') == 0


def test_a_replica_that_waits_names_the_leader_and_has_no_numbers_of_queues(
    pair: tuple[Reconciler, Reconciler], api: Api, queues: Queues
) -> None:
    first, second = pair
    cluster_queue, _ = queues.simple()
    queues.await_active(cluster_queue)
    path = f"/clusterqueues/{cluster_queue}/pendingworkloads"

    def asked(replica: Reconciler) -> httpx.Response:
        return fetch(replica.url + path)

    def names_the_leader() -> bool:
        reported = asked(second)
        return reported.status_code == 503 and holder(api) in reported.json()["message"]

    api.wait_for("the leader knows the queue", lambda: asked(first).status_code == 200, SECONDS)
    api.wait_for("the other one knows the leader", names_the_leader, SECONDS)
    number = f'kueue_cluster_queue_status{{cluster_queue="{cluster_queue}",status="active"}}'
    assert [replica.metric(number) for replica in pair] == [1, 0]
    pages = [metrics(each.url) for each in pair]
    assert ["kueue_pending_workloads" in page for page in pages] == [True, False]
