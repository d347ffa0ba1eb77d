"""Whether an owner of any kind is there."""

import json
from typing import Any

import pytest

from extender.kube.errors import ForbiddenError, NotFoundError, UnavailableError
from extender.kube.queues import Owners
from extender.state.queue.records import OwnerRef

CLUSTER = OwnerRef("ray.io/v1", "RayCluster", "mine", "uid-1")
KINDS = {
    "resources": [
        {"name": "rayclusters/status", "kind": "RayCluster", "namespaced": True},
        {"name": "rayclusters", "kind": "RayCluster", "namespaced": True},
        {"name": "fleets", "kind": "Fleet", "namespaced": False},
    ]
}


class Client:
    """Answers by path; an error is raised."""

    def __init__(self, **found: Any) -> None:
        self.answers: dict[str, Any] = {"/apis/ray.io/v1": KINDS}
        self.asked: list[str] = []

    async def request(self, method: str, path: str) -> bytes:
        assert method == "GET"
        self.asked.append(path)
        answer = self.answers.get(path, NotFoundError("no"))
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer).encode()


@pytest.fixture
def client() -> Client:
    return Client()


PATH = "/apis/ray.io/v1/namespaces/ns/rayclusters/mine"


@pytest.mark.parametrize(
    ("answer", "exists"),
    [
        ({"metadata": {"name": "mine", "uid": "uid-1"}}, True),
        ({"metadata": {"name": "mine", "uid": "another"}}, False),
        (NotFoundError("gone"), False),
        (ForbiddenError("not for you"), None),
    ],
)
async def test_an_owner_is_asked_for(client: Client, answer: Any, *, exists: bool | None) -> None:
    client.answers[PATH] = answer
    owners = Owners(client)  # type: ignore[arg-type]
    assert await owners.exists(CLUSTER, "ns") is exists
    assert await owners.exists(CLUSTER, "ns") is exists
    if exists:
        assert client.asked == ["/apis/ray.io/v1", PATH, PATH]


async def test_a_kind_that_is_not_served_has_no_objects(client: Client) -> None:
    owners = Owners(client)  # type: ignore[arg-type]
    assert await owners.exists(OwnerRef("ray.io/v1", "Other", "o", "u"), "ns") is False
    assert await owners.exists(OwnerRef("gone.io/v1", "Other", "o", "u"), "ns") is False


async def test_an_owner_without_a_namespace_is_found(client: Client) -> None:
    client.answers["/apis/ray.io/v1/fleets/f"] = {"metadata": {"name": "f", "uid": "u"}}
    owners = Owners(client)  # type: ignore[arg-type]
    assert await owners.exists(OwnerRef("ray.io/v1", "Fleet", "f", "u"), "ns") is True


async def test_passing_trouble_says_nothing(client: Client) -> None:
    client.answers[PATH] = UnavailableError("down")
    with pytest.raises(UnavailableError):
        await Owners(client).exists(CLUSTER, "ns")  # type: ignore[arg-type]
