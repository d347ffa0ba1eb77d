"""One real control plane for the session; a namespace and nodes for each test."""

from collections.abc import Collection, Iterator
from typing import Any, Protocol
from uuid import uuid4

import pytest

from tests.cluster.alone import namespace_of, pair_of, priority_class
from tests.cluster.gangs import PATIENT, Gangs
from tests.cluster.leftovers import gone, sweep
from tests.cluster.queues import WORKLOADS, Queues
from tests.cluster.tenants import EDIT, USER, WRITES, Others, Tenant, bind, may_list
from tests.harness import objects
from tests.harness.books.bookkeeper import Bookkeeper
from tests.harness.client import Api, condition
from tests.harness.control_plane import ControlPlane
from tests.harness.faulty_proxy import FaultyProxy
from tests.harness.gang_scheduler import GangScheduler
from tests.harness.process import warm_starts
from tests.harness.reconciler import Reconciler

LONG = 120.0
"""Seconds: a thousand pods take a slow machine long to delete."""

MOST_COLLISIONS = 6
"""Pods of a test that may be bound while kube-scheduler tries them: the price of a gang that is
bound together with others (docs/reference/limits.md). Which of the two is first with a small gang
that comes to a kube-scheduler without work is a race, so this is no measure: `make bench` counts
them."""
IN_CACHE = "is in the cache, so can't be assumed"
"""What kube-scheduler says where it sees a pod on a node in the middle of its cycle."""


class NodeFactory(Protocol):
    """Makes nodes that are gone after the test."""

    def __call__(
        self, count: int = 1, cpu: str | int = "4", *, prefix: str = "node", **options: Any
    ) -> list[str]:
        """Return the names of new nodes that are Ready; options of objects.node.

        They begin with `prefix` and are of this test alone.
        """


@pytest.fixture(scope="session", autouse=True)
def _warm_starts() -> Iterator[None]:
    with warm_starts():
        yield


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """etcd, API server, controllers and simulated kubelets; one per xdist worker."""
    with ControlPlane() as control_plane:
        yield control_plane


@pytest.fixture(scope="session")
def api(control_plane: ControlPlane) -> Iterator[Api]:
    """The API server, with all rights."""
    with Api(control_plane.admin_kubeconfig) as api:
        yield api


@pytest.fixture(scope="module")
def books(control_plane: ControlPlane) -> Iterator[Bookkeeper]:
    """Books of what is on the nodes of the control plane, apart from the extender's own."""
    with Bookkeeper(control_plane.admin_kubeconfig) as books:
        yield books


