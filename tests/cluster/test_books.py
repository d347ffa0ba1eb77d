"""The books follow a real API server: what they find, and what a restart of it does to them."""

from collections.abc import Iterator

import pytest

from tests.cluster import faults
from tests.cluster.alone import alone
from tests.harness import objects
from tests.harness.books.bookkeeper import Bookkeeper
from tests.harness.books.ledger import Findings
from tests.harness.client import Api
from tests.harness.control_plane import ControlPlane
from tests.tiers import LONG

control_plane, api = alone()
pytestmark = [
    pytest.mark.overcommits("they are made here, to be found"),
    pytest.mark.collisions(1),
]

NOTHING = Findings([], [])


@pytest.fixture
def books(control_plane: ControlPlane) -> Iterator[Bookkeeper]:
    with Bookkeeper(control_plane.admin_kubeconfig) as books:
        yield books


@pytest.fixture
def node(api: Api) -> Iterator[str]:
    """A node with room for two pods of one CPU; neither a scheduler nor a kubelet is there."""
    api.create(objects.node("small", "2"))
    yield "small"
    api.delete_all("pods", "default", grace_seconds=0)
    api.delete("nodes", "small")


def bind(api: Api, name: str, node: str) -> bool:
    """Bind a pod; return True, for `wait_for`."""
    faults.bind(api, "default", name, node)
    return True


def test_bindings_beyond_the_room_of_a_node_are_found(
    api: Api, books: Bookkeeper, node: str
) -> None:
    names = [f"pod-{number}" for number in range(3)]
    api.create(*(objects.pod(name, "1", group="g") for name in names))
    for name in names[:2]:
        bind(api, name, node)
    books.settle(api)
    assert books.ask() == NOTHING
    assert books.partial({"default/g": 3}) == ["default/g"]
    bind(api, names[2], node)
    books.settle(api)
    [breach] = books.ask().breaches
    assert breach.startswith("small has 3000 of 2000 cpu in use with default/pod-2 (version ")
    assert books.partial({"default/g": 3}) == []
    assert (books.bound, books.gaps) == (3, 0)


@LONG
def test_the_books_outlive_a_restart_of_the_api_server(
    control_plane: ControlPlane, api: Api, books: Bookkeeper, node: str
) -> None:
    api.create(*(objects.pod(f"pod-{number}", "1") for number in range(3)))
    for number in range(2):
        bind(api, f"pod-{number}", node)
    books.settle(api)
    control_plane.apiserver.kill()
    control_plane.apiserver.start()
    control_plane.wait_ready()
    api.wait_for("it binds again", lambda: bind(api, "pod-2", node))
    books.settle(api)
    assert len(books.ask().breaches) == 1
