"""LeaderWorkerSets of a queue, beside the real operator: one gang for each replica."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.conftest import NodeFactory
from tests.cluster.held import held_in
from tests.cluster.partners.pools import Pools
from tests.cluster.partners.test_partners import NEEDS_NODES
from tests.cluster.partners.work import template
from tests.cluster.queues import API, QUEUE, Queues
from tests.cluster.services import NEW_IMAGE, SECONDS, Services
from tests.harness.client import Api, ApiError
from tests.harness.control_plane import ControlPlane
from tests.harness.objects import Object
from tests.harness.partners import LWS, start_partner, uninstall
from tests.harness.reconciler import Reconciler

pytestmark = [
    pytest.mark.xdist_group("LeaderWorkerSet"),
    pytest.mark.usefixtures("gang", "reconciler"),
]

SETS = "leaderworkerset.x-k8s.io/v1/leaderworkersets"
NAME = "leaderworkerset.sigs.k8s.io/name"
INDEX = "leaderworkerset.sigs.k8s.io/group-index"
GROUP = "scheduling.x-k8s.io/pod-group"


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane) -> Iterator[None]:
    """The operator, while it runs: it is asked about every pod."""
    running = start_partner(control_plane, LWS)
    yield
    running.stop()
    uninstall(control_plane, LWS)


@pytest.fixture
def services(api: Api, queues: Queues, operator: None) -> Iterator[Services]:
    probe = workers("probe", 1, queues.namespace)
    probe["metadata"]["labels"] = {QUEUE: "q"}
    path = f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{queues.namespace}/leaderworkersets"

    def known() -> bool:
        """Return whether policies know the kind, whose CRD may be new."""
        try:
            return bool(api.request("POST", path, body=probe, params={"dryRun": "All"}))
        except ApiError:
            return False

    with held_in(api, queues.namespace):
        api.wait_for("policies know LeaderWorkerSets", known, SECONDS)
        yield Services(api, queues, label=NAME)


def always(cpu: str = "1") -> Object:
    """Return a pod template; the operator makes StatefulSets of it."""
    found = template(cpu)
    found["spec"]["restartPolicy"] = "Always"
    return found


def workers(name: str, replicas: int, namespace: str, size: int = 3, **spec: Any) -> Object:
    """Return a LeaderWorkerSet of pods with a CPU each."""
    body = {"size": size, "workerTemplate": always(), **spec.pop("parts", {})}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": body, **spec},
    }


def groups(services: Services, name: str, pods: list[Object]) -> dict[str, int]:
    """Return the number of pods by index of the replica."""
    found: dict[str, int] = {}
    for pod in pods:
        index = pod["metadata"]["labels"][INDEX]
        found[index] = found.get(index, 0) + 1
    return found


def test_on_a_cluster_that_grows_each_replica_starts_from_zero_as_a_gang(
    grown: Pools, services: Services, queues: Queues
) -> None:
    grown.create()
    flavor = queues.flavor("grown", nodeLabels=grown.selector)
    cluster_queue, _ = queues.simple(cpu=16, flavor=flavor)
    queues.api.patch(f"{API}/clusterqueues", cluster_queue, body=NEEDS_NODES)

    services.create(workers("web", 2, queues.namespace, size=4))

    services.await_pods("web", running=8)
    assert grown.bought() == 2


def test_each_replica_has_its_own_quota_and_starts_whole(
    services: Services, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "16")
    queues.simple(cpu=7)
    services.create(workers("web", 3, queues.namespace))
    services.await_pods("web", running=6, waiting=3)
    assert sorted(groups(services, "web", services.running("web")).values()) == [3, 3]
    services.await_workloads(True, True, False)
    names = {each["metadata"]["name"] for each in services.workloads()}
    assert names == {"lws-web-0", "lws-web-1", "lws-web-2"}

    services.scale(SETS, "web", 1)
    services.await_pods("web", running=3)
    services.await_workloads(True)
    services.scale(SETS, "web", 2)
    services.await_pods("web", running=6)
    services.api.delete(SETS, "web", queues.namespace)
    services.await_workloads()


def test_a_replica_is_a_gang_where_room_is_required(
    services: Services, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(2, "2")
    cluster_queue, _ = queues.simple(cpu=16)
    queues.require_room(cluster_queue)
    services.create(workers("web", 2, queues.namespace, parts={"leaderTemplate": always()}))
    services.await_pods("web", running=3, waiting=3)

    nodes(1, "2", prefix="late")
    services.await_pods("web", running=6)
    for pod in services.running("web"):
        labels = pod["metadata"]["labels"]
        assert labels[GROUP] == f"lws-web-{labels[INDEX]}"
        leads = labels["leaderworkerset.sigs.k8s.io/worker-index"] == "0"
        assert labels["kueue.x-k8s.io/podset"] == ("leader" if leads else "worker")


def test_a_replica_that_is_made_again_goes_on_in_its_quota(
    services: Services, queues: Queues, nodes: NodeFactory, reconciler: Reconciler
) -> None:
    """Its pods end together (`RecreateGroupOnPodRestart`), in a rolling update after a restart."""
    nodes(1, "16")
    queues.simple(cpu=6)
    services.create(workers("web", 2, queues.namespace))
    services.await_pods("web", running=6)
    before = {each["metadata"]["uid"] for each in services.workloads()}
    services.create(workers("next", 1, queues.namespace, size=1))
    services.await_pods("next", running=0, waiting=1)

    leader = next(p for p in services.pods("web") if p["metadata"]["name"] == "web-0")
    services.api.delete("pods", "web-0", queues.namespace)

    def made_again() -> bool:
        uids = {p["metadata"]["uid"] for p in services.running("web")}
        return leader["metadata"]["uid"] not in uids and len(uids) == 6

    services.api.wait_for("the replica is made again", made_again, SECONDS)

    reconciler.restart()

    def change(spec: Object) -> None:
        found = spec["leaderWorkerTemplate"]["workerTemplate"]
        found["spec"]["containers"][0]["image"] = NEW_IMAGE

    services.change(SETS, "web", change)
    services.await_image("web", 6)
    kept = {w["metadata"]["uid"] for w in services.workloads()}
    assert before <= kept
    assert services.running("next") == []


def test_a_leader_that_comes_first_has_quota_for_its_workers(
    services: Services, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "16")
    cluster_queue, _ = queues.simple(cpu=5)
    queues.require_room(cluster_queue)
    services.create(workers("web", 2, queues.namespace, startupPolicy="LeaderReady"))
    services.await_pods("web", running=3, waiting=1)

    services.scale(SETS, "web", 1)
    services.await_pods("web", running=3)


def test_a_gang_of_a_leader_worker_set_that_starts_in_order_is_told_the_mend(
    services: Services, queues: Queues, nodes: NodeFactory
) -> None:
    nodes(1, "8")
    api, namespace = services.api, queues.namespace
    api.create(
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": namespace},
            "spec": {"minMember": 3},
        }
    )
    part = always()
    part["metadata"]["labels"] = {GROUP: "g"}
    ordered = workers(
        "web", 1, namespace, startupPolicy="LeaderReady", parts={"workerTemplate": part}
    )
    api.create(ordered)

    def told() -> bool:
        notes = api.notes(namespace, "StartsInOrder")
        return any("create it again with startupPolicy: LeaderCreated" in each for each in notes)

    api.wait_for("its PodGroup is told", told, SECONDS)
    api.delete(SETS, "web", namespace)
    api.wait_for("it is gone", lambda: not api.list("pods", namespace), SECONDS)
    api.create(workers("web", 1, namespace, parts={"workerTemplate": part}))
    services.await_pods("web", running=3)