@pytest.fixture(autouse=True)
def nothing_is_overcommitted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which a scheduler put more on a node than it has, at any event.

    Or in which a pod of an admitted workload lacked what admission gives, or the live pods of one
    asked for more than it was given.

    `@pytest.mark.overcommits(why)` allows the first, `@pytest.mark.misplaces(why)` the second, and
    `@pytest.mark.collisions(most)` so many pods that were bound while kube-scheduler tried them.
    Where a bind call got no answer, or another client was faster, kube-scheduler writes its failure
    on a pod with a node too: no collision.
    """
    if "control_plane" not in request.fixturenames:
        yield
        return
    books: Bookkeeper = request.getfixturevalue("books")
    api: Api = request.getfixturevalue("api")
    yield
    books.settle(api)
    found = books.ask()
    if request.node.get_closest_marker("overcommits") is None:
        assert found.breaches == []
    if request.node.get_closest_marker("misplaces") is None:
        assert found.misplaced == []
    mark = request.node.get_closest_marker("collisions")
    most = mark.args[0] if mark else MOST_COLLISIONS
    collided = [each for each in found.collisions if IN_CACHE in each]
    assert len(collided) <= most, collided


@pytest.fixture(scope="session")
def gang(control_plane: ControlPlane) -> Iterator[GangScheduler]:
    """The extender and its kube-scheduler, with the settings that we ship."""
    scheduler = GangScheduler(control_plane)
    yield scheduler
    scheduler.stop()


patient_gang = pair_of(PATIENT, scope="session", settings={"gang": {"rejectPercentage": 100}})
"""A member for which kube-scheduler finds no node does not send the others away, so that a test can
have bind requests held for as long as it likes."""
aging_gang = pair_of(
    "aging", scope="session", settings={"gang": {"agingSeconds": 2, "claimNodesPercentage": 100}}
)
"""It sets nodes aside after two seconds."""
strict_gang = pair_of("strict", scope="session", settings={"gang": {"strictOrder": True}})
"""No group passes another."""
high = priority_class(1000)
"""Above that of other pods."""


@pytest.fixture(scope="module")
def proxy(control_plane: ControlPlane) -> Iterator[FaultyProxy]:
    """The proxies that may lie between a process and the API server."""
    with FaultyProxy(control_plane, seed=1) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def reconciler(control_plane: ControlPlane) -> Iterator[Reconciler]:
    """One replica of the reconciler, without an election."""
    settings = {"reconcile": {"leaderElect": False}, "gang": {"evictAfterSeconds": 2}}
    reconciler = Reconciler(control_plane, settings=settings)
    reconciler.wait_leading()
    yield reconciler
    reconciler.stop()


def emptied(api: Api, nodes: Collection[str]) -> bool:
    """Delete what is on nodes, whatever finalizers it has; return whether nothing was left."""
    pods = [pod for pod in api.list("pods") if pod["spec"].get("nodeName") in nodes]
    return gone(api, "pods", pods)


@pytest.fixture
def nodes(api: Api) -> Iterator[NodeFactory]:
    """Nodes of names that no other test has used.

    For some seconds it counts for nothing what kube-scheduler says of a node that is made anew, and
    for a minute nothing is bound ahead to where a scheduler of another test had a pod.
    """
    made: list[str] = []
    own = uuid4().hex[:8]

    def make(
        count: int = 1, cpu: str | int = "4", *, prefix: str = "node", **options: Any
    ) -> list[str]:
        names = [f"{prefix}-{own}-{number}" for number in range(count)]
        made.extend(names)  # before they are there: half a set is deleted too
        api.create(*(objects.node(name, cpu, **options) for name in names))
        wanted = set(names)

        def ready() -> bool:
            return wanted <= {
                node["metadata"]["name"] for node in api.list("nodes") if condition(node, "Ready")
            }

        api.wait_for(f"{count} nodes are Ready", ready)
        return names

    yield make
    # A pod of a Job stays until the Job controller has counted it, and would take room from nodes
    # of the same name in the next test.
    api.wait_for("nothing is left on the nodes", lambda: emptied(api, made), LONG)
    for name in made:
        api.delete("nodes", name)


@pytest.fixture
def namespace(api: Api, nodes: NodeFactory) -> Iterator[str]:
    """A fresh namespace. It goes before the nodes, so that its pods end as on a real cluster."""
    name = namespace_of(api)
    yield name
    sweep(api, name)


@pytest.fixture
def gangs(api: Api, namespace: str) -> Gangs:
    """Gangs in a fresh namespace."""
    return Gangs(api, namespace)


@pytest.fixture
def queues(api: Api, namespace: str) -> Iterator[Queues]:
    """Queues for jobs in a fresh namespace."""
    made = Queues(api, namespace)
    yield made
    made.clean()


@pytest.fixture
def tenant(
    control_plane: ControlPlane, api: Api, nodes: NodeFactory, queues: Queues
) -> Iterator[Tenant]:
    """The tenant, in a namespace of its own."""
    name = f"tenant-{uuid4().hex[:8]}"
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    api.apply(WRITES)
    # No controller here puts `edit` together; this is what it is made of.
    api.create(*(bind(name, role) for role in EDIT))
    with Api(control_plane.kubeconfig(USER, ["tenants"])) as own:
        api.wait_for("the tenant has its rights", lambda: may_list(own, name, WORKLOADS, "pods"))
        yield Tenant(own, name, Gangs(own, name), Queues(own, name))
    sweep(api, name)


@pytest.fixture
def others(queues: Queues, gangs: Gangs, nodes: NodeFactory) -> Others:
    """Another namespace with quota of its own, on four nodes of four CPUs."""
    names = nodes(4, "4")
    queues.simple(cpu=8)
    return Others(queues, gangs, names)
